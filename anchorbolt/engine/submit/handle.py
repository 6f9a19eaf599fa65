"""A run on any engine: its checkpoint spout, and the handle that `submit` returns."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from anchorbolt.checkpoint.current_wave import CurrentWave
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.checkpoint.spout import CommittedWave, RecoveryReport
from anchorbolt.config.masking import Masking, secrets_in
from anchorbolt.engine.driver.rounds import Runner, WaveReport
from anchorbolt.engine.figures.run_figures import RunFigures
from anchorbolt.engine.figures.size_meter import SizeMeter
from anchorbolt.engine.history.failures import MOST_LETTERS, Letter, has_failed, letter_of
from anchorbolt.engine.history.graph import graph_of
from anchorbolt.engine.history.records import Record, end_record, start_record, wave_record, without_secrets
from anchorbolt.engine.history.writer import HistoryWriter
from anchorbolt.engine.spouts.throttle import Throttle
from anchorbolt.engine.submit import committed_state
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.submit.spout_of_run import BatchRunner, checkpoint_spout
from anchorbolt.engine.submit.start import RunStart
from anchorbolt.engine.submit.store_watch import StoreWatch
from anchorbolt.engine.submit.waves import Waves
from anchorbolt.engine.task.watchdog import LongCall, long_calls
from anchorbolt.errors import StateError
from anchorbolt.state_backends.state import NOTHING_COMMITTED
from anchorbolt.util.locations import Folder

if TYPE_CHECKING:
    from anchorbolt.engine.figures.collector import RunCollector

_log = logging.getLogger("anchorbolt.engine")

_REPORTS_KEPT = 1000
_RECORDS_KEPT = 300
_FAILED_RECORDS_KEPT = 100

WaveListener = Callable[[WaveReport], None]


class RunStatus(str, Enum):
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    FINISHED = "FINISHED"
    FAILED = "FAILED"


class RunHandle:
    """A topology that was submitted. Thread-safe."""

    def __init__(
        self,
        plan: ExecutionPlan,
        folder: Folder,
        runner: Runner | BatchRunner,
        waves: Waves,
        listener: WaveListener | None,
        *,
        until_empty: bool,
        keeps_history: bool = True,
        start: RunStart | None = None,
    ) -> None:
        """Called by an engine: recover, and start the waves.

        `listener` is called after each committed wave. Without `keeps_history`, nobody can read a history later.
        `start` shows what the engine has waited for until now.
        """
        self._start = start or RunStart(plan.topology, plan.settings)
        self._plan = plan
        self._runner = runner
        self._waves = waves
        self._listener = listener
        self._reports: deque[WaveReport] = deque(maxlen=_REPORTS_KEPT)
        self._records: deque[Record] = deque(maxlen=_RECORDS_KEPT)
        self._failed_records: deque[Record] = deque(maxlen=_FAILED_RECORDS_KEPT)
        self._letters: deque[Letter] = deque(maxlen=MOST_LETTERS)
        self.figures = RunFigures(plan)
        self.state_sizes = SizeMeter(plan)
        self._masking = Masking([*secrets_in(plan.conf), *secrets_in(plan.settings)])
        self._ended = threading.Event()
        self._stop_requested = threading.Event()
        self._pause_lock = threading.Lock()  # held while the run is paused or resumed
        self._paused = False
        self._listening: int | None = None  # the thread that calls the listener
        self._status = RunStatus.RUNNING
        self._failure: BaseException | None = None
        self._recovery = RecoveryReport(generation=0, txid=NOTHING_COMMITTED, action="recovering", ms=0.0)
        self._history: HistoryWriter | None = None
        self._watch_of_store: StoreWatch | None = None
        try:
            self._spout = checkpoint_spout(plan, folder, runner)
        except BaseException:
            self._start.close()
            raise
        try:
            self._watch_of_store = StoreWatch(plan, self._spout, waves.stop)
            self._start.show(self)
            self._recovery = self._spout.recover(waves.query_id(), accept_new=plan.settings.accept_new_query)
            if keeps_history:
                self._history = HistoryWriter(folder, self._recovery.generation)
            self._record(start_record(self._recovery, graph_of(plan), time.time()))
            waves.start(self._spout, self._add, until_empty=until_empty)
            self._watch_of_store.claimed(self._recovery.generation)
        except BaseException:
            self._clean_up()
            raise
        threading.Thread(target=self._watch, name="anchorbolt-run", daemon=True).start()

    @property
    def topology(self) -> str:
        """The topology's name."""
        return self._plan.topology

    @property
    def plan(self) -> ExecutionPlan:
        """How the topology is run, for whatever shows it. What is below it is internal."""
        return self._plan

    def collector(self) -> "RunCollector":
        """Return a collector of the run's metrics, to be registered with a registry of `prometheus_client`.

        For a program that shows metrics of its own: `prometheus_client.REGISTRY.register(handle.collector())`. It may
        be asked on any thread, also after the run has ended.
        """
        from anchorbolt.engine.figures.collector import RunCollector

        return RunCollector(self)

    @property
    def status(self) -> RunStatus:
        """RUNNING, STOPPED (by `stop`), FINISHED (the source was empty) or FAILED."""
        return self._status

    @property
    def paused(self) -> bool:
        """Whether the run is paused: from `pause` until `resume`, `stop` or the end of the run."""
        return self._paused and not self._stop_requested.is_set() and self._status is RunStatus.RUNNING

    @property
    def pausing(self) -> bool:
        """Whether the run is paused, but waves still run for what is in flight."""
        return self.paused and not self._waves.wait_until_paused(0)

    @property
    def reports(self) -> Sequence[WaveReport]:
        """The reports of the latest 1000 committed waves, oldest first."""
        return list(self._reports)

    @property
    def records(self) -> Sequence[Record]:
        """The latest 300 records of this run's history, oldest first, as `anchorbolt history --json` prints them."""
        return list(self._records)

    @property
    def failed_records(self) -> Sequence[Record]:
        """The latest 100 records of waves with a failure, and of a failed end, oldest first."""
        return list(self._failed_records)

    @property
    def dead_letters(self) -> Sequence[Letter]:
        """The latest 100 dead letters of this run, oldest first, with the traceback if a bolt raised."""
        return list(self._letters)

    @property
    def recovery(self) -> RecoveryReport:
        """The result of the driver's start. Until it has recovered, the action is `recovering`."""
        return self._recovery

    @property
    def is_recovering(self) -> bool:
        """Whether the driver has not recovered yet."""
        return self._recovery.action == "recovering"

    @property
    def metrics_address(self) -> str | None:
        """Where the metrics are shown, with `topology.metrics.port`; None without it."""
        return self._start.metrics_address

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
        """What holds the rich spouts back now; None if the topology has none, or the run has ended."""
        spouts = self._runner.spouts
        return None if spouts is None or spouts.rich is None or self._ended.is_set() else spouts.rich.throttle()

    @property
    def losses(self) -> int:
        """How often Spark or the network has lost something in the current wave; 0 between two waves."""
        return self._spout.losses

    @property
    def current_wave(self) -> CurrentWave | None:
        """The wave that runs now; None between two waves."""
        return self._spout.current_wave

    @property
    def tasks(self) -> tuple[int, int, int]:
        """Of the last job for bolts: its ended tasks, all its tasks if it still runs, and the executed tuples.

        All are 0 on an engine that does not tell.
        """
        return 0, 0, 0

    @property
    def unended_tasks(self) -> Sequence[TaskKey]:
        """The tasks of bolts that the current round waits for, by level.

        Empty if no round runs, if it runs only some tasks, and on an engine that does not tell.
        """
        return ()

    @property
    def long_calls(self) -> Sequence[LongCall]:
        """The calls of bolts, spouts and emitters that have not returned for two seconds, the longest first."""
        return long_calls(self.topology)

    @property
    def waiting(self) -> Mapping[str, float]:
        """What the run waits for now, such as its store, and for how many seconds; empty if for nothing."""
        away = {} if self._watch_of_store is None else self._watch_of_store.waiting
        return {**away, **self._spout.waiting}

    @property
    def failure(self) -> BaseException | None:
        """The error that ended the run, or None."""
        return self._failure

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the run has ended, at most `timeout` seconds; return whether it has ended.

        Raises:
            AnchorboltError: The run failed with this error.
        """
        if not self._ended.wait(timeout):
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def stop(self, timeout: float | None = None) -> bool:
        """Finish the current wave, if any, and end the run; return whether it has ended.

        Rich spouts are not asked for more, but waves run until no message is pending any more, at most for
        `topology.message.timeout.secs`.

        A paused run ends at once.

        Waits at most `timeout` seconds, but not at all if an `on_wave` listener calls it. May be called repeatedly.
        """
        self._stop_requested.set()
        return self._ended.wait(timeout if self._waves.stop() else 0)

    def pause(self, timeout: float | None = None) -> bool:
        """Finish the current wave, if any, and begin no other until `resume`; return whether no wave runs any more.

        No source is asked for more from now on. What has been emitted is still processed, as in Storm: waves run until
        no message of a rich spout is pending and no batch of a transactional topology is in flight, for rich spouts at
        most for `topology.message.timeout.secs`. After that nothing times out, however long the pause is. A spout's
        `deactivate` is called once none of its messages is pending.

        A new driver for the same topology takes over from a paused run as from any other, and is not paused itself. A
        run with `until_empty` does not end while it is paused.

        Waits at most `timeout` seconds, but not at all if an `on_wave` listener calls it. Returns False also if the run
        was resumed or has ended meanwhile. Has no effect on a run that is paused, is to stop or has ended.
        """
        with self._pause_lock:
            self._paused = True
            self._waves.pause()
        in_time = self._waves.wait_until_paused(0 if self._listening == threading.get_ident() else timeout)
        return in_time and self.paused

    def resume(self) -> None:
        """End the pause: call `activate` of the rich spouts, and run waves as before. Return at once.

        What arrived at the sources during the pause is processed. Has no effect on a run that is not paused.
        """
        with self._pause_lock:
            self._paused = False
            self._waves.resume()

    def state(self, component: str) -> dict[Any, Any]:
        """Read the committed state of all tasks of a stateful bolt into memory. For tests and small states.

        May be called while the topology runs, and after its end. While it runs, the tasks' states may belong to
        different waves.

        Raises:
            ConfigError: The topology has no such stateful bolt.
            StateError: The state has different keys that are equal in a dict, such as `1`, `1.0` and `True`;
                `state_items` yields them all.
        """
        entries: dict[Any, Any] = {}
        for key, value in self.state_items(component):
            if key in entries:
                raise StateError(
                    f"bolt {component!r} has several keys that are equal to {key!r} in a dict: 1, 1.0 and True are "
                    "different keys in the state. Read them with state_items(component)."
                )
            entries[key] = value
        return entries

    def state_items(self, component: str) -> Iterator[tuple[Any, Any]]:
        """Yield the committed entries of a stateful bolt, task by task, without reading them all at once.

        Raises:
            ConfigError: The topology has no such stateful bolt.
        """
        return committed_state.items(self._plan, component)

    def lookup(self, component: str, key: Any) -> dict[int, Any]:
        """Read the committed values of one key of a stateful bolt, by the index of the task that has it.

        Empty if no task has the key. All tasks are asked, in a round trip each, because several can have the same key:
        with another grouping than fields grouping, or if the bolt uses other keys than the grouping's.

        May be called while the topology runs, and after its end.

        Raises:
            ConfigError: The topology has no such stateful bolt.
            UnsupportedValue: No state has such a key, because it cannot be encoded.
            StateUnavailable: The store did not answer.
        """
        found = committed_state.look_up(self._plan, component, key)
        return {each.task: each.value() for each in found if each.data is not None}

    def _add(self, report: WaveReport, wave: CommittedWave) -> None:
        self.figures.add(report, wave.reports)
        letters = [letter_of(wave.txid, each) for each in wave.dead_letters[-MOST_LETTERS:]]
        self._letters += letters
        told, failed = (self._recovery.generation, report, wave.reports), wave.round_failures
        self._record(wave_record(*told, time.time(), failed_rounds=failed, letters=letters))
        self._reports.append(report)
        if self._listener is not None:
            self._listening = threading.get_ident()
            try:
                self._listener(report)
            finally:
                self._listening = None

    def _record(self, record: Record) -> None:
        record = without_secrets(record, self._masking)
        self._records.append(record)
        if has_failed(record):
            self._failed_records.append(record)
        if self._history is not None:
            self._history.add(record)

    def _watch(self) -> None:
        try:
            failure = self._waves.wait()
        except BaseException as error:
            failure = error
        if self._watch_of_store is not None:
            self._watch_of_store.close()
            failure = failure or self._watch_of_store.loss
        if failure is not None:
            status = RunStatus.FAILED
        else:
            status = RunStatus.STOPPED if self._stop_requested.is_set() else RunStatus.FINISHED
        txid = self._spout.record.txid
        self._record(end_record(self._recovery.generation, txid, status.value, failure, time.time()))
        # What shows the run says so at once: cleaning up may take seconds, if the store is away.
        self._failure, self._status = failure, status
        self._clean_up()
        self._ended.set()

    def _clean_up(self) -> None:
        shown = (self._history, self._start, self._watch_of_store, self.state_sizes)
        closed = [each.close for each in shown if each is not None]
        for clean_up in (*closed, self._runner.close_instances, self._spout.close):
            try:
                clean_up()
            except (Exception, SystemExit):  # `await_termination` must return in any case
                _log.warning("the run has ended, but cleaning up failed", exc_info=True)
