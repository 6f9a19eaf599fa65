"""`SparkCluster`: runs a topology as one streaming query on Spark; each micro-batch is a wave."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anchorbolt.checkpoint.location import query_id_at
from anchorbolt.config.loading import load_conf
from anchorbolt.engine.driver.assembly import checkpoint_spout
from anchorbolt.engine.spark.query import WaveQuery
from anchorbolt.engine.spark.runner import SparkRunner
from anchorbolt.engine.spark.session import build_session, check_options, engine_session
from anchorbolt.engine.spark.shipping import ship
from anchorbolt.engine.submit.handle import RunHandle, WaveListener
from anchorbolt.engine.submit.submission import Submission, prepare_submission
from anchorbolt.topology.graph import Topology
from anchorbolt.util.locations import open_folder

_log = logging.getLogger("anchorbolt.engine")


class SparkCluster:
    """Runs topologies on a Spark session's cluster."""

    def __init__(self, spark: SparkSession | None = None, *, master: str | None = None) -> None:
        """Use a Spark session, or let `submit` build one.

        Args:
            spark: The session. Its settings are not changed.
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
    ) -> SparkRunHandle:
        """Recover from an earlier run of the topology, start it, and return its handle.

        Args:
            topology: The topology.
            conf: Configuration; see `docs/configuration.md`.
            until_empty: Process the data that the source has now, and end.
            on_wave: Called after each committed wave, on a thread of the engine.

        Raises:
            AnchorboltError: The topology or configuration is wrong, or recovery was refused.
        """
        conf = load_conf(conf)
        options = conf.settings.spark
        spark = self._spark or build_session(topology.name, self._master, options)
        check_options(spark, options)
        local = (spark.sparkContext.master or "").startswith("local")
        submission = prepare_submission(topology, conf, shared_by_processes=True, shared_by_machines=not local)
        ship(spark.sparkContext)
        handle = SparkRunHandle(engine_session(spark), topology, submission, on_wave)
        handle.start(until_empty=until_empty)
        return handle


class SparkRunHandle(RunHandle):
    """The handle of a topology that runs on Spark."""

    def __init__(
        self, session: SparkSession, topology: Topology, submission: Submission, listener: WaveListener | None
    ) -> None:
        super().__init__(submission.plan, listener)
        self._submission = submission
        self._folder = folder = open_folder(submission.plan.settings.checkpoint_location)
        self._runner = SparkRunner(session, topology, submission.plan)
        self._spout = checkpoint_spout(submission, self._runner, folder)
        self._waves = WaveQuery(submission, folder, session, self._spout, self._runner.begin_batch, self._add)

    @property
    def query(self) -> StreamingQuery | None:
        """Spark's own handle of the streaming query. Its `recentProgress` describes the source."""
        return self._waves.query

    def start(self, *, until_empty: bool) -> None:
        """Recover, then start the streaming query."""
        try:
            self._recovery = self._spout.recover(
                query_id_at(self._folder), accept_new=self._submission.settings.accept_new_query
            )
            self._waves.start(self._runner.chain, until_empty=until_empty)
        except BaseException:
            self._spout.close()
            raise
        threading.Thread(target=self._watch, name="anchorbolt-watch", daemon=True).start()

    def _interrupt(self) -> bool:
        return self._waves.stop()

    def _watch(self) -> None:
        failure = self._waves.wait()
        self._end(failure, self._close_instances, self._spout.close)

    def _close_instances(self) -> None:
        try:
            self._runner.close_instances()
        except Exception as error:
            _log.warning("the workers did not clean up: %s", error)
