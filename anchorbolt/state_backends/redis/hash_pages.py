"""A hash of Redis from end to end, page by page, by whatever command gives a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from anchorbolt.state_backends.redis.client import RedisClient


def hash_pages(client: RedisClient, namespace: str, key: str, page_size: int) -> Iterator[dict[bytes, bytes]]:
    """Yield the fields and values of the hash `key` in pages; errors name `namespace`."""

    def command(cursor: int) -> tuple[Any, ...]:
        return ("HSCAN", key, cursor, "COUNT", page_size)

    return pages_by(client, namespace, key, page_size, command, lambda reply: reply)


def pages_by(
    client: RedisClient,
    namespace: str,
    key: str,
    page_size: int,
    command: Callable[[int], tuple[Any, ...]],
    answer: Callable[[Any], tuple[int, Mapping[bytes, bytes]]],
) -> Iterator[dict[bytes, bytes]]:
    """Yield the fields and values of a hash in pages of `page_size` at most.

    Args:
        client: Where it is.
        namespace: What errors are to name.
        key: The hash, or another key that lies with it.
        page_size: The most entries of a page.
        command: Gives the command for a cursor, the first of which is 0.
        answer: Gives the next cursor, 0 at the end, and the entries that a reply holds.
    """
    cursor, found = answer(client.command(namespace, *command(0)))
    if cursor == 0:  # a small hash comes as a whole, whatever the count
        yield from _paged(found, page_size)
        return
    # A cursor means nothing to a server that has been started since, or to a replica that took over: entries would
    # be left out. So all pages come over one connection, and a scan that loses it fails.
    with client.connection(namespace, key) as run:
        cursor = 0
        while True:
            cursor, found = answer(run(*command(cursor)))
            yield from _paged(found, page_size)
            if cursor == 0:
                return


def _paged(found: Mapping[bytes, bytes], page_size: int) -> Iterator[dict[bytes, bytes]]:
    entries = list(found.items())
    for start in range(0, len(entries), page_size):
        yield dict(entries[start : start + page_size])
