"""The drivers without Anchorbolt: they write the same keys and values once, into one hash or table, and read them."""

import os
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import happybase
import redis
from redis.cluster import ClusterNode

__all__ = ["RawClient", "raw_client"]

Items = Sequence[tuple[bytes, bytes]]


class RawClient(ABC):
    """A driver, used in its fastest way."""

    @abstractmethod
    def write(self, items: Items) -> None:
        """Write all items. When this returns, they are as durable as committed state."""

    @abstractmethod
    def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of written keys."""

    @abstractmethod
    def close(self) -> None:
        """Remove all written items and close the connection."""


def raw_client(provider: str, config: Mapping[str, Any]) -> RawClient:
    """Return the driver that a provider uses, connected as its configuration says."""
    if provider == "sqlite":
        return _Sqlite()
    if provider == "redis":
        pool = config["jedisPoolConfig"]
        return _Redis(redis.Redis(host=pool["host"], port=pool["port"], protocol=2))
    if provider == "hbase":
        return _HBase(config["thriftConfig"])
    nodes: Any = ClusterNode
    startup = [
        nodes(host, int(port)) for host, port in (node.split(":") for node in config["jedisClusterConfig"]["nodes"])
    ]
    return _Redis(redis.RedisCluster(startup_nodes=startup, protocol=2))


class _Redis(RawClient):
    """Pipelines of multi-field commands on one hash: the fastest way of those that we tried."""

    _FIELDS = 1000

    def __init__(self, client: Any) -> None:
        self._client = client
        self._key = "{raw}"

    def write(self, items: Items) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            for some in _pieces(items, self._FIELDS):
                pipeline.execute_command("HSET", self._key, *(part for item in some for part in item))
            pipeline.execute()

    def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._client.pipeline(transaction=False) as pipeline:
            for some in _pieces(keys, self._FIELDS):
                pipeline.execute_command("HMGET", self._key, *some)
            return [value for values in pipeline.execute() for value in values]

    def close(self) -> None:
        self._client.unlink(self._key)
        self._client.close()


class _HBase(RawClient):
    """Batches of 10,000 puts, and `rows` with 10,000 keys: the sizes at which happybase was fastest."""

    _ROWS = 10_000
    _COLUMN = b"f:s"

    def __init__(self, thrift: Mapping[str, Any]) -> None:
        self._connection = happybase.Connection(
            thrift["host"], thrift["port"], timeout=600_000, transport=thrift["transport"], protocol=thrift["protocol"]
        )
        self._connection.create_table("raw", {"f": {"max_versions": 1, "bloom_filter_type": "ROW"}})
        self._table = self._connection.table("raw")

    def write(self, items: Items) -> None:
        with self._table.batch(batch_size=self._ROWS) as batch:
            for key, value in items:
                batch.put(key, {self._COLUMN: value})

    def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        found: dict[bytes, bytes] = {}
        for some in _pieces(keys, self._ROWS):
            found.update((key, row[self._COLUMN]) for key, row in self._table.rows(some))
        return [found.get(key) for key in keys]

    def close(self) -> None:
        self._connection.delete_table("raw", disable=True)
        self._connection.close()


class _Sqlite(RawClient):
    """One `executemany` in a transaction that is synced to the disk, and prepared single reads."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        path = os.path.join(self._directory.name, "raw.sqlite")
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")

    def write(self, items: Items) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", items)
        self._connection.execute("COMMIT")

    def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        select = "SELECT value FROM entries WHERE key = ?"
        return [self._connection.execute(select, (key,)).fetchone()[0] for key in keys]

    def close(self) -> None:
        self._connection.close()
        self._directory.cleanup()


def _pieces(sequence: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(sequence), size):
        yield sequence[start : start + size]
