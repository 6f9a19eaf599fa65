"""Runs rounds as Spark jobs: one linear job for a round, a small single-stage job for COMMIT or ROLLBACK."""

import logging
import re
from collections.abc import Iterator, Sequence
from functools import reduce

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.accumulators import AddingAccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from anchorbolt.bolts.base import Bolt
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.driver.pump import Pump
from anchorbolt.engine.driver.spouts import DriverSpouts
from anchorbolt.engine.spark.intake_server import IntakeServer
from anchorbolt.engine.spark.query import WaveQuery
from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.session import build_session, engine_session
from anchorbolt.engine.spark.shipping import ship
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA, ROUND_PROPERTY, Ended, round_to_text
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope, TaskReport, reports_in
from anchorbolt.errors import TopologyError, WaveFailed
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
    for component, spec in plan.graph.spouts.items():
        frame = _source_frame(session, component, spec)
        if spec.parallelism is not None:
            frame = frame.coalesce(spec.parallelism)
        frames.append(frame.mapInArrow(RemoteStage("spout", plan.run_id, pickled, component), ENVELOPE_SCHEMA))
    return reduce(DataFrame.union, frames)


def _source_frame(session: SparkSession, component: str, spec: SpoutSpec) -> DataFrame:
    def refusal(problem: str) -> TopologyError:
        return TopologyError(f"spout {component!r}: {problem}", component=component)

    spout = spec.spout
    if not isinstance(spout, StreamSpout):
        raise refusal(f"it is a {type(spout).__name__}, which does not run on Spark. Use a StreamSpout.")
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
        self._intake_rows: DataFrame | None = None
        self.waves: WaveQuery | Pump
        if plan.rich_spout_tasks:
            spouts = DriverSpouts(plan)
            self._intake = IntakeServer(session.sparkContext.getConf().get("spark.driver.host") or "", spouts.intake)
            self._intake_rows = self._with_bolts(self._intake_frame())
            self.waves = Pump(plan, spouts)
        else:
            self.waves = WaveQuery(plan, folder, session, self._with_bolts(source_rows(session, plan, self._pickled)))
        self._ran: DataFrame | None = None

    def _intake_frame(self) -> DataFrame:
        assert self._intake is not None
        partitions = min(len(self._plan.rich_spout_tasks), self._session.sparkContext.defaultParallelism)
        stage = self._stage("intake", (self._intake.address, partitions))
        return self._one_row_each(partitions).mapInArrow(stage, ENVELOPE_SCHEMA)

    def _with_bolts(self, frame: DataFrame) -> DataFrame:
        for level, tasks in enumerate(self._plan.levels, start=1):
            frame = frame.repartitionById(len(tasks), frame["partition"]).mapInArrow(
                self._stage("bolts", (level, self.ended)), ENVELOPE_SCHEMA
            )
        return frame

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        batch = self.waves.batch if isinstance(self.waves, WaveQuery) else self._intake_rows
        assert batch is not None
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
                raise WaveFailed(self._lost_worker(failed, text, stages), txid=current.txid) from error
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

    def __init__(self, plan: ExecutionPlan, folder: Folder) -> None:
        spark = build_session(plan.topology)
        ship(spark.sparkContext)
        self._session = engine_session(spark)
        super().__init__(plan, folder, self._session, source_rows(self._session, plan, plan.pickled("provider")))

    def rows(self, current: Round) -> Iterator[Envelope]:
        assert self.batch is not None
        return collect_rows(self._session, self.batch, current)

    def spark_session(self) -> SparkSession:
        return self._session
