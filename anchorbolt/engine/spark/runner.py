"""Runs rounds as Spark jobs: one linear job for a round, a small single-stage job for COMMIT or ROLLBACK."""

import logging
from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anchorbolt.bolts.base import Bolt
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.driver.pump import driver_spouts, waves_of
from anchorbolt.engine.spark.intake.server import IntakeServer
from anchorbolt.engine.spark.jobs import RoundJobs, collect_rows
from anchorbolt.engine.spark.query import WaveQuery
from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.session import build_session, engine_session, use_checkpoint_location
from anchorbolt.engine.spark.shipping import ship
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA
from anchorbolt.engine.spouts.driver_spouts import DriverSpouts
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope, TaskReport
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.rich import BaseRichSpout
from anchorbolt.spouts.stream import StreamSpout
from anchorbolt.topology.graph import SpoutSpec
from anchorbolt.util.locations import Folder

_log = logging.getLogger("anchorbolt.engine")


def source_rows(session: SparkSession, plan: ExecutionPlan, pickled: bytes) -> DataFrame:
    """Return the blobs of all stream spouts of a topology, as one streaming DataFrame.

    Raises `TopologyError` if Spark cannot run a spout, or if its source is not a streaming DataFrame with a column per
    field.
    """
    frames = []
    for component, spec in plan.graph.stream_spouts.items():
        frame = _source_frame(session, component, spec)
        if spec.parallelism is not None:
            frame = frame.coalesce(spec.parallelism)
        frames.append(frame.mapInArrow(RemoteStage("spout", plan.run_id, pickled, component), ENVELOPE_SCHEMA))
    return reduce(DataFrame.union, frames)


def _source_frame(session: SparkSession, component: str, spec: SpoutSpec) -> DataFrame:
    def refusal(problem: str) -> TopologyError:
        return TopologyError(f"spout {component!r}: {problem}", component=component)

    spout = spec.spout
    assert isinstance(spout, StreamSpout)
    try:
        frame = spout.source(session)
    except Exception as error:
        raise refusal(
            f"its source function raised {type(error).__name__}: {error}. It is called once, on the driver, with the "
            "engine's session."
        ) from error
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        returned = type(frame).__name__
        raise refusal(f"its source returned {returned}, not a streaming DataFrame. Use spark.readStream.")
    if len(frame.columns) != len(spout.fields):
        raise refusal(
            f"its fields are {', '.join(spout.fields)}, but its source has the columns {', '.join(frame.columns)}. "
            "Name one field per column."
        )
    return frame


class SparkRunner:
    """The port `anchorbolt.engine.driver.rounds.Runner` on Spark. Its chain of stages is declared once."""

    def __init__(self, session: SparkSession, plan: ExecutionPlan, folder: Folder) -> None:
        self._session = session
        self._plan = plan
        self.jobs = RoundJobs(session, plan)
        self._intake: IntakeServer | None = None
        self._query: WaveQuery | None = None
        self._own_rows: DataFrame | None = None  # of the waves without a batch of the query
        self._mixed: tuple[DataFrame, DataFrame] | None = None  # a batch of the query, and the rows of its wave
        self.spouts = driver_spouts(plan, "Spark", (BaseRichSpout, StreamSpout))
        sources = source_rows(session, plan, self.jobs.pickled) if plan.graph.stream_spouts else None
        if self.spouts is not None:
            if plan.rich_spout_tasks or plan.replays_letters:
                self._intake = IntakeServer(session, self.spouts)
            self._own_rows = self.jobs.with_bolts(self._intake_rows(session))
        if sources is not None:
            # Without rich spouts the whole chain is declared once, which saves planning it for each batch.
            frame = sources if plan.rich_spout_tasks else self.jobs.with_bolts(sources)
            self._query = WaveQuery(plan, folder, session, frame, self.spouts)
        self.waves = waves_of(plan, self._query, self.spouts)

    @property
    def query(self) -> StreamingQuery | None:
        return None if self._query is None else self._query.query

    def _intake_rows(self, session: SparkSession) -> DataFrame:
        """Return the blobs of the rich spouts; without any, a frame without rows."""
        partitions = max(1, min(len(self._plan.rich_spout_tasks), session.sparkContext.defaultParallelism))
        stage = self.jobs.stage("intake", (self._intake and self._intake.address, partitions))
        return session.range(0, partitions, 1, partitions).mapInArrow(stage, ENVELOPE_SCHEMA)

    def _rows(self) -> DataFrame:
        """Return the rows of the current wave; the same object in each of its rounds."""
        batch = None if self._query is None else self._query.batch
        if batch is None:
            assert self._own_rows is not None
            return self._own_rows
        if not self._plan.rich_spout_tasks:
            return batch
        if self._mixed is None or self._mixed[0] is not batch:
            self._mixed = batch, self.jobs.with_bolts(batch.union(self._intake_rows(batch.sparkSession)))
        return self._mixed[1]

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        return self.jobs.run_again("finish a round", self._rows(), current)

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        self.jobs.send(checkpoint, current, tasks)

    def read_files(self, locations: Sequence[str]) -> DataFrame:
        return self._session.read.parquet(*locations)

    def close_instances(self) -> None:
        """Have the workers call `cleanup` on the instances that they keep, if Spark gives each of them a task."""
        if self._intake is not None:
            self._intake.close()
        if all(type(spec.bolt).cleanup is Bolt.cleanup for spec in self._plan.graph.bolts.values()):
            return
        self.jobs.close_instances()


class LocalStreams(WaveQuery):
    """The stream spouts of a topology on `LocalCluster`: a local Spark runs only their stage."""

    def __init__(self, plan: ExecutionPlan, folder: Folder, spouts: DriverSpouts | None) -> None:
        spark = build_session(plan.topology)
        ship(spark.sparkContext)
        self._session = engine_session(spark)
        use_checkpoint_location(self._session, plan.checkpoint_location)
        super().__init__(
            plan, folder, self._session, source_rows(self._session, plan, plan.pickled("provider")), spouts
        )

    def rows(self, current: Round) -> Iterable[Envelope]:
        """Return the blobs of the query's batch; none in a wave without one."""
        return () if self.batch is None else collect_rows(self._session, self.batch, current)

    def spark_session(self) -> SparkSession:
        return self._session
