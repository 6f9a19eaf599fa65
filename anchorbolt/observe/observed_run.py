"""Observes a run, while it runs and after its end: for programs, the page and the metrics."""

import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from anchorbolt.checkpoint.coordinator import CheckpointCoordinator, CommittedWave, RecoveryReport
from anchorbolt.checkpoint.current_wave import CurrentWave
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.checkpoint.times import BoltTimes
from anchorbolt.engine.driver.loop import RunStatus
from anchorbolt.engine.driver.runner import Runner, WorkerFigures
from anchorbolt.engine.driver.store_watch import StoreWatch
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.throttle import Throttle
from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.engine.task.watchdog import LongCall
from anchorbolt.files import Folder
from anchorbolt.observe.figures.run_figures import RunFigures
from anchorbolt.observe.figures.size_meter import SizeMeter
from anchorbolt.observe.history.failures import MOST_LETTERS, letter_of, letters_in
from anchorbolt.observe.history.recording import end_record, graph_of, start_record, wave_record
from anchorbolt.observe.history.records import Letter, Record, without_secrets
from anchorbolt.observe.history.writer import RECORDS_SHOWN, HistoryWriter

_FAILED_RECORDS_KEPT = 100

_log = logging.getLogger("anchorbolt.engine")


class Run(Protocol):
    """The attributes of a run's handle that are used here."""

    @property
    def topology(self) -> str: ...

    @property
    def status(self) -> RunStatus: ...

    @property
    def paused(self) -> bool: ...

    @property
    def failure(self) -> BaseException | None: ...

    @property
    def recovery(self) -> RecoveryReport: ...


class ObservedRun:
    """The read-only view of a run. Thread-safe."""

    def __init__(
        self,
        run: Run,
        plan: ExecutionPlan,
        runner: Runner,
        checkpoints: CheckpointCoordinator,
        watch_of_store: StoreWatch,
    ) -> None:
        """Called by the run's handle, before the run recovers."""
        self.run = run
        self.plan = plan
        self._runner = runner
        self._checkpoints = checkpoints
        self._watch_of_store = watch_of_store
        self._records: deque[Record] = deque(maxlen=RECORDS_SHOWN)
        self._earlier: Sequence[Record] = ()
        self._failed_records: deque[Record] = deque(maxlen=_FAILED_RECORDS_KEPT)
        self._letters: deque[Letter] = deque(maxlen=MOST_LETTERS)
        self.figures = RunFigures(plan)
        if runner.spouts is not None and runner.spouts.rich is not None:
            runner.spouts.rich.have_told(self.figures.add_of_spout)
        self.state_sizes = SizeMeter(plan)
        self._changed_attributes = ChangedAttributes(plan)
        self._masking = plan.masking
        self._history: HistoryWriter | None = None

    def recovered(self, folder: Folder | None) -> None:
        """Record the recovery, and keep the history in `folder`; None if it cannot be read later."""
        recovery = self.run.recovery
        if folder is not None:
            changes = self._checkpoints.changes()
            self._history = HistoryWriter(folder, recovery.generation, changes=changes, earlier=self._show_earlier)
        self._record(start_record(recovery, graph_of(self.plan), time.time()))

    def committed(self, report: WaveReport, wave: CommittedWave) -> None:
        """Add a committed wave."""
        self.figures.add(report, wave.reports)
        self._changed_attributes.warn(wave.reports)
        letters = [letter_of(wave.txid, each) for each in wave.dead_letters[-MOST_LETTERS:]]
        self._letters += letters
        told, failed = (self.run.recovery.generation, report, wave.reports), wave.round_failures
        self._record(wave_record(*told, time.time(), failed_ms=wave.failed_ms, failed_rounds=failed, letters=letters))

    def ended(self) -> None:
        """Record the end of the run."""
        run, txid = self.run, self._checkpoints.record.txid
        status, masking = run.status.value, self._masking
        self._record(end_record(run.recovery.generation, txid, status, run.failure, time.time(), masking))

    def close(self) -> None:
        """Stop measuring and writing."""
        self.state_sizes.close()
        if self._history is not None:
            self._history.close()

    @property
    def records(self) -> Sequence[Record]:
        """The latest 300 records of the history, oldest first, as `anchorbolt history --json` prints them.

        Records of earlier drivers appear soon after the start, once a thread has read them.
        """
        return [*self._earlier, *self._records][-RECORDS_SHOWN:]

    @property
    def earlier_records(self) -> Sequence[Record]:
        """The latest 300 records of earlier drivers, oldest first; empty until a thread has read them."""
        return self._earlier

    @property
    def failed_records(self) -> Sequence[Record]:
        """The latest 100 records with a failure, of earlier drivers and of this run, oldest first."""
        earlier = [each for each in self._earlier if each.has_failed]
        return [*earlier, *self._failed_records][-_FAILED_RECORDS_KEPT:]

    @property
    def dead_letters(self) -> Sequence[Letter]:
        """The latest 100 dead letters, oldest first, with the traceback if a bolt raised.

        For a wave of an earlier driver, only the first three.
        """
        return [*letters_in(self._earlier), *self._letters][-MOST_LETTERS:]

    @property
    def is_recovering(self) -> bool:
        """Whether the driver has not recovered yet."""
        return self.run.recovery.action == "recovering"

    @property
    def messages_in_flight(self) -> int:
        """The number of messages of rich spouts that are neither acked nor failed. `stop` waits for them."""
        spouts = self._runner.spouts
        return 0 if spouts is None or spouts.rich is None else spouts.rich.in_flight

    @property
    def oldest_message_s(self) -> float:
        """The seconds since the oldest message in flight was emitted; 0 without rich spouts or messages.

        A message that an earlier driver left in flight is as old as this run.
        """
        spouts = self._runner.spouts
        return 0.0 if spouts is None or spouts.rich is None else spouts.rich.oldest_message_s

    @property
    def throttle(self) -> Throttle | None:
        """The back pressure on the rich spouts; None without rich spouts."""
        spouts = self._runner.spouts
        return None if spouts is None or spouts.rich is None else spouts.rich.throttle()

    @property
    def losses(self) -> int:
        """The rounds of the current wave in which Spark or the network lost something; 0 between waves."""
        return self._checkpoints.losses

    @property
    def current_wave(self) -> CurrentWave | None:
        """The wave that runs now; None between two waves."""
        return self._checkpoints.current_wave

    @property
    def times(self) -> Mapping[str, BoltTimes]:
        """The watermarks and timers of bolts that have any, after the last decided wave."""
        return self._checkpoints.record.times

    @property
    def clock_ms(self) -> int:
        """The clock of the waves, now, in ms since 1970."""
        return int(self._runner.clock() * 1000)

    @property
    def tasks(self) -> tuple[int, int, int]:
        """Numbers of the last job for bolts: ended tasks, all tasks if it still runs, executed tuples.

        All are 0 if the engine does not report them.
        """
        ended, tasks = self._runner.progress()
        return len(ended), tasks, sum(ended.values())

    @property
    def unended_tasks(self) -> Sequence[TaskKey]:
        """The tasks of bolts that the current round waits for, by level.

        Empty if no round runs, if it runs only some tasks, or if the engine reports none.
        """
        ended, tasks = self._runner.progress()
        all_tasks = self.plan.wiring.places
        return [task for task in all_tasks if task not in ended] if tasks == len(all_tasks) else ()

    @property
    def long_calls(self) -> Sequence[LongCall]:
        """The calls of bolts, spouts and emitters that have not returned for two seconds, the longest first."""
        return self._runner.long_calls()

    @property
    def workers(self) -> Sequence[WorkerFigures]:
        """The workers that stay and are there now, by slot; empty without `topology.workers`."""
        return self._runner.workers()

    @property
    def waiting(self) -> Mapping[str, float]:
        """The current waits of the run, such as for its store, in seconds; empty if there are none."""
        return longest(self._watch_of_store.waiting, self._checkpoints.waiting)

    def _show_earlier(self, records: Sequence[Record]) -> None:
        self._earlier = [without_secrets(each, self._masking) for each in records]

    def _record(self, record: Record) -> None:
        record = without_secrets(record, self._masking)
        self._records.append(record)
        if record.has_failed:
            self._failed_records.append(record)
        if self._history is not None:
            self._history.add(record)


def longest(*waits: Mapping[str, float]) -> Mapping[str, float]:
    """Merge the waits of several parts of a run. If two parts wait for the same, keep the longer time."""
    names = dict.fromkeys(name for each in waits for name in each)
    return {name: max(each.get(name, 0.0) for each in waits) for name in names}


class ChangedAttributes:
    """Warns of changed attributes, once for each bolt."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self._stateful = plan.wiring.stateful
        self._told: set[str] = set()

    def warn(self, reports: Iterable[TaskReport]) -> None:
        """Warn of changed attributes in a wave's reports."""
        for report in reports:
            if not report.changed_attributes or report.component in self._told:
                continue
            self._told.add(report.component)
            names = ", ".join(f"self.{name}" for name in report.changed_attributes)
            if report.component in self._stateful:
                problem, way_out = "began anew in another instance of the bolt", "Keep what must survive in its state"
            else:
                problem, way_out = "changed while tuples were executed", "Keep it in the state of a BaseStatefulBolt"
            _log.warning(
                "bolt %r: %s %s. Each wave of a task may run in another instance, in another worker of Spark, which "
                "does not have the change: a count in an attribute comes out wrong. %s. An attribute that is only a "
                "cache, or holds values of one tuple, can stay.",
                report.component,
                names,
                problem,
                way_out,
                extra={"component": report.component, "task": report.task[1]},
            )
