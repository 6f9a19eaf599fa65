"""Wraps an acker: merges the contributions of all tasks to its tuple trees, and stages the trees that stay open."""

from collections.abc import Callable

from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.task.executors.wrapped_bolts import TaskOutcome, WrappedBolt
from anchorbolt.state_backends.cache_budget import CacheBudget
from anchorbolt.state_backends.contract import StateStorage
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.streams.tuple_batch import TupleBatch
from anchorbolt.tracking.blob import Contribution, decode_blob
from anchorbolt.tracking.ledger import merge
from anchorbolt.tracking.placement import apply_moves
from anchorbolt.tracking.stored_trees import tree_state
from anchorbolt.tracking.verdict import Verdict


class AckerExecutor(WrappedBolt):
    """One task of `__acker`. The contributions come with the PREPARE of each task."""

    def __init__(
        self, storage: StateStorage, forward: Callable[[CheckpointTuple], None], budget: CacheBudget | None = None
    ) -> None:
        self._state = tree_state(storage, budget)
        self._forward = forward
        self._contributions: list[Contribution] = []
        self._verdict = Verdict()

    @property
    def outcome(self) -> TaskOutcome:
        return TaskOutcome(self._state.counters, self._state.base, self._state.seal, verdict=self._verdict)

    def begin(self, scope: AttemptScope, winner: str = "") -> None:
        self._state.begin(scope)
        self._contributions = []

    def contribute(self, blob: bytes, moves: bytes) -> None:
        """Take the contributions of one task, and the open trees that must move; each may be empty.

        Raises `SerializationError` if they are damaged.
        """
        if blob:
            self._contributions.append(decode_blob(blob))
        if moves:
            apply_moves(moves, self._state)

    def execute(self, batch: TupleBatch) -> None:
        raise AssertionError("an acker takes no tuples")

    def handle(self, checkpoint: CheckpointTuple) -> None:
        if checkpoint.action is Action.PREPARE:
            self._verdict = merge(self._contributions, self._state)
            self._contributions = []
            self._state.prepare_commit(checkpoint.txid)
            self._forward(checkpoint)

    def close(self) -> None:
        self._state.close()
