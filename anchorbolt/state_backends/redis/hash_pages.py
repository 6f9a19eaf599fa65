"""Reads a hash of a namespace page by page, with HSCAN or with a script that returns pages."""

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
    """Yield the fields and values of a hash in pages of at most `page_size` entries.

    `command` returns the command for a cursor, which starts at 0. `answer` returns the next cursor (0 at the end) and
    the entries of a reply. `key` is any key on the same server.
    """
    cursor, found = answer(client.command(namespace, *command(0)))
    if cursor == 0:  # Redis returns a small hash as a whole
        yield from _paged(found, page_size)
        return
    # A cursor is invalid after a restart of the server, and on a replica that took over: entries would be missing. So
    # all pages are read over one connection, and a scan that loses it fails.
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
