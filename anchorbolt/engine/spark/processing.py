"""Runs the processing phases of a transactional topology's batches as Spark jobs, several at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.intake.client import IntakeAddress
from anchorbolt.engine.spark.intake.server import BatchServer
from anchorbolt.engine.spark.jobs import RoundJobs
from anchorbolt.engine.spark.ranges import RangeReader, begin_job_group
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout
from anchorbolt.transactional.batches.background import Background, Cancellation
from anchorbolt.transactional.batches.flights import BatchDriver

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
            self._ranges = RangeReader(session, plan, self._pickled)
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
