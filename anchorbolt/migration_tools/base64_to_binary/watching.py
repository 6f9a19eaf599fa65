"""The connections that watch the hashes of one namespace, from the first look at them to the transaction at the end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

from anchorbolt.migration_tools.base64_to_binary.names import backup_of, hashes_of, txid_of
from anchorbolt.state_backends.redis.hashes import HashConnection, RedisHashes


class Watches:
    """A context manager; the watches end with it.

    Attributes:
        together: Whether all hashes and backups of the namespace fit into one transaction. Then one connection watches
            them all; otherwise each key has one of its own.
    """

    def __init__(self, hashes: RedisHashes, namespace: bytes) -> None:
        keys = hashes_of(namespace)
        self.together = hashes.together([*keys, *map(backup_of, keys)])
        self._hashes = hashes
        self._namespace = namespace
        self._stack = ExitStack()
        self._connections: dict[bytes, HashConnection] = {}
        self._watched: set[bytes] = set()
        self._txids: object = None

    def __enter__(self) -> Watches:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def begin(self) -> None:
        """Watch all hashes, backups and the transaction ids, whether they exist or not: a topology writes to all.

        What has no connection of its own cannot end a transaction, and is asked for by `others_changed`.
        """
        for key in hashes_of(self._namespace):
            self.on(key)
            self.on(backup_of(key))
        self._txids = self._read_txids()
        if self.together:
            self.on(self._namespace).watch(txid_of(self._namespace))

    def others_changed(self) -> bool:
        """Whether the transaction ids have changed since the beginning."""
        return self._read_txids() != self._txids

    def on(self, key: bytes) -> HashConnection:
        """Return the connection that watches a hash or a backup of the namespace, from now on at the latest."""
        place = self._namespace if self.together else key
        if place not in self._connections:
            self._connections[place] = self._stack.enter_context(self._hashes.connection(place))
        if key not in self._watched:
            self._watched.add(key)
            self._connections[place].watch(key)
        return self._connections[place]

    def groups(self, keys: Sequence[bytes]) -> list[list[bytes]]:
        """Return the keys in as many groups as there have to be transactions."""
        if self.together:
            return [list(keys)] if keys else []
        return [[key] for key in keys]

    def _read_txids(self) -> object:
        return self._hashes.fields(txid_of(self._namespace), [b"commit", b"prepare"])
