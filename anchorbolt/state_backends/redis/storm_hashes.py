"""Hashes that Storm wrote to Redis or Redis Cluster: the tools for Storm's state read, write and rename them.

A topology's state uses `storage` instead. A `HashConnection` never reconnects: a WATCH must last from the first page
read until EXEC, and a scan must read from one server. After a lost connection, a restart or a failover it raises an
error.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import hiredis
from redis.crc import key_slot

from anchorbolt.errors import StateUnavailable
from anchorbolt.state_backends.redis.addresses import RedisAddress, RedisServer
from anchorbolt.state_backends.redis.client import RedisClient
from anchorbolt.state_backends.redis.errors import REDIS_ERRORS, Advice

FieldsAndValues = list[bytes]
"""Fields and values alternating, as in Redis's commands and replies."""

_PAGE_BYTES = 1 << 20
_PAGE_ENTRIES = 2000
_FIRST_PAGE_ENTRIES = 100

_ADVICE = Advice(
    use_server="leave out --cluster",
    use_cluster="add --cluster",
    commands="TYPE, PTTL, SCAN, HSCAN, HLEN, HMGET, HEXISTS, HSET, WATCH, MULTI, EXEC, RENAME, RENAMENX, UNLINK",
    not_ours="Name a namespace of Storm's",
    too_long="raise proto-max-bulk-len in redis.conf",
)


class RedisHashes(RedisClient):
    """The hashes at one address; a context manager that closes its connections. It connects on first use."""

    def __init__(self, address: RedisAddress, advice: Advice = _ADVICE) -> None:
        super().__init__(address, advice)

    def __enter__(self) -> RedisHashes:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def describe(self) -> str:
        return str(self.address)

    @property
    def listing(self) -> str:
        """What lists the namespaces, for messages."""
        return "redis-cli --scan --pattern '*$txid'"

    def names(self, prefix: bytes) -> Iterator[bytes]:
        """Yield the keys that start with `prefix`; a key may come twice."""
        return self.keys(re.sub(r"([*?\[\]\\^])", r"\\\1", prefix.decode()) + "*")

    def types(self, keys: Sequence[bytes]) -> Mapping[bytes, str]:
        """Return the type of each key as Redis names it; `none` if the key does not exist."""
        return {key: self.command(shown(key), "TYPE", key).decode() for key in keys}

    def length(self, key: bytes) -> int:
        """Return the number of fields of a hash, 0 if it does not exist."""
        return int(self.command(shown(key), "HLEN", key))

    def entries(self, key: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the fields and values of a hash, about 1 MiB at a time; an entry may come twice."""
        with self.connection(key) as connection:
            for page in connection.pages(key):
                yield list(zip(page[::2], page[1::2], strict=True))

    def fields(self, key: bytes, fields: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of some fields of a hash, None for missing ones."""
        values: list[bytes | None] = self.command(shown(key), "HMGET", key, *fields)
        return values

    def remove(self, keys: Sequence[bytes]) -> None:
        """Remove keys, ignoring missing ones."""
        for key in keys:
            self.command(shown(key), "UNLINK", key)

    def together(self, keys: Sequence[bytes]) -> bool:
        """Whether one transaction can hold all these keys."""
        return isinstance(self.address, RedisServer) or len(set(map(key_slot, keys))) <= 1

    def sibling(self, key: bytes, suffix: bytes) -> bytes:
        """Return `key` with a suffix, as a name that one transaction can use together with `key`.

        In a cluster the key gets braces. A key with unusual braces gets a number with the same slot, in braces, before
        it.
        """
        tag = re.search(rb"{([^}]*)}", key)
        if isinstance(self.address, RedisServer) or (tag and tag[1]):
            return key + suffix
        if b"{" not in key and b"}" not in key:
            return b"{" + key + b"}" + suffix
        wanted = key_slot(key)
        number = next(number for number in range(1 << 24) if key_slot(b"%d" % number) == wanted)
        return b"{%d}" % number + key + suffix

    @contextmanager
    def connection(self, key: bytes) -> Iterator[HashConnection]:
        """Open a connection to the server that has `key` now. The end of the block closes it and its WATCH."""
        with self.single(shown(key), key) as server:
            connection = HashConnection(self, shown(key), server.connection)
            try:
                yield connection
            finally:
                connection.close()  # before it returns to the pool, so that no watch or reply stays on it


class HashConnection:
    """One connection to one server, on which commands are sent ahead of their replies.

    An error closes it; after that every call raises `StateUnavailable`. Not thread-safe.
    """

    def __init__(self, client: RedisClient, namespace: str, connection: Any) -> None:
        self._client = client
        self._namespace = namespace
        self._connection = connection
        self._written: list[list[bytes]] = []  # values of pages that are not confirmed

    def send(self, *commands: Sequence[bytes | str]) -> None:
        """Send commands, whose replies come in the same order.

        Arguments must not be numbers: a signal while hiredis (3.0 to 3.5 at least) formats a number ends the process
        with a segmentation fault.
        """
        # hiredis packs the commands: redis-py would check the type of each argument, which doubles the time.
        packed = [hiredis.pack_command(tuple(command)) for command in commands]  # type: ignore[arg-type]
        with self._opened() as connection:
            connection.send_packed_command(packed, check_health=False)

    def receive(self) -> Any:
        with self._opened() as connection:
            return connection.read_response()

    def run(self, *command: bytes | str) -> Any:
        """Run a command and return its reply."""
        self.send(command)
        return self.receive()

    def close(self) -> None:
        """Close the connection, which ends its watches. May be called more than once."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        # redis-py would reconnect by itself, without the watches.
        if self._connection is None:
            raise StateUnavailable(
                f"the connection to {self._client.address} was lost: start again", namespace=self._namespace
            )
        with self._client.translating(self._namespace):
            try:
                yield self._connection
            except REDIS_ERRORS:
                self.close()
                raise

    def watch(self, *keys: bytes) -> None:
        """Make the next transaction do nothing if one of the keys changes before it."""
        self.run("WATCH", *keys)

    def exists(self, key: bytes) -> bool:
        return bool(self.run("TYPE", key) != b"none")

    def expires(self, key: bytes) -> bool:
        """Whether a key has an expiry time; False if the key does not exist."""
        return int(self.run("PTTL", key)) >= 0

    def length(self, key: bytes) -> int:
        """Return the number of fields of a hash, 0 if it does not exist."""
        return int(self.run("HLEN", key))

    def pages(self, key: bytes) -> Generator[FieldsAndValues, None, None]:
        """Yield the fields and values of a hash, about 1 MiB at a time; an entry may come twice.

        A page with unusually long values after many short ones may be larger. While the caller works on a page, the
        server prepares the next one, so run no other command on this connection meanwhile. Close an unfinished scan.
        """
        count = _FIRST_PAGE_ENTRIES
        self.send(("HSCAN", key, b"0", "COUNT", b"%d" % count))
        asked = True
        try:
            while asked:
                asked = False
                cursor, page = self.receive()
                size = sum(map(len, page)) or 1
                fitting = _PAGE_BYTES * (len(page) // 2) // size
                count = max(1, min(fitting, 2 * count, _PAGE_ENTRIES)) if page else count
                if cursor != b"0":
                    self.send(("HSCAN", key, cursor, "COUNT", b"%d" % count))
                    asked = True
                if page:
                    yield page
        finally:
            if asked and self._connection is not None:  # neither closed nor lost
                self.receive()

    def write(self, key: bytes, page: FieldsAndValues) -> None:
        """Start to write a page into a hash and to read it back. `confirm` returns the result."""
        self.send(("HSET", key, *page), ("HMGET", key, *page[::2]))
        self._written.append(page[1::2])

    def values(self, key: bytes, fields: Iterable[bytes]) -> list[bytes | None]:
        """Return the values of some fields of a hash, None for missing ones."""
        values: list[bytes | None] = self.run("HMGET", key, *fields)
        return values

    def confirm(self) -> bool:
        """Wait for all written pages; return whether each was read back unchanged."""
        same = True
        while self._written:
            self.receive()
            same = self.receive() == self._written.pop(0) and same
        return same

    def transaction(self, commands: Sequence[Sequence[Any]]) -> bool:
        """Run commands as one transaction; return False, and run nothing, if a watched key has changed.

        It ends all watches of the connection. `StateUnavailable` means that the connection was lost: the transaction
        has run completely or not at all.
        """
        self.run("MULTI")
        for command in commands:
            self.run(*command)
        replies = self.run("EXEC")
        if replies is None:
            return False
        for reply in replies:
            if isinstance(reply, Exception):
                with self._opened():
                    raise reply
        return True


def shown(key: bytes) -> str:
    """Return a key for a message."""
    return key.decode("utf-8", "backslashreplace")
