"""The stateful bolt's executor: what each checkpoint tuple calls, and what it leaves to the driver."""

from typing import Any

import pytest

from anchorbolt.bolts import BaseStatefulBolt, OutputCollector
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.task.executors.wrapped_bolts import StatefulBoltExecutor
from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.contract import Fence, StateStorage
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import StreamHeader, Tuple
from anchorbolt.streams.tuple_batch import TupleBatch

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
            self.forwarded.append,
            KeyValueState(self.storage),
            {("words", "default"): ("word",)},
        )
        self.executor.begin(AttemptScope(Fence(1, 1), 0, "a" * 32))

    def send(self, action: Action, txid: int = 0) -> None:
        self.executor.handle(CheckpointTuple(txid, action))

    def words(self, *words: str) -> None:
        self.executor.execute(TupleBatch(HEADER, len(words), [list(words)]))


@pytest.mark.parametrize(("action", "note"), [(Action.COMMIT, ("pre_commit", 0)), (Action.ROLLBACK, "pre_rollback")])
def test_commit_and_rollback_call_the_hook_and_a_repeated_initstate_calls_nothing(action: Action, note: Any) -> None:
    rig = Rig()
    rig.send(Action.INITSTATE, -1)
    rig.send(Action.INITSTATE, -1)
    rig.words("a")
    rig.send(Action.PREPARE)
    before = rig.storage.head()
    rig.send(action)
    assert rig.bolt.notes == ["init_state", "a", note]
    assert rig.storage.head() == before, "the state is the driver's"


def test_only_prepare_is_forwarded() -> None:
    rig = Rig()
    rig.send(Action.INITSTATE, -1)
    rig.words("a")
    for action in (Action.PREPARE, Action.PREPARE, Action.COMMIT, Action.ROLLBACK):
        rig.send(action)
    assert rig.forwarded == [CheckpointTuple(0, Action.PREPARE)] * 2
