"""`CheckpointTupleForwarder`: wraps every plain bolt of a stateful topology and passes checkpoint tuples on."""

from __future__ import annotations

from collections.abc import Callable

from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.bolts.executor import BoltExecutor
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.streams.tuple import TupleBatch


class CheckpointTupleForwarder:
    """Executes tuples with the wrapped executor; a checkpoint tuple goes on behind everything emitted before it."""

    def __init__(
        self, executor: BoltExecutor, collector: OutputCollector, forward: Callable[[CheckpointTuple], None]
    ) -> None:
        self._executor = executor
        self._collector = collector
        self._forward = forward

    def prefetch(self, batch: TupleBatch) -> None:
        """See `BoltExecutor`."""
        self._executor.prefetch(batch)

    def execute(self, batch: TupleBatch) -> None:
        """See `BoltExecutor`."""
        self._executor.execute(batch)

    def handle(self, checkpoint: CheckpointTuple) -> None:
        """Take a checkpoint tuple that has arrived from all upstream tasks."""
        self._collector.flush()
        self._forward(checkpoint)

    def close(self) -> None:
        """See `BoltExecutor`."""
        self._executor.close()
