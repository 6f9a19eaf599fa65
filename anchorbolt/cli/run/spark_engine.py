"""The Spark session of `anchorbolt run`, which ends with the command."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from anchorbolt.cli.run.progress import Activity
from anchorbolt.config.settings import Settings
from anchorbolt.run.handle import RunHandle, WaveListener
from anchorbolt.run.start import RunStart
from anchorbolt.topology.graph import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anchorbolt.run.spark_cluster import SparkRunHandle


_QUIETENED = {  # log messages that repeat the command's output or are meaningless
    # The stack trace of the query's error: two hundred lines around a message that the command prints.
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution": "OFF",
    # The stack trace of a task's error, twice: the command prints the error of the round.
    "org.apache.spark.executor.Executor": "OFF",
    "org.apache.spark.scheduler.TaskSetManager": "OFF",
    # A warning that a wave took longer than the interval: the command shows the lag.
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor": "OFF",
}

_log = logging.getLogger("anchorbolt.cli")

# Lines of a normal run, from Java itself, Spark's launcher and Spark's start.
_USUAL = re.compile(
    r"WARNING: Using incubator modules: "
    r"|Using Spark's default log4j profile: "
    r"|Setting default log level to "
    r"|To adjust logging level use sc\.setLogLevel"
    r"|.* WARN NativeCodeLoader: Unable to load native-hadoop library"
    r"|.* WARN Utils: (Your hostname, .* resolves to a loopback address|Set SPARK_LOCAL_IP if you need to bind)"
    r"|.* WARN Utils: Service 'SparkUI' could not bind on port"
    r"|WARNING: package sun\.security\.action not in java\.base"
)
# Spark ends workers that were idle for a minute; then PySpark's daemon prints a traceback with these lines.
_OF_DAEMON = re.compile(r'Traceback \(most recent call last\):|  File ".*/pyspark/daemon\.py"')
_QUIET_S = 0.1
_MOST_WAITS = 10


class SparkEngine:
    """Runs the topology on a Spark master, `local[*]` by default.

    With `verbose`, Spark's log is not changed. With `events`, workers log events.
    """

    def __init__(self, master: str | None, *, verbose: bool = False, events: bool = False) -> None:
        self._master = master
        self._verbose = verbose
        self._events = events
        self._spark: SparkSession | None = None
        self._output = JvmOutput(everything=verbose)
        self._handle: SparkRunHandle | None = None

    def connect(self, topology: Topology, settings: Settings) -> tuple[str, str | None]:
        """Start Spark for a topology; return its version and master, and the address of its UI, if it has one.

        Raises `PlatformError` if it cannot be started.
        """
        from anchorbolt.engine.spark.session import build_session, jobs_at_once

        self._spark = build_session(
            topology.name,
            self._master,
            settings.spark,
            jvm_stderr=self._output.descriptor,
            jobs_at_once=jobs_at_once(topology, settings),
            workers=settings.workers,
        )
        context = self._spark.sparkContext
        if self._events:
            from anchorbolt.engine.spark.worker_log import LOG_FORMAT_VARIABLE, LOG_TOPOLOGY_VARIABLE

            context.environment |= {LOG_FORMAT_VARIABLE: "json", LOG_TOPOLOGY_VARIABLE: topology.name}
        if not self._verbose:
            log4j = context._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
            for name, level in _QUIETENED.items():
                log4j.core.config.Configurator.setLevel(name, log4j.Level.toLevel(level))
        return f"Spark {self._spark.version}, {context.master}", context.uiWebUrl

    def located(self, location: str) -> str:
        """Return a location with the file system that Spark chooses for it. Called after `connect`."""
        from anchorbolt.files.hadoop.hadoop_locations import HadoopLocations

        assert self._spark is not None
        return HadoopLocations(self._spark).qualified(location)

    def submit(
        self, topology: Topology, conf: Mapping[str, Any], *, until_empty: bool, on_wave: WaveListener, start: RunStart
    ) -> RunHandle:
        """Start the topology, as `SparkCluster.submit` does."""
        from anchorbolt.run.spark_cluster import SparkCluster

        self._handle = SparkCluster(self._spark).submit(
            topology, conf, until_empty=until_empty, on_wave=on_wave, start=start
        )
        return self._handle

    def activity(self) -> Activity:
        """Return the activity of the bolts, with the name of one that has not returned for two seconds."""
        if self._handle is None:
            return Activity()
        run = self._handle.observe()
        calls = (each for each in run.long_calls if each.kind == "bolt")
        waits_for = next((f"bolt {each.component!r}, task {each.task_index}" for each in calls), None)
        return Activity(*run.tasks, waits_for, run.losses)

    def quieten(self) -> None:
        """Log nothing from now on: a requested stop interrupts operations, and their errors are meaningless."""
        if self._spark is not None and not self._verbose:
            self._spark.sparkContext.setLogLevel("OFF")

    def cancel_jobs(self) -> None:
        """Cancel the running jobs. May be called on any thread."""
        if self._spark is not None:
            with suppress(Exception):  # Spark has ended
                self._spark.sparkContext.cancelAllJobs()

    def close(self) -> None:
        """Stop Spark, if it was started. Never raises."""
        if self._spark is None:
            return
        self._output.mute()
        try:
            self._spark.stop()
        except Exception as error:  # py4j raises various errors after the JVM has died
            _log.info("Spark did not stop cleanly: %s", error)
        self._spark = None


class JvmOutput:
    """A pipe for the standard error of Java and of Spark's Python workers, which write there too.

    Its lines go to `sys.stderr` unchanged.
    """

    def __init__(self, *, everything: bool = False) -> None:
        self._everything = everything  # whether to pass on the usual lines too
        self._reader, self.descriptor = os.pipe()
        self._muted = False
        self._passed = threading.Event()
        threading.Thread(target=self._pass_on, name="anchorbolt-jvm-output", daemon=True).start()

    def mute(self) -> None:
        """Drop all further lines: a worker that ends after its Java process reports the closed pipe.

        First waits until no line has come for a moment, so that the last output of bolts is still shown.
        """
        for _ in range(_MOST_WAITS):
            self._passed.clear()
            if not self._passed.wait(_QUIET_S):
                break
        self._muted = not self._everything

    def _pass_on(self) -> None:
        held: list[str] = []
        with open(self._reader, encoding="utf-8", errors="replace", newline="\n") as lines:
            for line in lines:
                self._passed.set()
                held.append(line)
                if _OF_DAEMON.match(line) and not self._everything:
                    continue
                is_idle = line.startswith("BrokenPipeError") and any("/pyspark/daemon.py" in each for each in held)
                if self._everything or not (self._muted or is_idle or _USUAL.match(line)):
                    sys.stderr.write("".join(held))
                    sys.stderr.flush()
                held.clear()
