"""Spark as a run from the command line sees it: a session of the command's own, which ends with it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anchorbolt.engine.submit.handle import RunHandle, WaveListener
from anchorbolt.topology.graph import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIETENED = {
    # The stack of what ended the query: two hundred lines around an error that the command shows.
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution": "OFF",
    # That a wave took longer than the interval: the command shows the lag.
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor": "OFF",
    # That a query which is stopped between two waves has no job to cancel.
    "org.apache.spark.scheduler.DAGScheduler": "ERROR",
}

_log = logging.getLogger("anchorbolt.cli")


class SparkEngine:
    """See `anchorbolt.cli.run.run_job.Engine`."""

    def __init__(self, master: str | None, *, verbose: bool = False) -> None:
        """Make an engine on a Spark master, `local[*]` by default; `verbose` leaves Spark's log as it is."""
        self._master = master
        self._verbose = verbose
        self._spark: SparkSession | None = None

    def connect(self, app_name: str) -> str:
        """See `Engine.connect`."""
        from anchorbolt.engine.spark.session import build_session

        self._spark = build_session(app_name, self._master)
        if not self._verbose:
            _quieten(self._spark)
        return f"Spark {self._spark.version}, {self._spark.sparkContext.master}"

    def submit(
        self, topology: Topology, conf: Mapping[str, Any], *, until_empty: bool, on_wave: WaveListener
    ) -> RunHandle:
        """See `Engine.submit`."""
        from anchorbolt.engine.spark.cluster import SparkCluster

        return SparkCluster(self._spark).submit(topology, conf, until_empty=until_empty, on_wave=on_wave)

    def close(self) -> None:
        """See `Engine.close`."""
        if self._spark is None:
            return
        try:
            self._spark.stop()
        except Exception as error:  # whatever py4j raises where the JVM has died
            _log.info("Spark did not stop in good order: %s", error)
        self._spark = None


def _quieten(spark: SparkSession) -> None:
    """Turn off what Spark logs of things that the command says itself, or that mean nothing."""
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    for name, level in _QUIETENED.items():
        log4j.core.config.Configurator.setLevel(name, log4j.Level.toLevel(level))
