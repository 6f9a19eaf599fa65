"""`anchorbolt run` after its arguments are parsed: loads, starts, shows and stops a job; returns an exit code."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import anchorbolt
from anchorbolt.checkpoint.coordinator import RecoveryReport
from anchorbolt.cli.exit_codes import DONE, LEFT_AT_ONCE, exit_code
from anchorbolt.cli.run.job_loading import load_topology
from anchorbolt.cli.run.progress import Display, Progress
from anchorbolt.cli.run.spark_engine import SparkEngine
from anchorbolt.config.loading import Configuration, load_conf
from anchorbolt.config.spark_options import SPARK
from anchorbolt.engine.driver.loop import RunStatus
from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.errors import AnchorboltError
from anchorbolt.observe.figures.profile import profile_of
from anchorbolt.run.handle import RunHandle
from anchorbolt.run.preparation import check_store
from anchorbolt.run.start import RunStart
from anchorbolt.topology.graph import Topology
from anchorbolt.util.messages import counted

if TYPE_CHECKING:
    from anchorbolt.ui import UiServer

_log = logging.getLogger("anchorbolt.cli")

_POLL_S = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Run:
    """One run of the command, with its arguments."""

    job: str  # MODULE:NAME
    engine: SparkEngine
    display: Display
    conf_file: Path | None = None
    overrides: Sequence[str] = ()  # `key=value`, overriding the file
    spark: Mapping[str, Any] = field(default_factory=dict)  # Spark's options, overriding those of the file
    options: Mapping[str, object] = field(default_factory=dict)  # keys set by other options, overriding everything else
    until_empty: bool = False
    verbose: bool = False
    profile: bool = False  # whether to show at the end where the time went

    def __post_init__(self) -> None:
        self.stop_requested = False  # by a signal
        self.waves: deque[WaveReport] = deque()  # committed, but not yet added to the progress
        self.running = False  # whether the topology has started

    def to_exit_code(self) -> int:
        """Run the job until its end. Call this on the main thread: it handles SIGINT and SIGTERM.

        The message of an error is printed to standard error. A bolt's error starts with the user's traceback.
        """
        with self.display.logging(verbose=self.verbose):
            return self._to_exit_code()

    def _to_exit_code(self) -> int:
        try:
            with ExitStack() as at_the_end:
                for number in _SIGNALS:
                    at_the_end.callback(signal.signal, number, signal.getsignal(number) or signal.SIG_DFL)
                self._take_signals()
                self._to_its_end()
            return DONE
        except KeyboardInterrupt:
            self.display.end()
            self.display.fail("left at once: the next start rolls the interrupted wave back or forward")
            return LEFT_AT_ONCE
        except Exception as error:
            self.display.end()
            is_ours = isinstance(error, AnchorboltError)
            self.display.fail(str(error), error, with_traceback=self.verbose or not is_ours)
            return exit_code(error, running=self.running)

    def _request_stop(self) -> None:
        """Stop in the same way as a signal, from any thread."""
        self.stop_requested = True

    def _take_signals(self) -> None:
        """Handle both signals. Call again after PySpark creates a SparkContext, because it installs its own handlers.

        The first signal only sets `stop_requested`. A SIGINT after it raises `KeyboardInterrupt` in the main thread; a
        SIGTERM after it changes nothing.
        """

        def handle(number: int, frame: FrameType | None) -> None:
            if self.stop_requested and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.stop_requested = True

        for number in _SIGNALS:
            signal.signal(number, handle)

    def _to_its_end(self) -> None:
        overrides = [*self.overrides, *(f"{key}={value}" for key, value in self.options.items())]
        conf = load_conf({SPARK: self.spark} if self.spark else {}, file=self.conf_file, overrides=overrides)
        topology = load_topology(self.job, dict(conf))
        self.display.name(topology.name)
        start = self._shown_start(topology, conf)
        page: UiServer | None = None
        try:
            page = self._page(start, conf)
            handle = self._start(topology, conf, start)
            if handle is not None:
                self._watch(handle, Progress(topology.spouts, conf.settings.checkpoint_interval_ms, time.monotonic()))
        except Exception:  # not KeyboardInterrupt: stopping the engine would wait for the wave
            self._close(page, start)
            raise
        self._close(page, start)

    def _close(self, page: UiServer | None, start: RunStart) -> None:
        start.close()
        if page is not None:
            page.close()
        self.engine.close()

    def _shown_start(self, topology: Topology, conf: Configuration) -> RunStart:
        """Show the metrics, if they are configured, before anything is claimed: their port may be in use."""
        start = RunStart(topology.name, conf.settings)
        if start.metrics_address is not None:
            self.display.say(f"metrics: {start.metrics_address}", metrics=start.metrics_address)
        return start

    def _page(self, start: RunStart, conf: Configuration) -> UiServer | None:
        """Show the page, if it is configured, before anything is claimed: its port may be in use."""
        if conf.settings.ui_port is None:
            return None
        from anchorbolt.ui import UiServer

        page = UiServer.from_settings(start.topology, conf.settings, start)
        if page is not None:
            start.on_recovery = partial(page.show, origins=self._origins(conf), stop=self._request_stop)
            self.display.say(f"page: {page.address}", page=page.address)
        return page

    def _origins(self, conf: Configuration) -> dict[str, str]:
        """Return the source of each given key, in the words of the command line."""
        origins = conf.origins | {key: f"--{key.removeprefix('topology.').replace('.', '-')}" for key in self.options}
        if self.spark:
            origins[SPARK] = origins[SPARK].removesuffix("program") + "command line"
        return origins

    def _start(self, topology: Topology, conf: Configuration, start: RunStart) -> RunHandle | None:
        """Start the topology; return None if a signal came first."""
        say = self.display.say
        provider = check_store(topology.name, conf.settings, start)
        place, ui = self.engine.connect(topology, conf.settings)
        self._take_signals()
        state, version = provider.describe(), anchorbolt.__version__
        location = self.engine.located(conf.settings.checkpoint_location_of(topology.name))
        say(f"anchorbolt {version}: {topology.name} on {place}", version=version, engine=place)
        say(f"state: {state}", state=state)
        say(f"checkpoint: {location}", checkpoint=location)
        if ui is not None:
            say(f"Spark's UI: {ui}", spark_ui=ui)
        if self._is_stopped():
            return None
        ended = threading.Event()
        threading.Thread(target=self._cancel_start, args=(ended,), daemon=True).start()
        try:
            handle = self.engine.submit(
                topology, conf, until_empty=self.until_empty, on_wave=self.waves.append, start=start
            )
        except AnchorboltError:
            if not self._is_stopped():
                raise
            return None
        finally:
            ended.set()
        self.running = True
        recovery = handle.recovery
        known = {} if recovery.action == "started" else {"txid": recovery.txid}
        say(
            _recovery_line(recovery),
            recovery=recovery.action,
            generation=recovery.generation,
            recovery_ms=round(recovery.ms, 1),
            **known,
        )
        return handle

    def _is_stopped(self) -> bool:
        """Return whether a signal came before the start, and print a line if so."""
        if self.stop_requested:
            self.display.say("stopped before the first wave")
        return self.stop_requested

    def _cancel_start(self, ended: threading.Event) -> None:
        """Cancel the start's wait in Spark, for example for executors, once a signal has come."""
        while not ended.wait(_POLL_S):
            if self.stop_requested:
                self.engine.cancel_jobs()

    def _watch(self, handle: RunHandle, progress: Progress) -> None:
        """Show a run until its end; raises the error of a failed run."""
        display, began = self.display, time.monotonic()
        stopping = False
        display.begin(progress)
        try:
            while not self._ended(handle, progress):
                progress.activity = self.engine.activity()
                self._note_pause(handle, progress)
                display.refresh()
                if self.stop_requested and not stopping:
                    stopping = True
                    waits_for = progress.activity.waits_for
                    waits = f", which waits for {waits_for}" if waits_for else ""
                    messages = handle.observe().messages_in_flight
                    flight = f" and {counted(messages, 'message')} in flight" if messages else ""
                    display.say(f"stopping after the current wave{flight}{waits}; another Ctrl-C leaves at once")
                    # `stop` waits for the wave; meanwhile this thread refreshes the display and handles signals.
                    threading.Thread(target=self._stop, args=(handle,), daemon=True).start()
        finally:
            display.refresh()
            display.end()
            if handle.status is not RunStatus.RUNNING:
                seconds = time.monotonic() - began
                display.say(
                    _summary(handle.status, progress, seconds),
                    status=handle.status.value.lower(),
                    seconds=round(seconds, 1),
                    **progress.figures(time.monotonic()),
                )
                if self.profile:
                    display.show(profile_of(handle.observe().figures.over()))

    def _note_pause(self, handle: RunHandle, progress: Progress) -> None:
        """Print a line when the page pauses or resumes the run."""
        if handle.paused == progress.paused or self.stop_requested:  # a stop ends a pause
            return
        progress.paused = handle.paused
        messages = handle.observe().messages_in_flight
        flight = f", except for {counted(messages, 'message')} in flight" if messages else ""
        said = f"paused: no wave begins until the run is resumed{flight}" if progress.paused else "resumed"
        self.display.say(said, paused=progress.paused)

    def _ended(self, handle: RunHandle, progress: Progress) -> bool:
        """Wait a moment for a run's end, and add its new waves to the progress; raises the error of a failed run."""
        try:
            return handle.await_termination(_POLL_S)
        finally:
            while self.waves:
                progress.add(self.waves.popleft(), time.monotonic())

    def _stop(self, handle: RunHandle) -> None:
        try:
            self.engine.quieten()
            handle.stop()
        except Exception as error:  # Spark has died; the handle raises the cause
            _log.info("the run could not be stopped cleanly: %s", error)


def _recovery_line(report: RecoveryReport) -> str:
    where = "" if report.action == "started" else f"; the state is at txid {report.txid}"
    return f"recovery: {report.action}{where} (generation {report.generation}, {report.ms:,.0f} ms)"


def _summary(status: RunStatus, progress: Progress, seconds: float) -> str:
    where = f"; the state is at txid {progress.last.txid}" if progress.last else ""
    done = f"{counted(progress.waves, 'wave')}, {counted(progress.tuples, 'tuple')}"
    return f"{status.value.lower()}: {done} in {seconds:,.1f} s{where}"
