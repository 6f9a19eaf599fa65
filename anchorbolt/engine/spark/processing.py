"""Runs the processing phases of a transactional topology's batches as Spark jobs, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.intake.client import IntakeAddress
from anchorbolt.engine.spark.intake.server import BatchServer
from anchorbolt.engine.spark.jobs import RoundJobs
from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.session import build_session, engine_session
from anchorbolt.engine.spark.shipping import ship
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA
from anchorbolt.engine.task.messages import Envelope, TaskReport
from anchorbolt.errors import TopologyError
from anchorbolt.serialization import unpack
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout
from anchorbolt.transactional.batches.background import Background, Cancellation
from anchorbolt.transactional.batches.flights import BatchDriver
from anchorbolt.transactional.batches.spout_calls import spout_error

_POOL = "spark.scheduler.pool"


class SparkProcessing:
    """The port `anchorbolt.transactional.batches.pipeline.Processing` on Spark."""

    def __init__(self, session: SparkSession, plan: ExecutionPlan) -> None:
        self.session = session
        self.calls: IntakeAddress | None = None  # where workers report long calls; set before the first phase
        self._plan = plan
        self._pickled = plan.pickled()
        self._ranges: RangeReader | None = None
        if isinstance(plan.graph.spouts[plan.wiring.batch_spout].spout, SparkTransactionalSpout):
            self._ranges = RangeReader(session, plan, partial(RemoteStage, "spout", plan.run_id, self._pickled))
        self._free: list[_Chain] = []  # of phases that have ended
        self._chains: list[_Chain] = []  # all of them
        self._background = Background(self._process)
        self.start = self._background.start
        self._server: BatchServer | None = None

    def serve(self, driver: BatchDriver) -> None:
        """Listen for requests of the emitters."""
        self._server = BatchServer(self.session, driver)

    def close(self) -> None:
        """Wait for the cancelled phases, at most 5 s. Workers still keep their emitters and bolts."""
        self._background.close()
        if self._server is not None:
            self._server.close()
        for chain in self._chains:
            chain.jobs.close()

    def _process(self, current: Round, cancellation: Cancellation) -> Sequence[TaskReport]:
        chain = self._free.pop() if self._free else self._new_chain()
        begin_job_group(self.session, self._plan, current, cancellation)
        what = "finish the processing phase of a batch"
        with in_pool(self.session, "anchorbolt-processing"):
            if self._ranges is not None:
                frame = chain.jobs.with_bolts(self._ranges.emitted(current))
                reports = chain.jobs.run_all(what, frame, current)
            else:
                assert chain.frame is not None
                reports = chain.jobs.run_all(what, chain.frame, current)
        self._free.append(chain)  # after a failure the chain may still run, so it is not reused
        return reports

    def _new_chain(self) -> _Chain:
        assert self._server is not None
        jobs = RoundJobs(self.session, self._plan, self._pickled)
        jobs.calls = self.calls
        frame = None
        if self._ranges is None:
            tasks = len(self._plan.wiring.tasks[self._plan.wiring.batch_spout])
            emit = jobs.stage("emit", (self._server.address, jobs.calls))
            frame = jobs.with_bolts(jobs.one_row_each(tasks).mapInArrow(emit, ENVELOPE_SCHEMA))
        self._chains.append(_Chain(jobs, frame))
        return self._chains[-1]


class _Chain:
    """The stages of a processing phase. Two phases that run at the same time must not share a shuffle."""

    def __init__(self, jobs: RoundJobs, frame: DataFrame | None) -> None:  # None if each batch has its own frame
        self.jobs = jobs
        self.frame = frame


@contextmanager
def in_pool(session: SparkSession, pool: str) -> Iterator[None]:
    """Run the jobs of this thread in a pool, which shares Spark fairly with other pools."""
    context = session.sparkContext
    before = context.getLocalProperty(_POOL)
    context.setLocalProperty(_POOL, pool)
    try:
        yield
    finally:
        context.setLocalProperty(_POOL, before)  # type: ignore[arg-type]


def begin_job_group(session: SparkSession, plan: ExecutionPlan, current: Round, cancellation: Cancellation) -> None:
    """Cancel the jobs of this thread if the processing phase of their batch is cancelled."""
    context = session.sparkContext
    group = f"anchorbolt-{plan.run_id}-{current.fence.seq}"
    context.setJobGroup(group, f"processing phase of batch {current.txid} of {plan.topology}")
    cancellation.call(partial(context._jsc.sc().cancelJobGroupAndFutureJobs, group))


class RangeReader:
    """Makes a batch's DataFrame of the blobs that the spout's tasks send."""

    def __init__(self, session: SparkSession, plan: ExecutionPlan, stage: Callable[[str], RemoteStage]) -> None:
        """Create it; `stage` returns the stage that runs the tasks of a spout."""
        self._session = session
        self._component = plan.wiring.batch_spout
        spec = plan.graph.spouts[plan.wiring.batch_spout]
        assert isinstance(spec.spout, SparkTransactionalSpout)
        self._spout = spec.spout
        self._spout.accepts_loss = plan.settings.accept_state_loss
        self._parallelism = spec.parallelism
        self._stage = stage(self._component)

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
        self._reader = RangeReader(self.session, plan, partial(RemoteStage, "spout", plan.run_id, self._pickled))

    def rows(self, current: Round, cancellation: Cancellation) -> Iterator[Envelope]:
        """Return the blobs of a batch. May be called on several threads."""
        begin_job_group(self.session, self._plan, current, cancellation)
        frame = self._reader.emitted(current)
        jobs = RoundJobs(self.session, self._plan, self._pickled)
        return jobs.rows("read a batch", frame, current, [])
