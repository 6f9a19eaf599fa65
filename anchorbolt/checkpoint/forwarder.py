"""`WrappedBolt`, an engine's interface to a bolt, and `CheckpointTupleForwarder`, which wraps every plain bolt."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.bolts.executor import BoltExecutor
from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.state_backends.contract import Seal
from anchorbolt.state_backends.scope import NOTHING_COMMITTED, AttemptScope


@dataclass(frozen=True)
class TaskOutcome:
    """The counts and seals of a task's state and outbox in a round."""

    keys_read: int = 0
    keys_staged: int = 0
    base: int = NOTHING_COMMITTED  # the committed txid that the staged updates are based on
    seal: Seal | None = None  # None if the state did not change
    file: SinkFile | None = None  # a sink's file in the outbox; None if the wave brought no rows


class WrappedBolt(BoltExecutor, Protocol):
    """A bolt in the wrapper that handles its checkpoint tuples: the only way to its hooks."""

    @property
    def outcome(self) -> TaskOutcome:
        """The task's outcome in this round."""

    def begin(self, scope: AttemptScope, decided: str = "") -> None:
        """Start a round; `decided` is the attempt that won it, if the round is decided already."""

    def handle(self, checkpoint: CheckpointTuple) -> None:
        """Take a checkpoint tuple; forward PREPARE behind everything emitted before it."""


class CheckpointTupleForwarder:
    """Executes tuples with the wrapped executor, and forwards PREPARE. A plain bolt has no other part in it."""

    outcome = TaskOutcome()

    def __init__(
        self, executor: BoltExecutor, collector: OutputCollector, forward: Callable[[CheckpointTuple], None]
    ) -> None:
        self._collector = collector
        self._forward = forward
        self.prefetch = executor.prefetch
        self.execute = executor.execute
        self.close = executor.close

    def begin(self, scope: AttemptScope, decided: str = "") -> None:
        """Nothing to do: a plain bolt keeps no state."""

    def handle(self, checkpoint: CheckpointTuple) -> None:
        """Forward PREPARE."""
        if checkpoint.action is Action.PREPARE:
            self._collector.flush()
            self._forward(checkpoint)
