"""`anchorbolt run` as a plain function: it loads, starts, shows and stops a job, and returns an exit code."""

import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import anchorbolt
from anchorbolt.checkpoint.decision_log import CHECKPOINT_SPOUT_ID
from anchorbolt.checkpoint.spout import RecoveryReport
from anchorbolt.cli.command import print_error
from anchorbolt.cli.exit_codes import DONE, LEFT_AT_ONCE, exit_code
from anchorbolt.cli.logs import set_up_logging
from anchorbolt.cli.run.display import Display
from anchorbolt.cli.run.job_loading import load_job
from anchorbolt.cli.run.progress import Progress
from anchorbolt.cli.run.signals import StopSignals
from anchorbolt.config.loading import Configuration, load_conf
from anchorbolt.config.providers import PROVIDER_CONFIG
from anchorbolt.config.settings import Settings
from anchorbolt.config.spark_options import SPARK, SparkOptions
from anchorbolt.engine.driver.reports import WaveReport
from anchorbolt.engine.submit.handle import RunHandle, RunStatus, WaveListener
from anchorbolt.errors import AnchorboltError
from anchorbolt.serialization.serializers import codec_named
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.provider_factory import provider_from
from anchorbolt.state_backends.rules import task_namespace
from anchorbolt.topology.graph import Topology
from anchorbolt.util.messages import counted
from anchorbolt.util.retry import RetryPolicy

_log = logging.getLogger("anchorbolt.cli")

_POLL_S = 0.1


@dataclass(frozen=True)
class RunOptions:
    """The arguments of the command."""

    job: str  # MODULE:NAME
    conf_file: Path | None = None
    overrides: tuple[str, ...] = ()  # `key=value`, overriding the file
    spark: Mapping[str, Any] = field(default_factory=dict)  # Spark's options, overriding those of the file
    until_empty: bool = False
    verbose: bool = False


class Connection(NamedTuple):
    """An engine that was started: its name and master, and the address of its UI, if it has one."""

    place: str
    ui: str | None = None


class Activity(NamedTuple):
    """What the engine is doing in the current wave."""

    tasks_done: int = 0
    tasks: int = 0  # of the stages that have begun or wait
    waits_for: str | None = None  # a bolt's task that does not return


class Engine(Protocol):
    """Runs the topology."""

    def connect(self, app_name: str, options: SparkOptions) -> Connection:
        """Start the engine. Raises `PlatformError` if it cannot be started."""

    def submit(
        self, topology: Topology, conf: Mapping[str, Any], *, until_empty: bool, on_wave: WaveListener
    ) -> RunHandle:
        """Start the topology, as `SparkCluster.submit` does."""

    def activity(self, since: float) -> Activity:
        """Return what the engine is doing; a bolt is named if it was warned of after `since`, by `time.monotonic`."""

    def quieten(self) -> None:
        """Log nothing from now on: a requested stop interrupts operations, whose errors mean nothing."""

    def close(self) -> None:
        """Stop the engine, if it was started. Never raises."""


def run_job(options: RunOptions, engine: Engine, display: Display) -> int:
    """Run a job until its end and return the exit code. Call it on the main thread: it handles SIGINT and SIGTERM.

    The message of an error is printed to standard error. A bolt's error starts with the user's traceback.
    """
    set_up_logging(verbose=options.verbose)
    run = _Run(options, engine, display)
    try:
        with StopSignals() as signals:
            return run.to_its_end(signals)
    except KeyboardInterrupt:
        display.end()
        print_error("left at once: the next start rolls the interrupted wave back or forward")
        return LEFT_AT_ONCE
    except Exception as error:
        display.end()
        if options.verbose or not isinstance(error, AnchorboltError):
            traceback.print_exception(error)
        print_error(str(error))
        return exit_code(error, running=run.running)


class _Run:
    """One run of the command; `running` turns true when the topology has started."""

    def __init__(self, options: RunOptions, engine: Engine, display: Display) -> None:
        self.running = False
        self._options = options
        self._engine = engine
        self._display = display

    def to_its_end(self, signals: StopSignals) -> int:
        options = self._options
        conf = load_conf({SPARK: options.spark}, file=options.conf_file, overrides=options.overrides)
        topology = load_job(options.job).topology(dict(conf))
        waves: deque[WaveReport] = deque()
        try:
            handle = self._start(topology, conf, signals, waves)
            if handle is not None:
                progress = Progress(topology.spouts, conf.settings.checkpoint_interval_ms, time.monotonic())
                self._watch(handle, waves, progress, signals)
        except Exception:  # not KeyboardInterrupt: stopping the engine would wait for the wave
            self._engine.close()
            raise
        self._engine.close()
        return DONE

    def _start(
        self, topology: Topology, conf: Configuration, signals: StopSignals, waves: deque[WaveReport]
    ) -> RunHandle | None:
        """Start the topology; return None if a signal came first."""
        say = self._display.say
        # Spark takes seconds to start: what it could not use is refused before.
        provider = provider_from(conf.settings, shared_by_processes=True, shared_by_machines=False)
        _check_store(conf.settings, topology.name, provider)
        place, ui = self._engine.connect(topology.name, conf.settings.spark)
        signals.take()
        say(f"anchorbolt {anchorbolt.__version__}: {topology.name} on {place}")
        say(f"state: {provider.describe()}")
        say(f"checkpoint: {conf.settings.checkpoint_location_of(topology.name)}")
        if ui is not None:
            say(f"Spark's UI: {ui}")
        if signals.stop_requested:
            say("stopped before the first wave")
            return None
        handle = self._engine.submit(topology, conf, until_empty=self._options.until_empty, on_wave=waves.append)
        self.running = True
        if handle.recovery is not None:
            say(_recovery_line(handle.recovery))
        return handle

    def _watch(self, handle: RunHandle, waves: deque[WaveReport], progress: Progress, signals: StopSignals) -> None:
        """Show a run until its end; raises the error of a failed run."""
        display, began = self._display, time.monotonic()
        stopping = False
        display.begin(progress)
        try:
            while not _ended(handle, waves, progress):
                progress.show_activity(*self._engine.activity(progress.wave_began))
                display.refresh()
                if signals.stop_requested and not stopping:
                    stopping = True
                    waits = f", which waits for {progress.waits_for}" if progress.waits_for else ""
                    display.say(f"stopping after the current wave{waits}; another Ctrl-C leaves at once")
                    # `stop` waits for the wave; meanwhile this thread refreshes the display and handles signals.
                    threading.Thread(target=_stop, args=(self._engine, handle), daemon=True).start()
        finally:
            display.refresh()
            display.end()
            if handle.status is not RunStatus.RUNNING:
                display.say(_summary(handle.status, progress, time.monotonic() - began))


def _check_store(settings: Settings, topology: str, provider: StateProvider) -> None:
    """Make the serializers, and read the head of the decision record's namespace."""
    chosen = settings.provider
    codec_named(chosen.key_serializer, f"{PROVIDER_CONFIG}.keySerializerClass", for_keys=True)
    codec_named(chosen.value_serializer, f"{PROVIDER_CONFIG}.valueSerializerClass", for_keys=False)
    namespace = task_namespace(settings.namespace_prefix_of(topology), CHECKPOINT_SPOUT_ID, 0)
    with closing(provider.open(namespace)) as storage:
        RetryPolicy(settings.message_timeout_secs * 1000).until_available(storage.head)


def _stop(engine: Engine, handle: RunHandle) -> None:
    try:
        engine.quieten()
        handle.stop()
    except Exception as error:  # Spark has died; the handle raises the cause
        _log.info("the run could not be stopped cleanly: %s", error)


def _ended(handle: RunHandle, waves: deque[WaveReport], progress: Progress) -> bool:
    """Wait a moment for a run's end, and add its new waves to the progress; raises the error of a failed run."""
    try:
        return handle.await_termination(_POLL_S)
    finally:
        while waves:
            progress.add(waves.popleft(), time.monotonic())


def _recovery_line(report: RecoveryReport) -> str:
    where = "" if report.action == "started" else f"; the state is at txid {report.txid}"
    return f"recovery: {report.action}{where} (generation {report.generation}, {report.ms:,.0f} ms)"


def _summary(status: RunStatus, progress: Progress, seconds: float) -> str:
    where = "" if progress.txid is None else f"; the state is at txid {progress.txid}"
    done = f"{counted(progress.waves, 'wave')}, {counted(progress.tuples, 'tuple')}"
    return f"{status.value.lower()}: {done} in {seconds:,.1f} s{where}"
