"""Executes the tuples of tracked trees, and takes what the bolt acked and failed meanwhile."""

from typing import Any

from anchorbolt.acker.task_tracker import TaskTracker
from anchorbolt.bolts.base import FailedException, ReportedFailedException
from anchorbolt.bolts.tracked_collector import TrackedBasicCollector, TrackedOutputCollector
from anchorbolt.errors import StateError
from anchorbolt.streams.tuple import FAILED, TrackedTuple, TupleBatch
from anchorbolt.util.messages import user_traceback

_MOST_CHARACTERS, _FEW_CHARACTERS = 64_000, 200  # of the reason of a failure, and of one without a traceback


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
        self.isolates = False  # whether any exception fails only the trees of its tuple

    def execute(self, batch: TupleBatch) -> None:
        """Execute the tuples of a blob. A bolt that raises `FailedException` goes on with the next tuple."""
        execute, basic = self._bolt.execute, self.basic
        failing = Exception if self.isolates else FailedException
        tuples = batch.tracked_tuples()
        self.current = tup = None
        try:
            if basic is None:
                for tup in tuples:
                    try:
                        execute(tup)
                    except failing as error:
                        self._fail(tup, error)
            else:
                for tup in tuples:
                    basic.roots = tup.roots
                    try:
                        execute(tup, basic)
                    except failing as error:
                        self._fail(tup, error)
        except BaseException:
            self.current = tup
            raise
        if basic is None:
            self._tracker.take_settled(self._collector, tuples, batch.lineage)
        else:
            self._tracker.ack_all(batch.lineage)

    def take_rest(self) -> None:
        """Take what the bolt acked, failed and reset outside `execute`: in `init_state` and `pre_prepare`."""
        self._tracker.take_settled(self._collector, [], None)

    def _fail(self, tup: TrackedTuple, error: Exception) -> None:
        if not isinstance(error, FailedException) and (tup.roots == () or isinstance(error, StateError)):
            raise error  # nothing can be left out, or the store is to blame
        collector = self._collector
        if isinstance(error, ReportedFailedException):
            collector.report_error(error)
            collector.failures_reported += 1
        self._tracker.fail(tup, self._reason(error))
        if not tup.status:
            if tup.roots == ():
                collector.fail(tup)
            tup.status = FAILED

    def _reason(self, error: Exception) -> str:
        if isinstance(error, FailedException):
            return _bounded(f"{type(error).__name__}: {error}", _MOST_CHARACTERS)
        if self._tracker.wants_traceback:
            return _bounded(user_traceback(error), _MOST_CHARACTERS)
        return _bounded(f"{type(error).__name__}: {error}", _FEW_CHARACTERS)


def _bounded(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}\n…\n{text[-most // 2 :]}"
