"""A bolt reads only the state that its wave is based on, whatever happens to the store, the driver and the wave."""

from typing import Any

import pytest

from anchorbolt.errors import Fenced, StaleAttempt, StateError, StateRegressed
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.state import AttemptScope
from tests.state_backends.test_key_value import committed_store, first_wave, second_wave
from tests.support.memory_store import spaces_of

READS = {"get": lambda state: state.get("a"), "items": lambda state: list(state.items())}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("is_mended", [True, False])
def test_what_a_store_has_that_is_older_for_a_moment_is_not_read(read: Any, is_mended: bool) -> None:
    # Found by seed 996862 of the simulator: the values were those of an empty store, and each look at the bookkeeping,
    # before the read and after it, was at the newest one.
    provider = committed_store()
    storage = provider.open("n")
    state = second_wave(storage)
    assert state.get("other") is None  # the bookkeeping has been looked at
    newest = spaces_of(provider).pop("n")
    head = storage.head

    def mended() -> Any:
        spaces_of(provider)["n"] = newest
        return head()

    if is_mended:
        storage.head = mended  # type: ignore[method-assign]
    with pytest.raises(StaleAttempt if is_mended else StateRegressed):
        read(state)
    state["b"] = 2
    with pytest.raises(StaleAttempt if is_mended else StateRegressed):
        state.prepare_commit(1)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_a_store_has_that_lost_updates_of_the_same_attempt_is_not_read(read: Any) -> None:
    provider = committed_store()
    state = second_wave(provider.open("n"), cache_entries=0, pending_entries=1)
    state["a"] = 2
    state["b"] = 3
    state["c"] = 4
    assert state.get("c") == 4
    assert state.get("a") == 2
    namespace = spaces_of(provider)["n"]
    record = namespace.records["b" * 32]
    namespace.drop("b" * 32)
    state.evict(3)
    with pytest.raises(StaleAttempt):
        read(state)
    namespace.records["b" * 32] = record


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_that_a_newer_driver_was_faster_than_is_fenced(read: Any) -> None:
    provider = committed_store()
    state = second_wave(provider.open("n"))
    assert state.get("other") is None
    newer = second_wave(provider.open("n"), AttemptScope(Fence(2, 1), 1, "c" * 32, 0, "a" * 32))
    newer["a"] = 7
    newer.commit()
    with pytest.raises(Fenced):
        read(state)


def test_an_instance_reads_on_after_the_driver_has_committed_its_attempt() -> None:
    provider = committed_store()
    state = second_wave(provider.open("n"), cache_entries=0)
    state["b"] = state.get("a", 0) + 1
    state.prepare_commit(1)
    provider.open("n").commit(Fence(1, 3), 1, "b" * 32)
    assert dict(state.items()) == {"a": 1, "b": 2}
    state.begin(AttemptScope(Fence(1, 4), 2, "c" * 32, 1, "b" * 32))
    state["c"] = 3
    state.prepare_commit(2)
    provider.open("n").commit(Fence(1, 5), 2, "c" * 32)
    assert state.get("c") == 3
    assert state.get("nothing") is None
    spaces_of(provider).clear()
    with pytest.raises(StateRegressed):
        state.get("nothing else")


def test_a_bolt_that_is_told_of_a_rollback_reads_though_its_updates_are_lost() -> None:
    provider = committed_store()
    state = second_wave(provider.open("n"), cache_entries=0, pending_entries=1)
    state["b"] = 2
    state["c"] = 3
    state["d"] = 4
    spaces_of(provider)["n"].drop("b" * 32)
    with pytest.raises(StaleAttempt):
        state.get("a")
    state.stop_checking_reads()
    assert state.get("a") == 1


def test_an_iterator_ends_with_its_wave() -> None:
    state = first_wave(MemoryStateProvider().open("n"))
    state.put_many({number: number for number in range(3_000)})
    state.commit()
    state.begin(AttemptScope(Fence(1, 2), 1, "b" * 32, 0, "a" * 32))
    items = state.items()
    next(items)
    state.begin(AttemptScope(Fence(1, 3), 1, "c" * 32, 0, "a" * 32))
    with pytest.raises(StateError):
        list(items)
    with pytest.raises(StateError):
        state.prepare_commit(1)


def test_entries_may_be_updated_while_they_are_scanned() -> None:
    state = first_wave(MemoryStateProvider().open("n"), cache_entries=2, pending_entries=4)
    state.put_many({number: number for number in range(3_000)})
    for key, value in state.items():
        state[key] = value + 1
    assert dict(state.items()) == {number: number + 1 for number in range(3_000)}
    state.commit()
    assert dict(state.items()) == {number: number + 1 for number in range(3_000)}
