"""Attempts of custom states, without a run: prepared, committed once, rolled back, overtaken, late."""

from pathlib import Path
from typing import Any

import pytest

from anchorbolt.checkpoint.custom_state import CustomTaskState, commit_custom, roll_back_custom
from anchorbolt.errors import Fenced, StateError, StateRegressed
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.state import AttemptScope
from tests.engine.custom_states import AttemptCounts, StormCounts, read

SCOPE = AttemptScope(Fence(1, 1), 0, "a" * 32)


def two_attempts(kind: type[Any], folder: Path) -> tuple[Any, MemoryStateProvider]:
    """Attempt a prepares and is sealed; then b, which computed something else, prepares the same wave."""
    provider = MemoryStateProvider()
    for attempt, word in (("a" * 32, "of the winner"), ("b" * 32, "of the loser")):
        task = CustomTaskState(kind(folder), provider.open("n"))
        task.begin(AttemptScope(SCOPE.fence, 0, attempt))
        task.state.add(word)
        task.prepare_commit(0)
        task.close()
    return kind(folder), provider


@pytest.mark.parametrize(("kind", "whose"), [(AttemptCounts, "winner"), (StormCounts, "loser")])
def test_the_winners_is_committed_where_a_state_keeps_attempts_apart_else_that_of_whoever_prepared_last(
    kind: type[Any], whose: str, tmp_path: Path
) -> None:  # docs/custom_state.md says so
    driver, provider = two_attempts(kind, tmp_path)
    commit_custom(driver, provider.open("n"), Fence(1, 2), 0, "a" * 32)
    assert read(tmp_path / "committed.json")["counts"] == {f"of the {whose}": 1}


@pytest.mark.parametrize("kind", [StormCounts, AttemptCounts])
def test_commit_and_rollback_may_be_repeated_and_come_late(kind: type[Any], tmp_path: Path) -> None:
    driver, provider = two_attempts(kind, tmp_path)
    storage = provider.open("n")
    for _ in range(2):
        commit_custom(driver, storage, Fence(1, 2), 0, "a" * 32)
    before = (tmp_path / "committed.json").read_bytes()
    newer = CustomTaskState(kind(tmp_path), provider.open("n"))
    newer.begin(AttemptScope(Fence(2, 0), 1, "c" * 32, 0, "a" * 32))
    newer.prepare_commit(1)
    prepared = list(tmp_path.glob("prepared*"))
    with pytest.raises(Fenced):
        commit_custom(kind(tmp_path), provider.open("n"), Fence(1, 2), 0, "a" * 32)
    with pytest.raises(Fenced):
        roll_back_custom(kind(tmp_path), provider.open("n"), Fence(1, 3))
    assert list(tmp_path.glob("prepared*")) == prepared != []
    roll_back_custom(driver, storage, Fence(2, 1))
    roll_back_custom(driver, storage, Fence(2, 1))
    assert (tmp_path / "committed.json").read_bytes() == before
    assert not list(tmp_path.glob("prepared*"))


def test_a_task_that_was_overtaken_is_stopped_before_the_users_state_prepares(tmp_path: Path) -> None:
    provider = MemoryStateProvider()
    task = CustomTaskState(StormCounts(tmp_path), provider.open("n"))
    task.begin(SCOPE)
    provider.open("n").raise_fence(Fence(1, 2))
    with pytest.raises(Fenced):
        task.prepare_commit(0)
    assert not list(tmp_path.iterdir())


def test_an_attempt_that_was_not_sealed_is_not_committed(tmp_path: Path) -> None:
    provider = MemoryStateProvider()
    with pytest.raises(StateRegressed):
        commit_custom(StormCounts(tmp_path), provider.open("n"), Fence(1, 2), 0, "a" * 32)
    assert not list(tmp_path.iterdir())


def test_outside_a_run_a_state_that_keeps_attempts_apart_has_storms_four_methods_as_well(tmp_path: Path) -> None:
    state = AttemptCounts(tmp_path)
    with pytest.raises(StateError, match="outside a wave"):
        state.prepare_commit(0)
    state.begin(SCOPE)
    state.add("a")
    state.prepare_commit(0)
    state.rollback()
    assert not list(tmp_path.glob("prepared*"))
    state.commit()
    assert read(tmp_path / "committed.json")["counts"] == {"a": 1}


def test_the_time_of_the_users_prepare_commit_counts_as_staging(tmp_path: Path) -> None:
    task = CustomTaskState(StormCounts(tmp_path), MemoryStateProvider().open("n"))
    task.begin(SCOPE)
    task.prepare_commit(0)
    assert task.counters.store_ms["stage"].count == 2, "its namespace's call, and the user's"
    assert task.counters.store_ms["seal"].count == 1
