"""What each store tells of the size of a namespace; the conformance suite says what it must be if a store tells it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from anchorbolt.config import Secret
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.redis import RedisStateProvider
from anchorbolt.testing import FakeRedisStateProvider
from anchorbolt.testing.conformance.base import committed, new_namespace
from tests.servers.redis_server import RedisUser


def told(provider: StateProvider) -> tuple[int | None, int | None]:
    with closing(provider.open(new_namespace())) as storage:
        committed(storage, [(b"%d" % number, b"v" * 100) for number in range(1000)])
        return storage.count(), storage.size()


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis", "redis_cluster"])
def test_these_stores_tell_keys_and_bytes(kind: str, request: pytest.FixtureRequest) -> None:
    keys, size = told(request.getfixturevalue(f"{kind}_provider"))
    assert keys == 1000
    assert size is not None
    assert size > 100_000


@pytest.mark.slow
def test_hbase_tells_neither(hbase_provider: StateProvider) -> None:
    assert told(hbase_provider) == (None, None)


def test_redis_tells_only_keys_if_the_user_may_not_ask_for_the_bytes(start_redis: Callable[..., Any]) -> None:
    server = start_redis(users={"anchor": RedisUser("pw", "~* +@all -memory")})
    provider = RedisStateProvider(host="127.0.0.1", port=server.port, username="anchor", password=Secret("pw"))
    assert told(provider) == (1000, None)


def test_a_redis_without_memory_usage_tells_only_keys() -> None:
    assert told(FakeRedisStateProvider()) == (1000, None)
