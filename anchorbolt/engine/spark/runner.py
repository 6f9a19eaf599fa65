"""Runs rounds as Spark jobs: one linear job for a round, a small single-stage job for COMMIT or ROLLBACK."""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.accumulators import AddingAccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anchorbolt.bolts.base import Bolt
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.driver.pump import driver_spouts, waves_of
from anchorbolt.engine.spark.intake_server import IntakeServer
from anchorbolt.engine.spark.query import WaveQuery
from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.session import build_session, engine_session
from anchorbolt.engine.spark.shipping import ship
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA, ROUND_PROPERTY, Ended, round_to_text
from anchorbolt.engine.spouts.driver_spouts import DriverSpouts
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope, TaskReport, reports_in
from anchorbolt.errors import TopologyError, WaveFailed, WorkerLost
from anchorbolt.spouts.rich import BaseRichSpout
from anchorbolt.spouts.stream import StreamSpout
from anchorbolt.topology.graph import SpoutSpec
from anchorbolt.util.locations import Folder
from anchorbolt.util.messages import shortened

_log = logging.getLogger("anchorbolt.engine")

_STACK_LINE = re.compile(r"at [\w.$/<>]+\(.*\)$|\.\.\. \d+ more$|An error occurred while calling o\d+")

_WORKER_DIED = re.compile(r"Python worker exited unexpectedly|java\.io\.EOFException|ExecutorLostFailure")
# What a cluster manager says of an executor; what Python writes if native code crashes, with the bolt's own frames.
_CAUSE = re.compile(
    r"(ExecutorLostFailure .*|Fatal Python error: .*)"
    r'(?s:.*?\n(Current thread .*?\n)(?=  File "[^"]*/anchorbolt/|\n))?'
)
_NO_CAUSE = (
    "It was killed (by the kernel if memory ran out, or by topology.task.timeout.secs), a bolt ended it with os._exit, "
    "or it crashed in native code (spark.python.worker.faulthandler.enabled=true would show where). Look at its last "
    "output and at the kernel's log (dmesg)"
)
_LOST_TASK = re.compile(r"Task (?P<partition>\d+) in stage (?P<stage>\d+)\.\d+ failed")


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


def collect_rows(session: SparkSession, frame: DataFrame, current: Round) -> Iterator[Envelope]:
    """Run a DataFrame as one job whose tasks read `current`; return the blobs for the driver."""
    context = session.sparkContext
    context.setLocalProperty(ROUND_PROPERTY, round_to_text(current))
    try:
        table = frame.toArrow()
    finally:
        context.setLocalProperty(ROUND_PROPERTY, None)  # type: ignore[arg-type]
    return map(Envelope, *(column.to_pylist() for column in table.columns))


def _without_frames(text: str) -> str:
    """Leave out lines of py4j itself and the stack of a Java exception, but not its causes."""
    lines = [line.strip().removeprefix(": ") for line in text.splitlines()]
    return "\n".join(line for line in lines if line and not _STACK_LINE.match(line))


class SparkRunner:
    """The port `anchorbolt.engine.driver.rounds.Runner` on Spark. Its chain of stages is declared once."""

    def __init__(self, session: SparkSession, plan: ExecutionPlan, folder: Folder) -> None:
        self._session = session
        self._plan = plan
        self._pickled = plan.pickled()
        self.tasks = 0  # of the current job
        self.ended: Ended = session.sparkContext.accumulator([], AddingAccumulatorParam([]))
        self._intake: IntakeServer | None = None
        self._query: WaveQuery | None = None
        self._own_rows: DataFrame | None = None  # of the waves without a batch of the query
        self._mixed: tuple[DataFrame, DataFrame] | None = None  # a batch of the query, and the rows of its wave
        self._ran: DataFrame | None = None
        self.spouts = driver_spouts(plan, "Spark", (BaseRichSpout, StreamSpout))
        sources = source_rows(session, plan, self._pickled) if plan.graph.stream_spouts else None
        if self.spouts is not None:
            if plan.rich_spout_tasks or plan.replays_letters:
                conf = session.sparkContext.getConf()
                host = conf.get("spark.driver.host") or "localhost"
                self._intake = IntakeServer(conf.get("spark.driver.bindAddress") or host, host, self.spouts)
            self._own_rows = self._with_bolts(self._intake_rows(session))
        if sources is not None:
            # Without rich spouts the whole chain is declared once, which saves planning it for each batch.
            frame = sources if plan.rich_spout_tasks else self._with_bolts(sources)
            self._query = WaveQuery(plan, folder, session, frame, self.spouts)
        self.waves = waves_of(plan, self._query, self.spouts)

    @property
    def query(self) -> StreamingQuery | None:
        return None if self._query is None else self._query.query

    def _intake_rows(self, session: SparkSession) -> DataFrame:
        """Return the blobs of the rich spouts; without any, a frame without rows."""
        partitions = max(1, min(len(self._plan.rich_spout_tasks), session.sparkContext.defaultParallelism))
        stage = self._stage("intake", (self._intake and self._intake.address, partitions))
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
            self._mixed = batch, self._with_bolts(batch.union(self._intake_rows(batch.sparkSession)))
        return self._mixed[1]

    def _with_bolts(self, frame: DataFrame) -> DataFrame:
        for level, tasks in enumerate(self._plan.levels, start=1):
            frame = frame.repartitionById(len(tasks), frame["partition"]).mapInArrow(
                self._stage("bolts", (level, self.ended)), ENVELOPE_SCHEMA
            )
        return frame

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        batch = self._rows()
        if batch is self._ran:
            # Otherwise Spark skips stages whose shuffle output still exists: the output of rolled back attempts.
            batch._jdf.queryExecution().toRdd().cleanShuffleDependencies(True)
        self._ran = batch
        return self._run("finish a round", batch, current, self._plan.levels)

    def _run(self, what: str, frame: DataFrame, current: Round, stages: list[list[TaskKey]]) -> list[TaskReport]:
        """Run a job, and return its tasks' reports; `stages` are the tasks of its last stages."""
        self.ended.value, self.tasks = [], sum(map(len, stages))
        try:
            rows = collect_rows(self._session, frame, current)
        except (PySparkException, Py4JError, OSError) as error:  # OSError: the JVM is gone
            text, failed = str(error), f"Spark could not {what} of txid {current.txid}: "
            if _WORKER_DIED.search(text):
                raise WorkerLost(self._lost_worker(failed, text, stages), txid=current.txid) from error
            raise WaveFailed(failed + _without_frames(text), txid=current.txid) from error
        finally:
            self.tasks = 0
        return reports_in(rows, current)

    def _lost_worker(self, failed: str, text: str, stages: list[list[TaskKey]]) -> str:
        ended = dict(self.ended.value)
        unheard = [task for stage in stages for task in stage if task not in ended]
        cause = _CAUSE.search(text)
        said, stack = cause.groups(default="") if cause else (_NO_CAUSE, "")
        return (
            f"{stack}{failed}the worker process of {self._lost_task(text, stages)} ended before it reported. {said}. "
            f"No report from: {shortened(unheard, 400)}. Start again: the run resumes after the last committed wave."
        )

    def _lost_task(self, text: str, stages: list[list[TaskKey]]) -> str:
        """Name the task that Spark's message is about. The stages of a round are those of the spouts and then ours."""
        lost = _LOST_TASK.search(text)
        context = self._session.sparkContext
        tracker = context.statusTracker()
        jobs = tracker.getJobIdsForGroup(context.getLocalProperty("spark.jobGroup.id"))
        info = tracker.getJobInfo(max(jobs)) if jobs and lost else None
        if lost is None or info is None or int(lost["stage"]) not in info.stageIds:
            return "a task"
        position = sorted(info.stageIds).index(int(lost["stage"])) - len(info.stageIds) + len(stages)
        if position < 0:
            return f"a spout ({', '.join(self._plan.graph.spouts)}), partition {lost['partition']},"
        component, index = stages[position][int(lost["partition"])]
        return f"bolt {component!r}, task {index},"

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        stage = self._stage("checkpoint", (checkpoint, list(tasks), self.ended))
        frame = self._one_row_each(len(tasks)).mapInArrow(stage, ENVELOPE_SCHEMA)
        for report in self._run("run the hooks", frame, current, [list(tasks)]):
            if report.failure is not None:
                raise report.failure

    def read_files(self, locations: Sequence[str]) -> DataFrame:
        return self._session.read.parquet(*locations)

    def close_instances(self) -> None:
        """Have the workers call `cleanup` on the instances that they keep, if Spark gives each of them a task."""
        if self._intake is not None:
            self._intake.close()
        if all(type(spec.bolt).cleanup is Bolt.cleanup for spec in self._plan.graph.bolts.values()):
            return
        try:
            tasks = self._session.sparkContext.defaultParallelism
            self._one_row_each(tasks).mapInArrow(self._stage("close", None), ENVELOPE_SCHEMA).toArrow()
        except Exception as error:
            _log.warning("the workers did not clean up: %s", error)

    def _stage(self, kind: str, argument: object) -> RemoteStage:
        return RemoteStage(kind, self._plan.run_id, self._pickled, argument)

    def _one_row_each(self, partitions: int) -> DataFrame:
        return self._session.range(0, partitions, 1, partitions)


class LocalStreams(WaveQuery):
    """The stream spouts of a topology on `LocalCluster`: a local Spark runs only their stage."""

    def __init__(self, plan: ExecutionPlan, folder: Folder, spouts: DriverSpouts | None) -> None:
        spark = build_session(plan.topology)
        ship(spark.sparkContext)
        self._session = engine_session(spark)
        super().__init__(
            plan, folder, self._session, source_rows(self._session, plan, plan.pickled("provider")), spouts
        )

    def rows(self, current: Round) -> Iterable[Envelope]:
        """Return the blobs of the query's batch; none in a wave without one."""
        return () if self.batch is None else collect_rows(self._session, self.batch, current)

    def spark_session(self) -> SparkSession:
        return self._session
