"""The spouts that the driver runs itself, and the waves in which their tuples are processed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.ports import Batch, Round
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine.driver.feeders import Feeders
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope

if TYPE_CHECKING:
    from anchorbolt.engine.driver.rich_spouts import RichSpouts

Clock = Callable[[], float]


class DriverSpouts:
    """All spouts of a topology but stream spouts. The methods are called on one thread, if they do not say otherwise.

    Attributes:
        rich: The rich spouts; None if there are none.
        changed: Notified when something begins to wait.
    """

    def __init__(self, plan: ExecutionPlan, clock: Clock = time.monotonic) -> None:
        """Make the tasks; `clock` returns the seconds by which trees time out."""
        self.changed = threading.Condition()
        self._counts_batches = not plan.graph.stream_spouts
        self._feeders = Feeders(plan)
        self.rich: RichSpouts | None = None
        if plan.rich_spout_tasks:
            from anchorbolt.engine.driver.rich_spouts import RichSpouts  # NumPy: only where it is needed

            self.rich = RichSpouts(plan, clock, self.notify)

    def notify(self) -> None:
        """Wake the thread that waits for `changed`. May be called on any thread."""
        with self.changed:
            self.changed.notify_all()

    def open(self, record: DecisionRecord) -> None:
        """Continue after the last decision. Raises `SpoutError`."""
        self._feeders.open(record.txid, self.notify)
        if self.rich is not None:
            self.rich.open(record)

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to process in a wave."""
        return self._feeders.is_waiting or (self.rich is not None and self.rich.is_waiting)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits or is in flight, and no rich spout has emitted for a while."""
        # In this order: a spout may emit meanwhile.
        return (self.rich is None or self.rich.is_idle) and not self.is_waiting

    @property
    def is_settled(self) -> bool:
        """Whether no tuple of the rich spouts waits, and none of their messages is in flight."""
        return self.rich is None or self.rich.is_settled

    @property
    def throttled(self) -> str:
        """Why the rich spouts are throttled now; empty if they are not."""
        return "" if self.rich is None else self.rich.throttled

    def next_batch(self, record: DecisionRecord) -> Batch:
        """Return the batch of a wave without a query's batch: the last one again, but feeder spouts count on."""
        counts_on = bool(self._feeders) and self._counts_batches
        return Batch(record.query_id, record.batch_id + counts_on, record.offsets_digest)

    @contextmanager
    def wave(self, spout: CheckpointSpout) -> Iterator[None]:
        """Freeze what was emitted: it is the intake of the wave that runs in this context.

        When the wave has committed, its messages are settled. If it has failed for good, nothing is acked or failed.
        """
        self._feeders.take(spout.record.txid + 1)
        try:
            if self.rich is not None:
                self.rich.begin_wave()
            yield
            if self.rich is not None:
                self.rich.settle()
        finally:
            self._feeders.settle(spout.record.txid)
            if self.rich is not None:
                self.rich.end_wave()

    def run_tasks(self, current: Round) -> Iterator[Envelope]:
        """Yield the blobs of all tasks for the current wave. May be called in each of its rounds."""
        yield from self._feeders.run_tasks(current)
        if self.rich is not None:
            yield from self.rich.run_tasks(current)
