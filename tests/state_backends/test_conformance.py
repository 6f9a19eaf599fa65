"""The public conformance suite on all of our own backends."""

import pytest

from anchorbolt.state_backends.hbase.provider import HBaseStateProvider
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.redis.provider import RedisClusterStateProvider, RedisStateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.testing import FakeRedisStateProvider
from anchorbolt.testing.conformance import StateStorageConformance


class TestMemory(StateStorageConformance):
    @pytest.fixture
    def provider(self, memory_provider: MemoryStateProvider) -> MemoryStateProvider:
        return memory_provider


class TestSqlite(StateStorageConformance):
    @pytest.fixture
    def provider(self, sqlite_provider: SqliteStateProvider) -> SqliteStateProvider:
        return sqlite_provider


class TestRedis(StateStorageConformance):
    @pytest.fixture
    def provider(self, redis_provider: RedisStateProvider) -> RedisStateProvider:
        return redis_provider


class TestFakeRedis(StateStorageConformance):
    @pytest.fixture
    def provider(self) -> FakeRedisStateProvider:
        return FakeRedisStateProvider()


class TestRedisCluster(StateStorageConformance):
    @pytest.fixture
    def provider(self, redis_cluster_provider: RedisClusterStateProvider) -> RedisClusterStateProvider:
        return redis_cluster_provider


@pytest.mark.slow
class TestHBase(StateStorageConformance):
    @pytest.fixture
    def provider(self, hbase_provider: HBaseStateProvider) -> HBaseStateProvider:
        return hbase_provider


@pytest.mark.slow
class TestHBaseFramedAndCompact(StateStorageConformance):
    @pytest.fixture
    def provider(self, hbase_framed_provider: HBaseStateProvider) -> HBaseStateProvider:
        return hbase_framed_provider
