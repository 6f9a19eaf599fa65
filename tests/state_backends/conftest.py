"""The providers under test, one fixture each, and one that goes through all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.hbase import HBaseStateProvider
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.redis import RedisClusterStateProvider, RedisStateProvider
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from tests.servers.hbase_server import HBaseServer
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.state_backends.hbase.providers import provider_of
from tests.state_backends.namespaces import OPENED


@pytest.fixture
def memory_provider() -> MemoryStateProvider:
    return MemoryStateProvider()


@pytest.fixture
def sqlite_provider(tmp_path: Path) -> SqliteStateProvider:
    return SqliteStateProvider(str(tmp_path / "state"))


@pytest.fixture
def redis_provider(redis_database: RedisServer) -> RedisStateProvider:
    return RedisStateProvider(redis_database.host, redis_database.port)


@pytest.fixture
def redis_cluster_provider(empty_redis_cluster: RedisCluster) -> RedisClusterStateProvider:
    return RedisClusterStateProvider(empty_redis_cluster.nodes)


@pytest.fixture
def hbase_provider(hbase_server: HBaseServer) -> HBaseStateProvider:
    return provider_of(hbase_server)


@pytest.fixture
def hbase_framed_provider(hbase_framed: HBaseServer) -> HBaseStateProvider:
    return provider_of(hbase_framed)


@pytest.fixture(params=["memory", "sqlite", "redis", "redis_cluster"])
def each_provider(request: pytest.FixtureRequest) -> StateProvider:
    provider: StateProvider = request.getfixturevalue(f"{request.param}_provider")
    return provider


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()
