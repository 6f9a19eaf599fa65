"""The connections that watch the hashes of one namespace, from the first read to the transaction at the end."""

from collections.abc import Sequence
from contextlib import ExitStack

from anchorbolt.migration_tools.base64_to_binary.names import backup_of, hashes_of, txid_of
from anchorbolt.state_backends.redis.hashes import HashConnection, RedisHashes


class Watches(ExitStack):
    """A context manager; closes its connections, and thereby ends the watches.

    If one transaction can hold all hashes and backups (`together`), one connection watches all of them. Otherwise each
    key has a connection of its own.
    """

    def __init__(self, hashes: RedisHashes, namespace: bytes) -> None:
        super().__init__()
        keys = hashes_of(namespace)
        self.together = hashes.together([*keys, *map(backup_of, keys)])
        self._hashes = hashes
        self._namespace = namespace
        self._connections: dict[bytes, HashConnection] = {}
        self._watched: set[bytes] = set()
        self._txids: object = None

    def begin(self) -> None:
        """Watch all hashes and backups, existing or not, and the transaction ids: a topology writes to all of them.

        If the keys have connections of their own, no transaction can depend on the transaction ids: check
        `others_changed` instead.
        """
        for key in hashes_of(self._namespace):
            self.on(key)
            self.on(backup_of(key))
        self._txids = self._read_txids()
        if self.together:
            self.on(self._namespace).watch(txid_of(self._namespace))

    def others_changed(self) -> bool:
        """Return whether the transaction ids have changed since `begin`."""
        return self._read_txids() != self._txids

    def on(self, key: bytes) -> HashConnection:
        """Return the connection that watches a hash or a backup; start to watch it if nothing does yet."""
        place = self._namespace if self.together else key
        if place not in self._connections:
            self._connections[place] = self.enter_context(self._hashes.connection(place))
        if key not in self._watched:
            self._watched.add(key)
            self._connections[place].watch(key)
        return self._connections[place]

    def groups(self, keys: Sequence[bytes]) -> list[list[bytes]]:
        """Return the keys of each transaction."""
        if self.together:
            return [list(keys)] if keys else []
        return [[key] for key in keys]

    def _read_txids(self) -> object:
        return self._hashes.fields(txid_of(self._namespace), [b"commit", b"prepare"])
