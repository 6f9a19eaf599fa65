"""Runs DataFrames as the jobs of rounds, and explains their failures."""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cache
from uuid import uuid4

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.accumulators import AddingAccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.driver.runner import StageProgress
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.intake.client import IntakeAddress
from anchorbolt.engine.spark.job_failures import cause_in, failure_in
from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.runs import RUNS_PROPERTY, live_runs
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA, ROUND_PROPERTY, Ended
from anchorbolt.engine.task.commit_task import CommitGroup
from anchorbolt.engine.task.messages import Envelope, TaskReport, reports_in
from anchorbolt.engine.task.round_text import round_to_text
from anchorbolt.util.messages import begun

_log = logging.getLogger("anchorbolt.engine")

_CLOSE_S = 5.0
"""How long the end of a run waits until its workers have closed their instances."""

_CANCEL_S = 0.2

_CANCELLED = re.compile(r"cancelled part of cancelled job group")
Stages = Sequence[Sequence[Sequence[TaskKey]]]
"""The tasks of a job's last stages, by stage and partition."""

_LOST_TASK = re.compile(r"Task (?P<partition>\d+) in stage (?P<stage>\d+)\.\d+ failed")


def collect_rows(session: SparkSession, plan: ExecutionPlan, frame: DataFrame, current: Round) -> Iterator[Envelope]:
    """Run a DataFrame as one job whose tasks read `current`; return the blobs for the driver."""
    context = session.sparkContext
    context.setLocalProperty(ROUND_PROPERTY, round_to_text(plan, current))
    context.setLocalProperty(RUNS_PROPERTY, str(live_runs))
    try:
        table = frame.toArrow()
    finally:
        context.setLocalProperty(ROUND_PROPERTY, None)  # type: ignore[arg-type]
    return map(Envelope, *(column.to_pylist() for column in table.columns))


_free: list[tuple[str, Ended]] = []
"""Accumulators of ended runs, for reuse, with their application. PySpark keeps each one until the driver ends."""


def _accumulator(session: SparkSession, application: str) -> Ended:
    for place, (each, free) in enumerate(_free):
        if each == application:
            del _free[place]
            free.value = []
            return free
    accumulator: Ended = session.sparkContext.accumulator([], AddingAccumulatorParam([]))
    return accumulator


class RoundJobs:
    """The jobs of one plan, one at a time. Jobs that run in parallel need separate `RoundJobs`."""

    calls: IntakeAddress | None = None  # where workers report long calls; set before `with_bolts`
    has_run = False  # whether a job has been started: workers may have instances

    def __init__(self, session: SparkSession, plan: ExecutionPlan, pickled: bytes | None = None) -> None:
        self._session = session
        self._plan = plan
        self.pickled = plan.pickled() if pickled is None else pickled
        self.tasks = 0  # of the current job
        self._application = session.sparkContext.applicationId
        self.ended = _accumulator(session, self._application)
        self._shuffled = ShuffleFiles()

    def with_bolts(self, frame: DataFrame, first_stage: int = 1) -> DataFrame:
        """Return the blobs for the driver, after the stages of the bolts from `first_stage` on."""
        for number, partitions in list(enumerate(self._plan.wiring.stages, start=1))[first_stage - 1 :]:
            frame = frame.repartitionById(len(partitions), frame["partition"]).mapInArrow(
                self.stage("bolts", (number, self.ended, self.calls)), ENVELOPE_SCHEMA
            )
        return frame

    def run_all(self, what: str, frame: DataFrame, current: Round) -> list[TaskReport]:
        """Run the whole chain of the plan's stages, as `run` does, and remove its shuffled data.

        The same frame may be run again, in another round or wave.
        """
        self._shuffled.wait_for(frame)
        try:
            return self.run(what, frame, current, self._plan.wiring.stages)
        finally:
            self._shuffled.remove(frame)

    def run(self, what: str, frame: DataFrame, current: Round, stages: Stages) -> list[TaskReport]:
        """Run a job, and return its tasks' reports; `stages` are the tasks of its last stages, by partition."""
        return reports_in(self.rows(what, frame, current, stages), current)

    def rows(self, what: str, frame: DataFrame, current: Round, stages: Stages) -> Iterator[Envelope]:
        """Run a job, and return its blobs. Raises `WaveFailed`, or the subclass that matches Spark's message."""
        tasks = [task for stage in stages for partition in stage for task in partition]
        self.ended.value, self.tasks, self.has_run = [], len(tasks), True
        try:
            return collect_rows(self._session, self._plan, frame, current)
        except (PySparkException, Py4JError, OSError) as error:  # OSError: the JVM is gone
            ended = dict(self.ended.value)
            unheard = [task for task in tasks if task not in ended]
            text = str(error)
            raise failure_in(text, what, current.txid, lambda: self._lost_task(text, stages), unheard) from error
        finally:
            self.tasks = 0

    @contextmanager
    def local_property(self, name: str, value: str) -> Iterator[None]:
        """Send a text to the tasks of this thread's jobs."""
        self._session.sparkContext.setLocalProperty(name, value)
        try:
            yield
        finally:
            self._session.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]

    @contextmanager
    def unless_failed(self, done: Future[None]) -> Iterator[None]:
        """Cancel this thread's jobs as soon as `done` gets an error."""
        context, tag, has_ended = self._session.sparkContext, f"anchorbolt-{uuid4().hex}", threading.Event()

        def cancel() -> None:
            with suppress(PySparkException, Py4JError, OSError, AttributeError):  # Spark was stopped
                while not has_ended.is_set():  # more than once: the job may not have begun
                    context.cancelJobsWithTag(tag)
                    has_ended.wait(_CANCEL_S)

        def cancel_later(done: Future[None]) -> None:
            if done.exception() is not None:
                threading.Thread(target=cancel, name="anchorbolt-cancel", daemon=True).start()

        context.addJobTag(tag)
        done.add_done_callback(cancel_later)
        try:
            yield
        finally:
            has_ended.set()
            context.removeJobTag(tag)

    def progress(self) -> StageProgress:
        """Return the progress of the last job for bolts. A task that Spark has run twice counts once."""
        return StageProgress(dict(self.ended.value), self.tasks)

    def _lost_task(self, text: str, stages: Stages) -> str:
        """Name the tasks of the partition in Spark's message. A job's stages are first those of the spouts, then ours.

        All tasks of a partition have the same index.
        """
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
        tasks = stages[position][int(lost["partition"])]
        bolts = " or ".join(f"bolt {component!r}" for component, _ in tasks)
        return f"{bolts}, task {tasks[0][1]},"

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        """Make these tasks handle COMMIT or ROLLBACK. Raises `BoltError`, or `WaveFailed` if a worker was lost."""
        stage = self.stage("checkpoint", (checkpoint, list(tasks), self.ended))
        frame = self.one_row_each(len(tasks)).mapInArrow(stage, ENVELOPE_SCHEMA)
        for report in self.run("run the hooks", frame, current, [[[task] for task in tasks]]):
            if report.failure is not None:
                raise report.failure

    def commit_state(self, current: Round, groups: Sequence[CommitGroup], threads: int) -> list[TaskReport]:
        """Run a task to commit each group of namespaces; return the tasks' reports."""
        stage = self.stage("commit state", (groups, threads, self.ended))
        frame = self.one_row_each(len(groups)).mapInArrow(stage, ENVELOPE_SCHEMA)
        return self.run("commit the state", frame, current, [[[group.task] for group in groups]])

    def close_instances(self, *run_ids: str) -> None:
        """Make the workers close the instances of ended runs, if Spark gives each worker a task within 5 s.

        A worker without such a task closes them with its next task.
        """
        context = self._session.sparkContext
        if context._jsc is None:  # the session was stopped, and its workers have ended
            return
        group = f"anchorbolt-{self._plan.run_id}-close"
        cancel = threading.Timer(_CLOSE_S, context._jsc.sc().cancelJobGroup, [group])
        cancel.daemon = True
        cancel.start()
        try:
            context.setJobGroup(group, f"close the bolts of {self._plan.topology}")
            context.setLocalProperty(RUNS_PROPERTY, str(live_runs))
            rows = self.one_row_each(context.defaultParallelism)
            rows.mapInArrow(self.stage("close", list(run_ids)), ENVELOPE_SCHEMA).toArrow()
        except Exception as error:
            reason = cause_in(str(error))
            if _CANCELLED.search(str(error)):
                reason = f"Spark gave them no task for it within {_CLOSE_S:g} s"
            _log.warning(
                "not all workers have called cleanup of their bolts. Each does so with its next task of this "
                "application: %s",
                begun(reason, 400),
            )
        finally:
            cancel.cancel()

    def close(self) -> None:
        """Release the accumulator of the jobs. No job runs any more."""
        _free.append((self._application, self.ended))

    @property
    def slots(self) -> int:
        """How many tasks Spark can run at a time."""
        return self._session.sparkContext.defaultParallelism

    def stage(self, kind: str, argument: object) -> RemoteStage:
        return RemoteStage(kind, self._plan.run_id, self.pickled, argument)

    def one_row_each(self, partitions: int) -> DataFrame:
        return self._session.range(0, partitions, 1, partitions)


class ShuffleFiles:
    """The shuffled data of one `RoundJobs`. A background thread removes it after each round.

    Spark itself removes the data when Java collects the garbage, perhaps half an hour later. If the same frame runs
    again before that, Spark skips its stages and reuses their output: that of attempts which were rolled back.
    """

    def __init__(self) -> None:
        self._removals: list[tuple[DataFrame, Future[None]]] = []  # perhaps unfinished

    def remove(self, frame: DataFrame) -> None:
        """Begin to remove the shuffled data of the frame's job, which must have ended."""
        removal: Future[None] = Future()
        self._removals = [each for each in self._removals if not each[1].done() or each[1].exception()]
        self._removals.append((frame, removal))
        _waiting().put((frame, removal))

    def wait_for(self, frame: DataFrame) -> None:
        """Wait until the shuffled data of the frame's jobs is gone. Raises the error of a failed removal."""
        mine = [removal for each, removal in self._removals if each is frame]
        self._removals = [each for each in self._removals if each[0] is not frame]
        for removal in mine:
            removal.result()


@cache
def _waiting() -> queue.SimpleQueue[tuple[DataFrame, Future[None]]]:
    """Start the thread. It is a daemon: a removal that hangs does not keep the process alive."""
    waiting = queue.SimpleQueue[tuple[DataFrame, Future[None]]]()
    threading.Thread(target=_work, args=(waiting,), name="anchorbolt-shuffles", daemon=True).start()
    return waiting


def _work(waiting: queue.SimpleQueue[tuple[DataFrame, Future[None]]]) -> None:
    while True:
        frame, removal = waiting.get()
        try:
            # Blocking: a late removal would remove the data of the next round of the same frame.
            frame._jdf.queryExecution().toRdd().cleanShuffleDependencies(True)
        except Exception as error:  # mostly because Spark has ended
            _log.info("what a round has shuffled could not be removed: %s", error)
            removal.set_exception(error)
        else:
            removal.set_result(None)
        del frame, removal
