"""Runs DataFrames as the jobs of rounds, and says what failed in them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.accumulators import AddingAccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.spark.job_failures import failure_in
from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.shuffle_files import ShuffleFiles
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA, ROUND_PROPERTY, Ended, round_to_text
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope, TaskReport, reports_in

_log = logging.getLogger("anchorbolt.engine")

_LOST_TASK = re.compile(r"Task (?P<partition>\d+) in stage (?P<stage>\d+)\.\d+ failed")


def collect_rows(session: SparkSession, frame: DataFrame, current: Round) -> Iterator[Envelope]:
    """Run a DataFrame as one job whose tasks read `current`; return the blobs for the driver."""
    context = session.sparkContext
    context.setLocalProperty(ROUND_PROPERTY, round_to_text(current))
    try:
        table = frame.toArrow()
    finally:
        context.setLocalProperty(ROUND_PROPERTY, None)  # type: ignore[arg-type]
    return map(Envelope, *(column.to_pylist() for column in table.columns))


class RoundJobs:
    """The jobs of one plan. Of several that run at the same time, each has a `RoundJobs` of its own."""

    def __init__(self, session: SparkSession, plan: ExecutionPlan, pickled: bytes | None = None) -> None:
        self._session = session
        self._plan = plan
        self.pickled = plan.pickled() if pickled is None else pickled
        self.tasks = 0  # of the current job
        self.ended: Ended = session.sparkContext.accumulator([], AddingAccumulatorParam([]))
        self._shuffled = ShuffleFiles()

    def with_bolts(self, frame: DataFrame, first_level: int = 1) -> DataFrame:
        """Return the blobs for the driver, after the stages of the bolts from `first_level` on."""
        for level, tasks in list(enumerate(self._plan.levels, start=1))[first_level - 1 :]:
            frame = frame.repartitionById(len(tasks), frame["partition"]).mapInArrow(
                self.stage("bolts", (level, self.ended)), ENVELOPE_SCHEMA
            )
        return frame

    def run_all(self, what: str, frame: DataFrame, current: Round) -> list[TaskReport]:
        """Run the whole chain of the plan's stages, as `run` does, and remove what it has shuffled.

        The same frame may be run again, in another round or wave.
        """
        self._shuffled.wait_for(frame)
        try:
            return self.run(what, frame, current, self._plan.levels)
        finally:
            self._shuffled.remove(frame)

    def run(self, what: str, frame: DataFrame, current: Round, stages: list[list[TaskKey]]) -> list[TaskReport]:
        """Run a job, and return its tasks' reports; `stages` are the tasks of its last stages."""
        return reports_in(self.rows(what, frame, current, stages), current)

    def rows(self, what: str, frame: DataFrame, current: Round, stages: list[list[TaskKey]]) -> Iterator[Envelope]:
        """Run a job, and return its blobs. Raises a `WaveFailed` of the kind that Spark's message tells."""
        self.ended.value, self.tasks = [], sum(map(len, stages))
        try:
            return collect_rows(self._session, frame, current)
        except (PySparkException, Py4JError, OSError) as error:  # OSError: the JVM is gone
            ended = dict(self.ended.value)
            unheard = [task for stage in stages for task in stage if task not in ended]
            text = str(error)
            raise failure_in(text, what, current.txid, lambda: self._lost_task(text, stages), unheard) from error
        finally:
            self.tasks = 0

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
            return f"a spout ({', '.join(self._plan.graph.spouts)}), partition {lost['partition']}"
        component, index = stages[position][int(lost["partition"])]
        return f"bolt {component!r}, task {index}"

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        """Have these tasks handle COMMIT or ROLLBACK. Raises `BoltError`, or `WaveFailed` if a worker was lost."""
        stage = self.stage("checkpoint", (checkpoint, list(tasks), self.ended))
        frame = self.one_row_each(len(tasks)).mapInArrow(stage, ENVELOPE_SCHEMA)
        for report in self.run("run the hooks", frame, current, [list(tasks)]):
            if report.failure is not None:
                raise report.failure

    def close_instances(self) -> None:
        """Have the workers close the instances that they keep, if Spark gives each of them a task."""
        try:
            tasks = self._session.sparkContext.defaultParallelism
            self.one_row_each(tasks).mapInArrow(self.stage("close", None), ENVELOPE_SCHEMA).toArrow()
        except Exception as error:
            _log.warning("the workers did not clean up: %s", error)

    def stage(self, kind: str, argument: object) -> RemoteStage:
        return RemoteStage(kind, self._plan.run_id, self.pickled, argument)

    def one_row_each(self, partitions: int) -> DataFrame:
        return self._session.range(0, partitions, 1, partitions)
