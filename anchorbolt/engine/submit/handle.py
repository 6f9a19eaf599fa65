"""A run on any engine: its checkpoint spout, and the handle that `submit` returns."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from anchorbolt.checkpoint.current_wave import CurrentWave
from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.checkpoint.spout import CheckpointSpout, RecoveryReport
from anchorbolt.config.masking import Masking, secrets_in
from anchorbolt.engine.driver.rounds import Runner, WaveReport
from anchorbolt.engine.figures.run_figures import RunFigures
from anchorbolt.engine.history.graph import graph_of
from anchorbolt.engine.history.records import Record, end_record, start_record, wave_record, without_secrets
from anchorbolt.engine.history.writer import HistoryWriter
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.submit.spout_of_run import BatchRunner, checkpoint_spout
from anchorbolt.engine.submit.start import RunStart
from anchorbolt.engine.submit.store_watch import StoreWatch
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.errors import ConfigError, StateError
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.state import NOTHING_COMMITTED
from anchorbolt.util.locations import Folder

if TYPE_CHECKING:
    from anchorbolt.engine.figures.collector import RunCollector

_log = logging.getLogger("anchorbolt.engine")

_REPORTS_KEPT = 1000
_RECORDS_KEPT = 300

WaveListener = Callable[[WaveReport], None]

WaveCommitted = Callable[[WaveReport, Sequence[TaskReport]], None]
"""Called after each committed wave, with the reports of its tasks."""


class Waves(Protocol):
    """The waves of a run; each engine implements it."""

    def query_id(self) -> str:
        """Return the id of the streaming query at the checkpoint location, or an empty string."""

    def start(self, spout: CheckpointSpout, add: WaveCommitted, *, until_empty: bool) -> None:
        """Start the source. The spout has recovered; `add` is to be called after each committed wave."""

    def wait(self) -> BaseException | None:
        """Run waves until `stop` or, with `until_empty`, until the source is empty. Return or raise the error."""

    def stop(self) -> bool:
        """End the waves after the current one. Return False if a listener calls this, for which that wave waits."""


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
        self.figures = RunFigures(plan)
        self._masking = Masking([*secrets_in(plan.conf), *secrets_in(plan.settings)])
        self._ended = threading.Event()
        self._stop_requested = threading.Event()
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
    def reports(self) -> Sequence[WaveReport]:
        """The reports of the latest 1000 committed waves, oldest first."""
        return list(self._reports)

    @property
    def records(self) -> Sequence[Record]:
        """The latest 300 records of this run's history, oldest first, as `anchorbolt history --json` prints them."""
        return list(self._records)

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
    def throttled(self) -> str:
        """Why back pressure holds the rich spouts now; empty if it does not."""
        spouts = self._runner.spouts
        return "" if spouts is None or spouts.rich is None or self._ended.is_set() else spouts.rich.throttled

    @property
    def throttled_by(self) -> TaskKey | None:
        """The bolt's task for which the spouts are held now, if a wave has shown how fast it is."""
        spouts = self._runner.spouts
        return None if not self.throttled or spouts is None or spouts.rich is None else spouts.rich.throttled_by

    @property
    def losses(self) -> int:
        """How often Spark or the network has lost something in the current wave; 0 between two waves."""
        return self._spout.losses

    @property
    def current_wave(self) -> CurrentWave | None:
        """The wave that runs now; None between two waves."""
        return self._spout.current_wave

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

        Waits at most `timeout` seconds, but not at all if an `on_wave` listener calls it. May be called repeatedly.
        """
        self._stop_requested.set()
        return self._ended.wait(timeout if self._waves.stop() else 0)

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
        plan = self._plan
        if component not in plan.stateful_bolts:
            raise ConfigError(
                f"{component!r} is not a stateful bolt of {plan.topology!r}. Its stateful bolts: "
                f"{', '.join(plan.stateful_bolts) or 'none'}."
            )
        for task in plan.tasks[component]:
            namespace = plan.namespace(task)
            encoding = EntryEncoding(namespace, plan.key_codec, plan.value_codec, plan.schema(component))
            storage = plan.provider.open(namespace)
            try:
                if storage.head().codec == CUSTOM_HEADER:
                    raise StateError(
                        f"bolt {component!r} has a state of its own class, without entries. Read it with that class.",
                        namespace=namespace,
                    )
                for page in storage.scan():
                    for key_data, data in page:
                        yield encoding.entry_from(key_data, data)
            finally:
                storage.close()

    def _add(self, report: WaveReport, tasks: Sequence[TaskReport]) -> None:
        self.figures.add(report, tasks)
        self._record(wave_record(self._recovery.generation, report, tasks, time.time()))
        self._reports.append(report)
        if self._listener is not None:
            self._listener(report)

    def _record(self, record: Record) -> None:
        record = without_secrets(record, self._masking)
        self._records.append(record)
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
        shown = [each.close for each in (self._history, self._start, self._watch_of_store) if each is not None]
        for clean_up in (*shown, self._runner.close_instances, self._spout.close):
            try:
                clean_up()
            except (Exception, SystemExit):  # `await_termination` must return in any case
                _log.warning("the run has ended, but cleaning up failed", exc_info=True)
