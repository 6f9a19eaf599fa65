"""Our own backends answer like the memory backend, whatever is called in whatever order; also to several processes."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from anchorbolt.config import Secret
from anchorbolt.state_backends.contract import Fence, StateProvider
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.redis import RedisStateProvider
from anchorbolt.testing import FakeRedisStateProvider, check_agreement
from anchorbolt.testing.agreement import StateStorageAgreement
from anchorbolt.testing.conformance.base import committed, entries, new_namespace
from tests.servers.redis_server import RedisUser
from tests.state_backends.processes import claim_at_once, count_up, run, together, use_before_and_after_a_fork
from tests.support.memory_store import spaces_of


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "redis", "redis_cluster", "hbase"])
def test_each_store_agrees_with_the_reference(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> None:
    # Each call to HBase is some round trips to a server that takes a millisecond for each.
    check_agreement(request.getfixturevalue(f"{store}_provider"), examples=60 if store == "hbase" else 120)
    shutil.rmtree(tmp_path)  # some hundred examples leave some hundred files of SQLite


class ForgetfulProvider(MemoryStateProvider):
    """Commits, and says so, without dropping the losers."""

    def open(self, namespace: str) -> Any:
        storage = super().open(namespace)
        commit = storage.commit

        def commit_and_keep(fence: Any, txid: int, attempt: str) -> None:
            space = spaces_of(self).get(namespace)
            records = dict(space.records) if space else {}
            commit(fence, txid, attempt)
            if space:
                space.records.update({name: kept for name, kept in records.items() if name != attempt})

        storage.commit = commit_and_keep  # type: ignore[method-assign]
        return storage


class ForgetfulAgreement(StateStorageAgreement):
    provider = ForgetfulProvider()


def test_a_provider_that_answers_otherwise_is_found() -> None:
    generated = settings(
        max_examples=500,
        phases=[Phase.generate],  # not made simpler: it matters only that it is found
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(AssertionError, match="the reference: "):
        run_state_machine_as_test(ForgetfulAgreement, settings=generated)


def test_without_hypothesis_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis.strategies", None)
    monkeypatch.delitem(sys.modules, "anchorbolt.testing.agreement")
    with pytest.raises(ImportError, match="pip install hypothesis"):
        importlib.import_module("anchorbolt.testing.agreement")


NAMESPACE = "processes:counter-0"


@pytest.fixture(params=["sqlite", "redis"])
def shared_provider(request: pytest.FixtureRequest) -> StateProvider:
    provider: StateProvider = request.getfixturevalue(f"{request.param}_provider")
    return provider


def test_processes_that_make_a_namespace_at_the_same_moment_all_succeed(shared_provider: StateProvider) -> None:
    fences = together(claim_at_once, 4, shared_provider, NAMESPACE)
    assert sorted(fences) == [Fence(generation, 0) for generation in range(1, 5)]


def test_drivers_that_fence_each_other_lose_no_update(shared_provider: StateProvider) -> None:
    done = together(count_up, 2, shared_provider, NAMESPACE, 25)
    with closing(shared_provider.open(NAMESPACE)) as storage:
        assert storage.get_many([b"counter"]) == [b"%d" % sum(done)]
        assert storage.head().committed == sum(done) - 1


def test_a_storage_goes_on_after_a_fork_in_the_child_and_in_the_parent(shared_provider: StateProvider) -> None:
    assert run(use_before_and_after_a_fork, shared_provider, NAMESPACE) == 0
    with closing(shared_provider.open(NAMESPACE)) as storage:
        assert entries(storage) == {b"a": b"parent", b"b": b"child"}


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
