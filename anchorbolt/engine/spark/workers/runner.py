"""Runs rounds in workers that stay. Only the tasks of stream spouts are Spark jobs."""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.driver.runner import StageProgress, WorkerFigures
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.source import Source
from anchorbolt.engine.spark.intake.server import (
    BatchServer,
    call_server,
    calls_everywhere,
    cannot_listen,
    driver_hosts,
)
from anchorbolt.engine.spark.jobs import RoundJobs
from anchorbolt.engine.spark.processing import RangeReader, begin_job_group, in_pool
from anchorbolt.engine.spark.query import QuerySource
from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.runs import live_runs
from anchorbolt.engine.spark.sink_files import read_sink_files
from anchorbolt.engine.spark.sources.rows import known_sources, source_rows
from anchorbolt.engine.spark.worker import WORKERS_PROPERTY
from anchorbolt.engine.spark.workers.hosts import SparkHosts, check_slots
from anchorbolt.engine.spark.workers.security import new_secret
from anchorbolt.engine.task.commit_task import CommitGroup
from anchorbolt.engine.task.messages import Envelope, TaskReport, reports_in
from anchorbolt.engine.task.round_text import round_to_text
from anchorbolt.engine.task.watchdog import LongCall
from anchorbolt.engine.workers.feed import COUNTS_LEVEL, table_to_text
from anchorbolt.engine.workers.fleet import Fleet
from anchorbolt.engine.workers.frames import Kind
from anchorbolt.engine.workers.rounds import Slot, Table
from anchorbolt.engine.workers.sources import SourceTask, driver_tasks, emitter_tasks
from anchorbolt.engine.workers.spouts import worker_spouts
from anchorbolt.files import Folder
from anchorbolt.serialization import unpack
from anchorbolt.spouts.base import BaseRichSpout, StreamSpout
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout
from anchorbolt.transactional.batches.background import Background, Cancellation
from anchorbolt.transactional.batches.flights import BatchDriver

_PROCESSING = 0


class WorkersRunner:
    """The port `anchorbolt.engine.driver.runner.Runner` on workers that stay."""

    clock = staticmethod(time.time)

    def __init__(self, session: SparkSession, plan: ExecutionPlan, folder: Folder) -> None:
        """Start the workers, but do not wait for them. Raises `ConfigError` if Spark has too few slots."""
        self._session = session
        self._whole = plan
        self.slots = plan.settings.workers
        plans = [plan, plan.commit_phase()] if plan.wiring.batch_spout else [plan]
        self._phase, self._plan = len(plans) - 1, plans[-1]
        spout = plan.graph.batch_spout and plan.graph.batch_spout.spout
        uses_jobs = plan.graph.stream_spouts or plan.sinks or isinstance(spout, SparkTransactionalSpout)
        others = 1 if uses_jobs else 0
        check_slots(session, self.slots, others)
        self.processing: WorkersProcessing | None = None
        pickled = plan.pickled()
        known = known_sources(plan, folder) if plan.graph.stream_spouts else None
        self._hosts = SparkHosts(session, plan, pickled, self.slots)
        host, bind_to = driver_hosts(session)
        try:
            self._fleet = Fleet(plans, self.slots, self._hosts, host, bind_to, new_secret(session))
        except OSError as error:
            raise cannot_listen(bind_to, error) from error
        self._secret = self._fleet.address.secret
        self.calls = call_server(session)
        self._hosts.calls = None if self.calls is None else self.calls.address
        self._jobs = RoundJobs(session, plan, pickled)
        self._query: QuerySource | None = None
        self.spouts, self._hosted = worker_spouts(plan, self._fleet, "Spark", (BaseRichSpout, StreamSpout))
        try:
            if known is not None:
                frame = source_rows(session, plan, self._feed_stage, known)
                self._query = QuerySource(plan, folder, session, frame, known)
            if plan.wiring.batch_spout:
                self.processing = WorkersProcessing(session, plan, self._fleet, self._hosts, pickled, self._feed_stage)
        except BaseException:
            self.close_instances()
            raise
        self.sources: list[Source] = [
            *([] if self._query is None else [self._query]),
            *([] if self.spouts is None else self.spouts.sources),
        ]
        live_runs.begin(plan.run_id, self.slots, others)
        if self.processing is None:
            self._fleet.start()

    @property
    def query(self) -> StreamingQuery | None:
        return None if self._query is None else self._query.query

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        feed = None
        if self._query is not None and self._query.frame is not None:
            feed = partial(fed, self._jobs, self._query.frame, current)
        sources: Mapping[Slot, Sequence[SourceTask]] = {}
        if self.processing is None:
            intakes: Mapping[TaskKey, int] = {}
            if self._hosted is not None and self.spouts is not None and self.spouts.rich is not None:
                self.spouts.rich.forget_lost()
                intakes = self._hosted.intakes()
            sources = driver_tasks(self._plan, self.spouts, self.slots, intakes)
        return _reports(self._fleet.run(self._phase, current, sources, feed), current)

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        text = round_to_text(self._plan, current)
        payloads = {
            slot: pickle.dumps((self._phase, checkpoint, of_slot, text))
            for slot, of_slot in self._fleet.placements[self._phase].by_slot(self._plan.wiring, tasks).items()
        }
        is_commit = checkpoint.action is Action.COMMIT  # a worker that was lost has nothing to roll back
        for failure in self._fleet.ask(Kind.HANDLE, payloads, current.txid, needs_all=is_commit):
            if failure is not None:
                raise failure

    def commit_state(self, current: Round, groups: Sequence[CommitGroup], threads: int) -> Sequence[TaskReport]:
        text = round_to_text(self._plan, current)
        payloads = {slot: pickle.dumps((self._phase, group, threads, text)) for slot, group in enumerate(groups)}
        return _reports(self._fleet.ask(Kind.COMMIT, payloads, current.txid), current)

    def read_files(self, files: Mapping[bytes, Sequence[str]], columns: bytes) -> DataFrame:
        return read_sink_files(self._session, files, columns)

    def progress(self) -> StageProgress:
        return StageProgress(*self._fleet.progress())

    def long_calls(self) -> Sequence[LongCall]:
        return calls_everywhere(self._plan.topology, self.calls)

    def workers(self) -> Sequence[WorkerFigures]:
        """Return the workers that are there. May be called on any thread."""
        slots = [] if self._hosted is None else [host.slot for host in self._hosted.hosts]
        if self.processing is not None and not self.processing.reads_ranges:
            slots = [slot for slot, tasks in emitter_tasks(self._whole, self.slots).items() for _ in tasks]
        return self._fleet.figures(Counter(slots))

    def close_instances(self) -> None:
        """Stop the workers, which call `cleanup` of their bolts; remove the run's remains on the driver."""
        if self.processing is not None:
            self.processing.close()
        live_runs.end(self._whole.run_id)
        self._fleet.close()
        if self.calls is not None:
            self.calls.close()
        self._jobs.close()

    def _feed_stage(self, component: str) -> RemoteStage:
        return RemoteStage("feed", self._whole.run_id, self._jobs.pickled, (component, self._secret))


class WorkersProcessing:
    """The port `anchorbolt.transactional.batches.pipeline.Processing` on workers that stay."""

    def __init__(
        self,
        session: SparkSession,
        plan: ExecutionPlan,
        fleet: Fleet,
        hosts: SparkHosts,
        pickled: bytes,
        feed_stage: Callable[[str], RemoteStage],
    ) -> None:
        self.session = session
        self._plan = plan
        self._fleet = fleet
        self._hosts = hosts
        self._pickled = pickled
        self._ranges: RangeReader | None = None
        if isinstance(plan.graph.spouts[plan.wiring.batch_spout].spout, SparkTransactionalSpout):
            self._ranges = RangeReader(session, plan, feed_stage)
        self._background = Background(self._process)
        self.start = self._background.start
        self._server: BatchServer | None = None

    @property
    def reads_ranges(self) -> bool:
        """Whether Spark's jobs run the tasks of the spout."""
        return self._ranges is not None

    def serve(self, driver: BatchDriver) -> None:
        """Listen for requests of the emitters, and start the workers."""
        self._server = BatchServer(self.session, driver)
        self._hosts.emitters = self._server.address
        self._fleet.start()

    def close(self) -> None:
        """Wait for the cancelled phases, at most 5 s."""
        self._background.close()
        if self._server is not None:
            self._server.close()

    def _process(self, current: Round, cancellation: Cancellation) -> Sequence[TaskReport]:
        feed = None
        if self._ranges is not None:
            begin_job_group(self.session, self._plan, current, cancellation)
            frame = self._ranges.emitted(current)
            feed = partial(self._fed, frame, current)
        sources = emitter_tasks(self._plan, self._fleet.slots)
        return _reports(self._fleet.run(_PROCESSING, current, sources, feed, cancellation.call), current)

    def _fed(
        self, frame: DataFrame, current: Round, number: int, table: Table, done: Future[None]
    ) -> tuple[Mapping[tuple[int, Slot], int], list[bytes]]:
        jobs = RoundJobs(self.session, self._plan, self._pickled)
        try:
            with in_pool(self.session, "anchorbolt-processing"):
                return fed(jobs, frame, current, number, table, done)
        finally:
            jobs.close()


def fed(
    jobs: RoundJobs, frame: DataFrame, current: Round, number: int, table: Table, done: Future[None]
) -> tuple[Mapping[tuple[int, Slot], int], list[bytes]]:
    """Run the job of a stream spout's tasks, see `anchorbolt.engine.workers.fleet.Feed`."""
    with jobs.local_property(WORKERS_PROPERTY, table_to_text(number, table)), jobs.unless_failed(done):
        rows = list(jobs.rows("read the source", frame, current, []))
    sent: dict[tuple[int, Slot], int] = {}
    for row in rows:
        if row.level == COUNTS_LEVEL:
            for level, slot, blobs in unpack(row.payload):
                sent[level, slot] = sent.get((level, slot), 0) + blobs
    return sent, [row.payload for row in rows if row.level != COUNTS_LEVEL]


def _reports(payloads: Sequence[bytes], current: Round) -> list[TaskReport]:
    return reports_in([Envelope(0, 0, 0, payload) for payload in payloads], current)
