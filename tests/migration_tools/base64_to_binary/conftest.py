"""Fixtures of the migration's tests: a Redis and a Redis Cluster, and the commands on them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from anchorbolt.migration_tools import base64_to_binary as tool
from anchorbolt.state_backends.redis.addresses import RedisAddress, RedisCluster, RedisServer
from anchorbolt.state_backends.redis.storm_hashes import RedisHashes
from tests.conftest import StartRedis
from tests.servers import redis_cluster as cluster_support
from tests.servers import redis_server as server_support

Hash = Mapping[bytes, bytes]


@dataclass
class Store:
    """A Redis server or cluster, with the clients of the test and the connection of the migration."""

    address: RedisAddress
    clients: list[Any]
    router: Any
    server: Any = None  # of a single Redis
    hashes: RedisHashes = field(init=False)

    def __post_init__(self) -> None:
        self.hashes = RedisHashes(self.address)

    def put(self, key: str, entries: Hash) -> None:
        self.router.hset(key, mapping=dict(entries))

    def get(self, key: str) -> dict[bytes, bytes]:
        entries: dict[bytes, bytes] = self.router.hgetall(key)
        return entries

    def everything(self) -> dict[str, dict[bytes, bytes]]:
        return {key.decode(): self.get(key.decode()) for client in self.clients for key in client.scan_iter()}

    def migrate(self, *namespaces: str, **options: Any) -> tool.Report:
        spouts = options.pop("include_checkpoint_spout", False)
        progress = options.pop("progress", None)
        return tool.migrate(
            self.hashes,
            [name.encode() for name in namespaces],
            tool.MigrationOptions(**options),
            include_checkpoint_spout=spouts,
            progress=progress,
        )

    def verify(self, *namespaces: str, **options: Any) -> tool.Report:
        return tool.verify(self.hashes, [name.encode() for name in namespaces], **options)

    def undo(self, *namespaces: str, **options: Any) -> tool.Report:
        return tool.undo(self.hashes, [name.encode() for name in namespaces], **options)

    def discard(self, *namespaces: str, **options: Any) -> tool.Report:
        return tool.discard_backup(self.hashes, [name.encode() for name in namespaces], **options)


def server_store(server: server_support.RedisServer, **options: Any) -> Store:
    address = RedisServer(server.host, server.port, **{"timeout_ms": 10_000, **options})
    client = server.client()
    return Store(address, [client], client, server)


def cluster_store(cluster: cluster_support.RedisCluster) -> Store:
    address = RedisCluster((f"{cluster.masters[0].host}:{cluster.masters[0].port}",), timeout_ms=10_000)
    return Store(address, [server.client() for server in cluster.current_masters()], address.connect())


def close(store: Store) -> None:
    for client in [*store.clients, store.router, store.hashes]:
        (client.release if isinstance(client, RedisHashes) else client.close)()


StartStore = Callable[..., Store]


@pytest.fixture
def start_store(start_redis: StartRedis) -> Iterator[StartStore]:
    """Start a Redis of the test's own with these settings; `login` are options of the migration's connection."""
    with ExitStack() as stack:

        def start(login: Mapping[str, Any] | None = None, **settings: Any) -> Store:
            store = server_store(start_redis(**settings), **(login or {}))
            stack.callback(close, store)
            return store

        yield start


@pytest.fixture
def redis(redis_database: server_support.RedisServer) -> Iterator[Store]:
    """An empty Redis."""
    store = server_store(redis_database)
    yield store
    close(store)


@pytest.fixture
def cluster(empty_redis_cluster: cluster_support.RedisCluster) -> Iterator[Store]:
    """An empty Redis Cluster."""
    store = cluster_store(empty_redis_cluster)
    yield store
    close(store)


@pytest.fixture(params=["redis", "cluster"])
def store(request: pytest.FixtureRequest) -> Store:
    found: Store = request.getfixturevalue(request.param)
    return found


def actions(report: tool.Report) -> dict[str, str]:
    return {each.key: each.action.value for namespace in report.namespaces for each in namespace.hashes}


def refusal(report: tool.Report) -> str:
    assert report.error is not None
    return report.error.message
