"""Runs the two phases of a transactional topology's batches as Spark jobs, those of several batches at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.driver.batches.background import Background, Cancellation
from anchorbolt.engine.driver.batches.pipeline import Pipeline
from anchorbolt.engine.driver.batches.waves import BatchSource
from anchorbolt.engine.driver.runner import StageProgress
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.batches.ranges import RangeReader, begin_job_group
from anchorbolt.engine.spark.intake.server import BatchServer, call_server, calls_everywhere
from anchorbolt.engine.spark.jobs import RoundJobs
from anchorbolt.engine.spark.runs import live_runs
from anchorbolt.engine.spark.sink_files import read_sink_files
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA
from anchorbolt.engine.task.commit_task import CommitGroup
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.engine.task.watchdog import LongCall
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout

_POOL = "spark.scheduler.pool"


class SparkBatchRunner:
    """The port `anchorbolt.engine.driver.runner.BatchRunner` on Spark."""

    spouts: None = None

    def __init__(self, session: SparkSession, plan: ExecutionPlan) -> None:
        self._session = session
        self._plan = plan
        self._pickled = plan.pickled()
        self._commit_plan = plan.commit_phase()
        self.jobs = RoundJobs(session, self._commit_plan)  # of the commit phases
        self._state_commits = RoundJobs(session, self._commit_plan, self.jobs.pickled)
        self._ranges: RangeReader | None = None
        if isinstance(plan.graph.spouts[plan.batch_spout].spout, SparkTransactionalSpout):
            self._ranges = RangeReader(session, plan, self._pickled)
        self._free: list[_Chain] = []  # of processing phases that have ended
        self._chains: list[_Chain] = []  # all of them
        self._background = Background(self._process)
        self._server: BatchServer | None = None
        self._batches = BatchSource(plan, self._background.start)
        self.sources = (self._batches,)
        self._commit: DataFrame | None = None
        self.calls = call_server(session)  # after what may be refused
        self.jobs.calls = None if self.calls is None else self.calls.address
        if self._commit_plan.levels:
            tasks = self.jobs.one_row_each(len(self._commit_plan.levels[0]))
            first = tasks.mapInArrow(self.jobs.stage("commit", (self.jobs.ended, self.jobs.calls)), ENVELOPE_SCHEMA)
            self._commit = self.jobs.with_bolts(first, first_level=2)
        self._runs = (plan.run_id, self._commit_plan.run_id)
        for run_id in self._runs:
            live_runs.begin(run_id)

    def use(self, pipeline: Pipeline) -> None:
        """Take the run's pipeline, and listen for the emitters, which ask it."""
        self._batches.pipeline = pipeline
        pipeline.session = self._session
        self._server = BatchServer(self._session, pipeline)

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        assert self._commit is not None, "called only if there is something to do"
        topology = self._plan.topology
        self._session.sparkContext.setJobGroup(
            f"anchorbolt-{self._commit_plan.run_id}", f"commit phase of batch {current.txid} of {topology}"
        )
        with self._in_pool("anchorbolt-commit"):
            return self.jobs.run_all("finish the commit phase of a batch", self._commit, current)

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        self.jobs.send(checkpoint, current, tasks)

    @property
    def slots(self) -> int:
        return self._state_commits.slots

    def commit_state(self, current: Round, groups: Sequence[CommitGroup], threads: int) -> Sequence[TaskReport]:
        with self._in_pool("anchorbolt-commit"):
            return self._state_commits.commit_state(current, groups, threads)

    def read_files(self, files: Mapping[bytes, Sequence[str]], columns: bytes) -> DataFrame:
        return read_sink_files(self._session, files, columns)

    def progress(self) -> StageProgress:
        return self.jobs.progress()

    def long_calls(self) -> Sequence[LongCall]:
        return calls_everywhere(self._plan.topology, self.calls)

    def close_instances(self) -> None:
        """Have the workers close the emitters and bolts that they keep."""
        self._background.close()
        for server in (self.calls, self._server):
            if server is not None:
                server.close()
        for run_id in self._runs:
            live_runs.end(run_id)
        self.jobs.close_instances(*self._runs)
        for jobs in (self.jobs, self._state_commits, *(chain.jobs for chain in self._chains)):
            jobs.close()

    def _process(self, current: Round, cancellation: Cancellation) -> Sequence[TaskReport]:
        chain = self._free.pop() if self._free else self._new_chain()
        begin_job_group(self._session, self._plan, current, cancellation)
        what = "finish the processing phase of a batch"
        with self._in_pool("anchorbolt-processing"):
            if self._ranges is not None:
                frame = chain.jobs.with_bolts(self._ranges.emitted(current))
                reports = chain.jobs.run_all(what, frame, current)
            else:
                assert chain.frame is not None
                reports = chain.jobs.run_all(what, chain.frame, current)
        self._free.append(chain)  # one that failed may still run for a while
        return reports

    def _new_chain(self) -> _Chain:
        assert self._server is not None
        jobs = RoundJobs(self._session, self._plan, self._pickled)
        jobs.calls = self.jobs.calls
        if self._ranges is not None:
            self._chains.append(_Chain(jobs, None))
            return self._chains[-1]
        tasks = len(self._plan.tasks[self._plan.batch_spout])
        emit = jobs.stage("emit", (self._server.address, jobs.calls))
        emitted = jobs.one_row_each(tasks).mapInArrow(emit, ENVELOPE_SCHEMA)
        self._chains.append(_Chain(jobs, jobs.with_bolts(emitted)))
        return self._chains[-1]

    @contextmanager
    def _in_pool(self, pool: str) -> Iterator[None]:
        """Have the jobs of this thread share Spark fairly with those of the other pool."""
        context = self._session.sparkContext
        before = context.getLocalProperty(_POOL)
        context.setLocalProperty(_POOL, pool)
        try:
            yield
        finally:
            context.setLocalProperty(_POOL, before)  # type: ignore[arg-type]


class _Chain:
    """The stages of a processing phase. Two phases that run at the same time must not share a shuffle."""

    def __init__(self, jobs: RoundJobs, frame: DataFrame | None) -> None:  # None if each batch has a frame of its own
        self.jobs = jobs
        self.frame = frame
