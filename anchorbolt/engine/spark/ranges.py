"""Reads the batches of a `SparkTransactionalSpout`: each batch is a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.jobs import RoundJobs
from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.session import build_session, engine_session
from anchorbolt.engine.spark.shipping import ship
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.errors import TopologyError
from anchorbolt.serialization import unpack
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout
from anchorbolt.transactional.batches.background import Cancellation
from anchorbolt.transactional.batches.spout_calls import spout_error


def begin_job_group(session: SparkSession, plan: ExecutionPlan, current: Round, cancellation: Cancellation) -> None:
    """Cancel the jobs of this thread if the processing phase of their batch is cancelled."""
    context = session.sparkContext
    group = f"anchorbolt-{plan.run_id}-{current.fence.seq}"
    context.setJobGroup(group, f"processing phase of batch {current.txid} of {plan.topology}")
    cancellation.call(partial(context._jsc.sc().cancelJobGroupAndFutureJobs, group))


class RangeReader:
    """Makes a batch's DataFrame of the blobs that the spout's tasks send."""

    def __init__(self, session: SparkSession, plan: ExecutionPlan, pickled: bytes) -> None:
        self._session = session
        self._component = plan.wiring.batch_spout
        spec = plan.graph.spouts[plan.wiring.batch_spout]
        assert isinstance(spec.spout, SparkTransactionalSpout)
        self._spout = spec.spout
        self._spout.accepts_loss = plan.settings.accept_state_loss
        self._parallelism = spec.parallelism
        self._stage = RemoteStage("spout", plan.run_id, pickled, self._component)

    def emitted(self, current: Round) -> DataFrame:
        """Return the blobs of the spout's tasks. Raises `SpoutError`, or `TopologyError` if `read` returns bad data."""
        assert current.batch is not None
        assert current.batch.metadata is not None, "the coordinator has decided on the range"
        offsets = unpack(current.batch.metadata)
        start, end = offsets["start"], offsets["end"]
        frame = self._session.range(0) if start == end else self._read(start, end)
        if self._parallelism is not None:
            frame = frame.coalesce(self._parallelism)
        return frame.mapInArrow(self._stage, ENVELOPE_SCHEMA)

    def _read(self, start: object, end: object) -> DataFrame:
        try:
            frame: object = self._spout.read(self._session, start, end)
        except Exception as error:
            raise spout_error((self._component, 0), "read", error) from None
        if not isinstance(frame, DataFrame) or frame.isStreaming:
            returned = "a streaming DataFrame" if isinstance(frame, DataFrame) else f"a {type(frame).__name__}"
            raise self._refusal(f"read returned {returned}. Return a batch DataFrame, as of spark.read.")
        if len(frame.columns) != len(self._spout.fields):
            raise self._refusal(
                f"its fields are {', '.join(self._spout.fields)}, but read returned the columns "
                f"{', '.join(frame.columns)}. Name one field per column, without the field for the attempt."
            )
        return frame

    def _refusal(self, problem: str) -> TopologyError:
        return TopologyError(f"spout {self._component!r}: {problem}", component=self._component)


class LocalRanges:
    """The tasks of a `SparkTransactionalSpout` on `LocalCluster`. A local Spark runs only their stage."""

    def __init__(self, plan: ExecutionPlan) -> None:
        spark = build_session(plan.topology, options=plan.settings.spark)
        ship(spark.sparkContext)
        self.session = engine_session(spark)
        self._plan = plan
        self._pickled = plan.pickled("provider")
        self._reader = RangeReader(self.session, plan, self._pickled)

    def rows(self, current: Round, cancellation: Cancellation) -> Iterator[Envelope]:
        """Return the blobs of a batch. May be called on several threads."""
        begin_job_group(self.session, self._plan, current, cancellation)
        frame = self._reader.emitted(current)
        jobs = RoundJobs(self.session, self._plan, self._pickled)
        return jobs.rows("read a batch", frame, current, [])
