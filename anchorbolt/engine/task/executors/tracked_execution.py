"""Executes the tuples of tracked trees, and collects the bolt's acks and fails."""

from typing import Any

from anchorbolt.bolts.base import FailedException, ReportedFailedException
from anchorbolt.bolts.tracked_collector import TrackedBasicCollector, TrackedOutputCollector
from anchorbolt.errors import StateError
from anchorbolt.streams.tuple import FAILED, TrackedTuple
from anchorbolt.streams.tuple_batch import TupleBatch
from anchorbolt.tracking.task_tracker import TaskTracker
from anchorbolt.util.messages import user_traceback

_TRACEBACK_CHARACTERS = 64_000  # for only a few failures of a round, see `TaskTracker.wants_traceback`
_REASON_CHARACTERS = 4_000  # of the text that a bolt gave a failure
_FEW_CHARACTERS = 200  # of the reason of a failure without its traceback
ISOLATED = (Exception, SystemExit)  # fail only the trees of their tuple, in a round that isolates


class TrackedExecution:
    """Runs one instance of a bolt.

    Attributes:
        current: The tuple on which the bolt has raised; None before.
    """

    def __init__(self, bolt: Any, collector: TrackedOutputCollector, tracker: TaskTracker, *, basic: bool) -> None:
        self._bolt = bolt
        self._collector = collector
        self._tracker = tracker
        self.basic = TrackedBasicCollector(collector) if basic else None
        self.current: TrackedTuple | None = None
        self.isolates = False  # whether any exception, or `sys.exit`, fails only the trees of its tuple
        self._refused: set[int] = set()  # ids of tuples of the last blob that failed in `state_keys`

    def state_keys(self, batch: TupleBatch) -> dict[Any, None]:
        """Return the keys that the bolt will read, in their order, in a round that isolates.

        If `state_keys` raises on a tuple, the tuple fails and is not executed.
        """
        keys: dict[Any, None] = {}
        self.current, self._refused = None, set()
        for tup in batch.tracked_tuples():
            try:
                keys.update(dict.fromkeys(self._bolt.state_keys(tup)))
            except ISOLATED as error:
                self.current = tup
                if tup.roots == ():
                    raise
                self._fail(tup, error)
                self._refused.add(tup.id)
        return keys

    def execute(self, batch: TupleBatch) -> None:
        """Execute the tuples of a blob. After a `FailedException` the bolt continues with the next tuple."""
        execute, basic = self._bolt.execute, self.basic
        failing = ISOLATED if self.isolates else FailedException
        tuples = batch.tracked_tuples()
        executed = self._accepted(tuples) if self._refused and self.isolates else tuples
        self.current = tup = None
        failed = self._tracker.failed
        try:
            if basic is None:
                for tup in executed:
                    try:
                        execute(tup)
                    except failing as error:
                        self._fail(tup, error)
            else:
                for tup in executed:
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
            self._tracker.acked += len(executed) - (self._tracker.failed - failed)

    def take_rest(self) -> None:
        """Take the tuples that the bolt acked, failed or reset in `init_state` and `pre_prepare`."""
        self._tracker.take_settled(self._collector, [], None)

    def _accepted(self, tuples: list[TrackedTuple]) -> list[TrackedTuple]:
        """Return the tuples without those that failed in `state_keys`; mark these as failed."""
        for tup in tuples:
            if tup.id in self._refused:
                tup.status = FAILED
        return [tup for tup in tuples if not tup.status]

    def _fail(self, tup: TrackedTuple, error: Exception | SystemExit) -> None:
        collector = self._collector
        if collector.refused_late is not None:
            raise collector.refused_late  # rows of other tuples may be to blame
        if not isinstance(error, FailedException) and (tup.roots == () or isinstance(error, StateError)):
            raise error  # no tuple can be left out, or the store is to blame
        if isinstance(error, ReportedFailedException):
            collector.report_error(error)
            collector.failures_reported += 1
        self._tracker.fail(tup, *reason_of(error, self._tracker))
        if not tup.status:
            if tup.roots == ():
                collector.fail(tup)
            tup.status = FAILED


def reason_of(error: BaseException, tracker: TaskTracker) -> tuple[str, int]:
    """Return the reason of a failure, and how many of its characters are kept."""
    if isinstance(error, FailedException):
        return f"{type(error).__name__}: {error}", _REASON_CHARACTERS
    if tracker.wants_traceback:
        return user_traceback(error), _TRACEBACK_CHARACTERS
    return f"{type(error).__name__}: {error}", _FEW_CHARACTERS
