"""Runs rounds as Spark jobs: one linear job for a round, a small single-stage job for COMMIT or ROLLBACK."""

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.driver.runner import StageProgress, WorkerFigures
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.driver_spouts import DriverSpouts, driver_spouts
from anchorbolt.engine.sources.source import Source
from anchorbolt.engine.spark.intake.server import IntakeServer, call_server, calls_everywhere
from anchorbolt.engine.spark.jobs import RoundJobs
from anchorbolt.engine.spark.processing import SparkProcessing, in_pool
from anchorbolt.engine.spark.query import QuerySource
from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.runs import live_runs
from anchorbolt.engine.spark.sink_files import read_sink_files
from anchorbolt.engine.spark.sources.known import KnownSources
from anchorbolt.engine.spark.sources.rows import known_sources, source_rows
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA
from anchorbolt.engine.task.commit_task import CommitGroup
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.engine.task.watchdog import LongCall
from anchorbolt.files import Folder
from anchorbolt.spouts.base import BaseRichSpout, StreamSpout


class SparkRunner:
    """The port `anchorbolt.engine.driver.runner.Runner` on Spark. Its chain of stages is declared once."""

    clock = staticmethod(time.time)

    def __init__(self, session: SparkSession, plan: ExecutionPlan, folder: Folder) -> None:
        self._session = session
        self._plan = plan.commit_phase() if plan.wiring.batch_spout else plan
        self._intake: IntakeServer | None = None
        self._query: QuerySource | None = None
        self._own_rows: DataFrame | None = None  # of the waves without a batch of the query
        self._mixed: tuple[DataFrame, DataFrame] | None = None  # a batch of the query, and the rows of its wave
        self.spouts: DriverSpouts | None = None
        self.processing: SparkProcessing | None = None
        pickled = self._plan.pickled()
        # Check first: nothing is open yet that a refusal would have to close.
        known: KnownSources | None = None
        if plan.wiring.batch_spout:
            self.processing = SparkProcessing(session, plan)
        else:
            self.spouts = driver_spouts(plan, "Spark", (BaseRichSpout, StreamSpout))
        if plan.graph.stream_spouts:
            known = known_sources(plan, folder)
            stage = partial(RemoteStage, "spout", self._plan.run_id, pickled)
            sources = source_rows(session, plan, stage, known)
        if self.spouts is not None and (plan.wiring.rich_spout_tasks or plan.replays_letters):
            self._intake = IntakeServer(session, self.spouts)
        self.calls = call_server(session)
        self.jobs = RoundJobs(session, self._plan, pickled)
        self._commits = RoundJobs(session, self._plan, pickled)
        self.jobs.calls = None if self.calls is None else self.calls.address
        if self.processing is not None:
            self.processing.calls = self.jobs.calls
            self._own_rows = self._commit_rows()
        if self.spouts is not None:
            self._own_rows = self.jobs.with_bolts(self._intake_rows(session))
        if known is not None:
            # Without rich spouts the whole chain is declared once, not planned again for each batch.
            frame = sources if plan.wiring.rich_spout_tasks else self.jobs.with_bolts(sources)
            self._query = QuerySource(plan, folder, session, frame, known)
        self.sources: list[Source] = [
            *([] if self._query is None else [self._query]),
            *([] if self.spouts is None else self.spouts.sources),
        ]
        self._run_ids = {plan.run_id, self._plan.run_id}
        for run_id in self._run_ids:
            live_runs.begin(run_id)

    @property
    def query(self) -> StreamingQuery | None:
        return None if self._query is None else self._query.query

    def _commit_rows(self) -> DataFrame | None:
        """Return the blobs of the commit phases of a transactional topology; None if it has none."""
        if not self._plan.wiring.levels:
            return None
        tasks = self.jobs.one_row_each(len(self._plan.wiring.stages[0]))
        stage = self.jobs.stage("commit", (self.jobs.ended, self.jobs.calls))
        return self.jobs.with_bolts(tasks.mapInArrow(stage, ENVELOPE_SCHEMA), first_stage=2)

    def _intake_rows(self, session: SparkSession) -> DataFrame:
        """Return the blobs of the rich spouts; a frame without rows if there are none."""
        partitions = max(1, min(len(self._plan.wiring.rich_spout_tasks), session.sparkContext.defaultParallelism))
        stage = self.jobs.stage("intake", (self._intake and self._intake.address, partitions))
        return session.range(0, partitions, 1, partitions).mapInArrow(stage, ENVELOPE_SCHEMA)

    def _rows(self) -> DataFrame:
        """Return the rows of the current wave; the same object in each of its rounds."""
        batch = None if self._query is None else self._query.frame
        if batch is None:
            assert self._own_rows is not None
            return self._own_rows
        if not self._plan.wiring.rich_spout_tasks:
            return batch
        if self._mixed is None or self._mixed[0] is not batch:
            self._mixed = batch, self.jobs.with_bolts(batch.union(self._intake_rows(batch.sparkSession)))
        return self._mixed[1]

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        if self.processing is not None:
            what = f"commit phase of batch {current.txid} of {self._plan.topology}"
            self._session.sparkContext.setJobGroup(f"anchorbolt-{self._plan.run_id}", what)
        with self._beside_processing():
            return self.jobs.run_all("finish a round", self._rows(), current)

    def _beside_processing(self) -> AbstractContextManager[None]:
        return nullcontext() if self.processing is None else in_pool(self._session, "anchorbolt-commit")

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        self.jobs.send(checkpoint, current, tasks)

    @property
    def slots(self) -> int:
        return self._commits.slots

    def commit_state(self, current: Round, groups: Sequence[CommitGroup], threads: int) -> Sequence[TaskReport]:
        with self._beside_processing():
            return self._commits.commit_state(current, groups, threads)

    def read_files(self, files: Mapping[bytes, Sequence[str]], columns: bytes) -> DataFrame:
        return read_sink_files(self._session, files, columns)

    def progress(self) -> StageProgress:
        return self.jobs.progress()

    def long_calls(self) -> Sequence[LongCall]:
        return calls_everywhere(self._plan.topology, self.calls)

    def workers(self) -> Sequence[WorkerFigures]:
        return ()

    def close_instances(self) -> None:
        """Make the workers call `cleanup` on their instances; remove the run's remains in Spark and on the driver."""
        if self.processing is not None:
            self.processing.close()
        for run_id in self._run_ids:
            live_runs.end(run_id)
        for server in (self.calls, self._intake):
            if server is not None:
                server.close()
        if self.jobs.has_run or self._commits.has_run or self.processing is not None:
            self.jobs.close_instances(*self._run_ids)
        for jobs in (self.jobs, self._commits):
            jobs.close()
