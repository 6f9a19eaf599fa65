"""The stateful bolt's executor keeps Storm's rules about checkpoint tuples that come early, or twice."""

from __future__ import annotations

from typing import Any

import pytest

from anchorbolt.bolts import BaseStatefulBolt, OutputCollector
from anchorbolt.checkpoint.executor import StatefulBoltExecutor
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.errors import StateError
from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.contract import Fence, StateStorage
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.scope import AttemptScope
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import StreamHeader, Tuple, TupleBatch

HEADER = StreamHeader("words", 1, "default", ("word",))


class Notes(BaseStatefulBolt[KeyValueState[str, int]]):
    def __init__(self) -> None:
        self.notes: list[Any] = []

    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.notes.append("init_state")
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.notes.append(tup["word"])
        self.state.put(tup["word"], 1)

    def pre_commit(self, txid: int) -> None:
        self.notes.append(("pre_commit", txid))

    def pre_rollback(self) -> None:
        self.notes.append("pre_rollback")


class Rig:
    """A bolt in its executor over a state in memory, and what it forwarded."""

    def __init__(self) -> None:
        self.bolt = Notes()
        self.storage: StateStorage = MemoryStateProvider().open("t:notes-0")
        self.forwarded: list[CheckpointTuple] = []
        collector = OutputCollector("notes", {}, lambda stream, rows: len(rows), must_anchor=True)
        self.executor = StatefulBoltExecutor(
            self.bolt,
            {},
            TopologyContext("t", "notes", 1, 0),
            collector,
            KeyValueState(self.storage),
            self.forwarded.append,
            {("words", "default"): ("word",)},
        )
        self.executor.begin(AttemptScope(Fence(1, 1), 0, "a" * 32))

    def send(self, action: Action, txid: int = 0) -> None:
        self.executor.handle(CheckpointTuple(txid, action))

    def words(self, *words: str) -> None:
        self.executor.execute(TupleBatch(HEADER, len(words), [list(words)]))


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_tuples_before_initstate_are_queued_and_executed_after_it(rig: Rig) -> None:
    rig.words("a", "b")
    assert rig.bolt.notes == []
    rig.send(Action.INITSTATE, -1)
    assert rig.bolt.notes == ["init_state", "a", "b"]


def test_prepare_before_initstate_fails_the_checkpoint_and_is_not_forwarded(rig: Rig) -> None:
    with pytest.raises(StateError, match="before INITSTATE"):
        rig.send(Action.PREPARE)
    assert rig.forwarded == []


@pytest.mark.parametrize("action", [Action.COMMIT, Action.ROLLBACK])
def test_commit_and_rollback_before_initstate_still_apply_without_the_bolts_hooks(
    rig: Rig, action: Action
) -> None:
    rig.send(action)
    assert rig.bolt.notes == []
    assert rig.forwarded == [CheckpointTuple(0, action)]


def test_a_repeated_initstate_is_ignored_but_forwarded(rig: Rig) -> None:
    rig.send(Action.INITSTATE, -1)
    rig.send(Action.INITSTATE, -1)
    assert rig.bolt.notes == ["init_state"]
    assert len(rig.forwarded) == 2


def test_a_transaction_may_be_prepared_and_committed_again(rig: Rig) -> None:
    rig.send(Action.INITSTATE, -1)
    rig.words("a")
    for action in (Action.PREPARE, Action.PREPARE, Action.COMMIT, Action.COMMIT):
        rig.send(action)
    assert [action.action for action in rig.forwarded][1:] == [Action.PREPARE] * 2 + [Action.COMMIT] * 2
    assert rig.storage.head().committed == 0
    assert rig.bolt.notes[-2:] == [("pre_commit", 0)] * 2


def test_a_rollback_takes_the_updates_back_and_calls_the_hook_first(rig: Rig) -> None:
    rig.send(Action.INITSTATE, -1)
    rig.words("a")
    rig.send(Action.PREPARE)
    rig.send(Action.ROLLBACK)
    assert rig.bolt.notes[-1] == "pre_rollback"
    assert rig.bolt.state.get("a") is None
    assert not rig.storage.head().attempts
