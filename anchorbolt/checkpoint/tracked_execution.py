"""Executes the tuples of tracked trees, and takes what the bolt acked and failed meanwhile."""

from typing import Any

from anchorbolt.acker.task_tracker import TaskTracker
from anchorbolt.bolts.base import FailedException, ReportedFailedException
from anchorbolt.bolts.tracked_collector import TrackedBasicCollector, TrackedOutputCollector
from anchorbolt.streams.tuple import TrackedTuple, TupleBatch


class TrackedExecution:
    """Runs one instance of a bolt.

    Attributes:
        current: The tuple whose `execute` has raised; None before.
    """

    def __init__(self, bolt: Any, collector: TrackedOutputCollector, tracker: TaskTracker, *, basic: bool) -> None:
        self._bolt = bolt
        self._collector = collector
        self._tracker = tracker
        self.basic = TrackedBasicCollector(collector) if basic else None
        self.current: TrackedTuple | None = None

    def execute(self, batch: TupleBatch) -> None:
        """Execute the tuples of a blob. A bolt that raises `FailedException` goes on with the next tuple."""
        execute, basic = self._bolt.execute, self.basic
        tuples = batch.tracked_tuples()
        self.current = tup = None
        try:
            if basic is None:
                for tup in tuples:
                    try:
                        execute(tup)
                    except FailedException as error:
                        self._fail(tup, error)
            else:
                for tup in tuples:
                    basic.roots = tup.roots
                    try:
                        execute(tup, basic)
                    except FailedException as error:
                        self._fail(tup, error)
        except BaseException:
            self.current = tup
            raise
        if basic is None:
            self._tracker.take_settled(self._collector, tuples, batch.lineage)
        else:
            self._tracker.ack_all(batch.lineage)

    def _fail(self, tup: TrackedTuple, error: FailedException) -> None:
        collector = self._collector
        if isinstance(error, ReportedFailedException):
            collector.report_error(error)
        self._tracker.fail(tup, f"{type(error).__name__}: {error}")
        if not tup.status:
            collector.fail(tup)
