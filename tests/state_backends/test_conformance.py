"""The public conformance suite on all of our own backends."""

import pytest

from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.hbase import HBaseStateProvider
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.testing import FakeRedisStateProvider
from anchorbolt.testing.conformance import StateStorageConformance


class TestMemory(StateStorageConformance):
    @pytest.fixture
    def provider(self, memory_provider: MemoryStateProvider) -> MemoryStateProvider:
        return memory_provider


class TestFakeRedis(StateStorageConformance):
    @pytest.fixture
    def provider(self) -> FakeRedisStateProvider:
        return FakeRedisStateProvider()


class TestServersAndFiles(StateStorageConformance):
    @pytest.fixture(params=["sqlite", "redis", "redis_cluster", pytest.param("hbase", marks=pytest.mark.slow)])
    def provider(self, request: pytest.FixtureRequest) -> StateProvider:
        provider: StateProvider = request.getfixturevalue(f"{request.param}_provider")
        return provider


@pytest.mark.slow
class TestHBaseFramedAndCompact(StateStorageConformance):
    @pytest.fixture
    def provider(self, hbase_framed_provider: HBaseStateProvider) -> HBaseStateProvider:
        return hbase_framed_provider
