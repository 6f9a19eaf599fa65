"""Several processes at one store: nothing is lost and nothing happens twice."""

from contextlib import closing

import pytest

from anchorbolt.state_backends.contract import Fence, StateProvider
from anchorbolt.testing.conformance.base import entries
from tests.state_backends.processes import claim_at_once, count_up, run, together, use_before_and_after_a_fork

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
