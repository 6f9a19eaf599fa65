"""Runs the check of a run's places in tasks, on as many executors as Spark gives a task to."""

import json
import logging
import threading
from collections.abc import Iterator, Sequence

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anchorbolt.engine.spark.job_failures import failure_in
from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.probe import Probed
from anchorbolt.errors import ConfigError, InfrastructureLost, LocationUnavailable
from anchorbolt.util.messages import shortened

_log = logging.getLogger("anchorbolt.engine")

_MOST_TASKS = 256
_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


def run_probe(
    session: SparkSession, plan: ExecutionPlan, places: Sequence[str], probe: str, content: bytes
) -> Iterator[Probed]:
    """See `anchorbolt.engine.submit.places.RunProbe`.

    Waits for executors as long as Spark does, and logs every `topology.message.timeout.secs` that it waits.

    Raises:
        ConfigError: The tasks fail.
        LocationUnavailable: An executor was lost meanwhile.
    """
    context = session.sparkContext
    tasks = min(context.defaultParallelism, _MOST_TASKS)
    stage = RemoteStage("probe", plan.run_id, plan.pickled(), (list(places), probe, content))
    frame = session.range(0, tasks, 1, tasks).mapInArrow(stage, ENVELOPE_SCHEMA)
    try:
        with _Watch(context, f"anchorbolt-{probe}", plan.settings.message_timeout_secs):
            payloads = frame.toArrow().column("payload").to_pylist()
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if isinstance(failure_in(text, "check the places", -1, lambda: "a task", ()), InfrastructureLost):
            raise LocationUnavailable(
                f"an executor was lost while it looked at the places of the run: {shortened(text, 400)}. Start again "
                "if it does not go on by itself."
            ) from error
        raise ConfigError(
            f"tasks cannot check the places of the run: {shortened(text, 1000)}. Correct what is named there."
        ) from error
    if len(payloads) != tasks * len(places):
        raise ConfigError(
            f"the check of the run's places has {len(payloads)} results of {tasks} tasks for {len(places)} places. "
            "Start again; see Spark's log if that repeats."
        )
    for payload in payloads:
        yield Probed(*json.loads(payload))


class _Watch:
    """Warns while none of the tasks of the job in a `with` block has begun."""

    def __init__(self, context: SparkContext, group: str, seconds: int) -> None:
        self._seconds = seconds
        self._context = context
        self._group = group
        self._ended = threading.Event()

    def __enter__(self) -> None:
        self._before = {name: self._context.getLocalProperty(name) for name in _GROUP}
        self._context.setJobGroup(self._group, "check the places of a run")
        threading.Thread(target=self._warn, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for name, value in self._before.items():
            self._context.setLocalProperty(name, value)  # type: ignore[arg-type]  # None removes it

    def _warn(self) -> None:
        tracker = self._context.statusTracker()
        while not self._ended.wait(self._seconds):
            jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group))
            stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
            if any(each and each.numActiveTasks + each.numCompletedTasks + each.numFailedTasks for each in stages):
                return
            _log.warning(
                "waiting for executors, for %d s or more: Spark has run no task of the check of the run's places. See "
                "in its UI whether the master has a worker with free cores and spark.executor.memory for this "
                "application; end others, or ask for less.",
                self._seconds,
            )
