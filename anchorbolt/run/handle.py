"""A run on any engine: the coordinator of its checkpoints, and the handle that `submit` returns."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.checkpoint.coordinator import CommittedWave, RecoveryReport
from anchorbolt.engine.driver import committed_state
from anchorbolt.engine.driver.live_savepoints import LiveSavepoints
from anchorbolt.engine.driver.loop import RunStatus, WaveLoop
from anchorbolt.engine.driver.parts_of_run import checkpoints_and_sources
from anchorbolt.engine.driver.runner import Runner
from anchorbolt.engine.driver.store_watch import StoreWatch
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.open_trees import check_spouts_left_out
from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.files import Folder
from anchorbolt.observe.observed_run import ObservedRun
from anchorbolt.run.start import RunStart
from anchorbolt.state_backends.state import NOTHING_COMMITTED

if TYPE_CHECKING:
    from anchorbolt.observe.figures.collector import RunCollector

_log = logging.getLogger("anchorbolt.engine")

WaveListener = Callable[[WaveReport], None]

_REPORTS_KEPT = 1000


class RunHandle:
    """A topology that was submitted. Thread-safe."""

    def __init__(
        self,
        plan: ExecutionPlan,
        folder: Folder,
        runner: Runner,
        listener: WaveListener | None,
        *,
        until_empty: bool,
        keeps_history: bool = True,
        start: RunStart | None = None,
    ) -> None:
        """Called by an engine: recover, and start the loop of its waves.

        `listener` is called after each committed wave. Without `keeps_history`, no history is written.
        `start` shows the engine's waits until now.
        """
        self._start = start or RunStart(plan.topology, plan.settings)
        self._plan = plan
        self._runner = runner
        self._listener = listener
        self._stop_requested = threading.Event()
        self._ended = threading.Event()
        self._pause_lock = threading.Lock()  # held while the run is paused or resumed
        self._paused = False
        self._listening: int | None = None  # the thread that calls the listener
        self._status = RunStatus.RUNNING
        self._failure: BaseException | None = None
        self._reports: deque[WaveReport] = deque(maxlen=_REPORTS_KEPT)
        self._recovery = RecoveryReport(generation=0, txid=NOTHING_COMMITTED, action="recovering", ms=0.0)
        try:
            savepoints = self._savepoints = LiveSavepoints(plan, folder)
            self._checkpoints, sources = checkpoints_and_sources(plan, folder, runner, savepoints)
        except BaseException:
            self._start.close()
            runner.close_instances()
            raise
        self._loop = WaveLoop(sources, savepoints.between_waves)
        self._watch_of_store = StoreWatch(plan, self._checkpoints, self._loop.stop)
        self._observed = ObservedRun(self, plan, runner, self._checkpoints, self._watch_of_store)
        try:
            self._start.show(self)
            self._recovery = self._checkpoints.recover(
                self._loop.query_id(),
                accept_new=plan.settings.accept_new_query,
                accept_loss=plan.settings.accept_state_loss,
            )
            check_spouts_left_out(plan, self._checkpoints.record)
            self._observed.recovered(folder if keeps_history else None)
            self._loop.open(self._checkpoints, self._add, until_empty=until_empty)
            if keeps_history:  # otherwise no other program knows the folder
                self._savepoints.open(self._recovery.generation, self._loop.wake)
            self._watch_of_store.claimed(self._recovery.generation)
        except BaseException:
            self._clean_up()
            raise
        threading.Thread(target=self._watch, name="anchorbolt-run", daemon=True).start()

    def observe(self) -> ObservedRun:
        """Return the view of the run: its figures, its history, the wave that runs now."""
        return self._observed

    @property
    def topology(self) -> str:
        """The topology's name."""
        return self._plan.topology

    @property
    def reports(self) -> Sequence[WaveReport]:
        """The reports of the latest 1000 committed waves, oldest first."""
        return list(self._reports)

    @property
    def recovery(self) -> RecoveryReport:
        """The result of the driver's start. Until it has recovered, the action is `recovering`."""
        return self._recovery

    def collector(self) -> "RunCollector":
        """Return a collector of the run's metrics, to be registered with a registry of `prometheus_client`.

        For a program that shows metrics of its own: `prometheus_client.REGISTRY.register(handle.collector())`. It may
        be asked on any thread, also after the run has ended.
        """
        from anchorbolt.observe.figures.collector import RunCollector

        return RunCollector(self._observed)

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
        """Whether the run is paused, but waves still run for messages or batches in flight."""
        return self.paused and not self._loop.wait_until_paused(0)

    @property
    def metrics_address(self) -> str | None:
        """The address of the metrics; None without `topology.metrics.port`."""
        return self._start.metrics_address

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

        Rich spouts are not asked for more, but waves run until no message is pending, at most for
        `topology.message.timeout.secs`.

        A paused run ends at once.

        Waits at most `timeout` seconds, but not at all if an `on_wave` listener calls it. May be called repeatedly.
        """
        self._stop_requested.set()
        return self._ended.wait(timeout if self._loop.stop() else 0)

    def pause(self, timeout: float | None = None) -> bool:
        """Finish the current wave, if any, and begin no other until `resume`; return whether no wave runs any more.

        No source is asked for more from now on. Emitted tuples are still processed, as in Storm: waves run until
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
            self._loop.pause()
        in_time = self._loop.wait_until_paused(0 if self._listening == threading.get_ident() else timeout)
        return in_time and self.paused

    def resume(self) -> None:
        """End the pause: call `activate` of the rich spouts, and run waves as before. Return at once.

        Data that arrived during the pause is processed. Has no effect on a run that is not paused.
        """
        with self._pause_lock:
            self._paused = False
            self._loop.resume()

    def state(self, component: str) -> dict[Any, Any]:
        """Read the committed state of all tasks of a stateful bolt into memory. For tests and small states.

        May be called while the topology runs, and after its end. While it runs, the tasks' states may belong to
        different waves.

        Raises:
            ConfigError: The topology has no such stateful bolt.
            StateError: Several tasks have the same key, or the state has different keys that are equal in a dict, such
                as `1`, `1.0` and `True`; `state_items` yields them all.
        """
        entries: dict[Any, Any] = {}
        for key, value in self.state_items(component):
            if key in entries:
                raise committed_state.equal_keys(self._plan, component, key, self._now)
            entries[key] = value
        return entries

    def state_items(self, component: str) -> Iterator[tuple[Any, Any]]:
        """Yield the committed entries of a stateful bolt, task by task, without reading them all at once.

        Raises:
            ConfigError: The topology has no such stateful bolt.
        """
        return committed_state.items(self._plan, component, self._now)

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
        found = committed_state.look_up(self._plan, component, key, self._now)
        return {each.task: each.value() for each in found if each.data is not None}

    @property
    def _now(self) -> int:
        return int(self._runner.clock() * 1000)

    def _add(self, report: WaveReport, wave: CommittedWave) -> None:
        self._observed.committed(report, wave)
        self._reports.append(report)
        if self._listener is not None:
            self._listening = threading.get_ident()
            try:
                self._listener(report)
            finally:
                self._listening = None

    def _watch(self) -> None:
        try:
            self._end(self._wait())
        finally:
            self._ended.set()

    def _wait(self) -> BaseException | None:
        try:
            failure = self._loop.run()
        except BaseException as error:
            failure = error
        self._watch_of_store.close()
        return failure or self._watch_of_store.loss

    def _end(self, failure: BaseException | None) -> None:
        if failure is not None:
            status = RunStatus.FAILED
        else:
            status = RunStatus.STOPPED if self._stop_requested.is_set() else RunStatus.FINISHED
        # Before the clean-up, which may take seconds without the store: the page shows the end at once.
        self._failure, self._status = failure, status
        self._clean_up(self._observed.ended)

    def _clean_up(self, *first: Callable[[], None]) -> None:
        observed, start, watch = self._observed, self._start, self._watch_of_store
        for clean_up in (
            *first,
            observed.close,
            start.close,
            watch.close,
            self._savepoints.close,
            self._runner.close_instances,
            self._checkpoints.close,
        ):
            try:
                clean_up()
            except (Exception, SystemExit):  # `await_termination` must return in any case
                _log.warning("the run has ended, but cleaning up failed", exc_info=True)
