"""`SparkCluster`: runs a topology as one streaming query on Spark; each micro-batch is a wave."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anchorbolt.config.loading import Configuration, load_conf
from anchorbolt.engine.driver.places import check_places
from anchorbolt.engine.spark.probe import run_probe
from anchorbolt.engine.spark.runner import SparkRunner
from anchorbolt.engine.spark.session import (
    build_session,
    check_options,
    check_session,
    engine_session,
    executors_of,
    jobs_at_once,
    use_checkpoint_location,
)
from anchorbolt.engine.spark.shipping import ship
from anchorbolt.engine.spark.workers.runner import WorkersRunner
from anchorbolt.files.hadoop.hadoop_locations import HadoopLocations, quick_locations
from anchorbolt.run.handle import RunHandle, WaveListener
from anchorbolt.run.preparation import check_store, prepare_plan
from anchorbolt.run.start import RunStart
from anchorbolt.topology.graph import Topology


class SparkCluster:
    """Runs topologies on a Spark session's cluster."""

    def __init__(self, spark: SparkSession | None = None, *, master: str | None = None) -> None:
        """Use a Spark session, or let `submit` build one.

        Args:
            spark: The session, not one of Spark Connect. Its settings are not changed.
            master: Spark master of a session that `submit` builds, `local[*]` by default.
        """
        self._spark = spark
        self._master = master

    def submit(
        self,
        topology: Topology,
        conf: Mapping[str, Any] | None = None,
        *,
        until_empty: bool = False,
        on_wave: WaveListener | None = None,
        start: RunStart | None = None,
    ) -> SparkRunHandle:
        """Recover from an earlier run of the topology, start it, and return its handle.

        Args:
            topology: The topology.
            conf: Configuration; see `docs/configuration.md`.
            until_empty: Process the data that the sources have now, and end; with rich spouts, when they emit no more
                and no message is pending.
            on_wave: Called after each committed wave, on a thread of the engine.
            start: Internal: shows the start in `anchorbolt run`.

        Raises:
            AnchorboltError: The topology, configuration or session is wrong, or recovery was refused.
        """
        if self._spark is not None:
            check_session(self._spark)
        conf = load_conf(conf)
        start = start or RunStart(topology.name, conf.settings)
        try:
            return self._submit(topology, conf, until_empty, on_wave, start)
        except BaseException:
            start.close()
            raise

    def _submit(
        self, topology: Topology, conf: Configuration, until_empty: bool, on_wave: WaveListener | None, start: RunStart
    ) -> SparkRunHandle:
        options = conf.settings.spark
        if self._spark is None:
            check_store(topology.name, conf.settings, start)
        at_once = jobs_at_once(topology, conf.settings)
        spark = self._spark or build_session(
            topology.name, self._master, options, jobs_at_once=at_once, workers=conf.settings.workers
        )
        check_options(spark, options)
        local = (spark.sparkContext.master or "").startswith("local")
        session = engine_session(spark)
        plan = prepare_plan(
            topology,
            conf,
            shared_by_machines=not local,
            executors=executors_of(spark),
            locations=HadoopLocations(session),
            retry=start.retry,
        )
        uses_hdfs = any(place.startswith("hdfs:") for place in plan.places_of_tasks)
        ship(spark.sparkContext, for_hdfs=uses_hdfs)
        use_checkpoint_location(session, plan.checkpoint_location)
        with quick_locations(session) as locations:
            check_places(plan, None if local else partial(run_probe, session, plan), locations)
        folder = plan.open_location()
        runner = (WorkersRunner if conf.settings.workers else SparkRunner)(session, plan, folder)
        return SparkRunHandle(plan, folder, runner, on_wave, until_empty=until_empty, start=start)


class SparkRunHandle(RunHandle):
    """The handle of a topology that runs on Spark."""

    @property
    def query(self) -> StreamingQuery | None:
        """Spark's handle of the streaming query; its `recentProgress` describes the source. None without a query."""
        return self._runner.query if isinstance(self._runner, SparkRunner | WorkersRunner) else None
