"""Runs the check of a run's places in tasks, on as many executors as Spark gives a task to."""

import json
import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.job_failures import is_loss
from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA
from anchorbolt.engine.task.probe import Probed
from anchorbolt.errors import ConfigError, LocationUnavailable
from anchorbolt.util.messages import begun

_MOST_LOOKED_AT = 1000
_BUS_MS = 10_000
_RAISED = re.compile(r"^(?:Caused by: |: )?((?:\w+\.)*\w*(?:Error|Exception)\b(?!: Traceback).*)$", re.M)
_NO_PYTHON = re.compile(r"Cannot run program .*")


_log = logging.getLogger("anchorbolt.engine")

_MOST_TASKS = 256

_MOST_CHARACTERS = 600

_ASKED = {"spark.executor.memory": "1g", "spark.executor.cores": "all of a worker"}

_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


class FailedTask(NamedTuple):
    """A task that failed on a machine; Spark may have run it again elsewhere."""

    host: str
    reason: str


def failed_tasks(context: SparkContext, group: str) -> list[FailedTask]:
    """Return the failed tasks of a group's jobs, without those whose executor was lost."""
    jvm, scala = context._jvm, context._jsc.sc()
    assert jvm is not None
    found = []
    try:
        scala.listenerBus().waitUntilEmpty(_BUS_MS)
        for stage in stages_of(context, group):
            tasks = jvm.scala.jdk.javaapi.CollectionConverters.asJava(
                scala.statusStore().taskList(stage, 0, _MOST_LOOKED_AT)
            )
            found += [(task.host(), task.errorMessage().get()) for task in tasks if task.errorMessage().isDefined()]
    except Exception as error:  # of Spark's own bookkeeping: the check itself has its results
        _log.info("Spark does not tell which tasks failed: %s", error)
    return [FailedTask(host, reason_in(text)) for host, text in found if not is_loss(text)]


def stages_of(context: SparkContext, group: str) -> list[int]:
    """Return the ids of the stages of a group's jobs."""
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    return [stage for job in jobs if job is not None for stage in job.stageIds]


def reason_in(text: str) -> str:
    """Return the innermost cause in a stack trace of Java or Python, in one line."""
    if no_python := _NO_PYTHON.search(text):
        return f"{no_python[0]}. PYSPARK_PYTHON names the Python of the executors"
    raised: list[str] = _RAISED.findall(text)
    return raised[-1].strip() if raised else text.strip().partition("\n")[0]


def run_probe(
    session: SparkSession, plan: ExecutionPlan, places: Sequence[str], probe: str, content: bytes
) -> Iterator[Probed]:
    """See `anchorbolt.engine.driver.places.RunProbe`.

    Waits for executors as long as Spark does, and logs every `topology.message.timeout.secs` that it waits.

    Raises:
        ConfigError: The tasks fail, or a task of one machine does, twice.
        LocationUnavailable: An executor was lost meanwhile.
    """
    payloads, failed = _probed(session, plan, places, probe, content, f"anchorbolt-{probe}")
    if failed:
        # Either such a machine cannot run tasks, and the run's own would fail on it, too; or it was killed meanwhile.
        payloads, again = _probed(session, plan, places, probe, content, f"anchorbolt-{probe}-again")
        hosts = {each.host for each in failed}
        for host, reason in [each for each in again if each.host in hosts][:1]:
            raise ConfigError(
                f"the machine {host} cannot run tasks: {_line(reason)}. Correct that, or take the machine out of "
                "the cluster; its executor's log has more."
            )
    for payload in payloads:
        yield Probed(*json.loads(payload))


def _probed(
    session: SparkSession, plan: ExecutionPlan, places: Sequence[str], probe: str, content: bytes, group: str
) -> tuple[list[bytes], Sequence[FailedTask]]:
    """Return what tasks found, and the tasks that failed before Spark ran them again."""
    context = session.sparkContext
    tasks = min(context.defaultParallelism, _MOST_TASKS)
    stage = RemoteStage("probe", plan.run_id, plan.pickled(), (list(places), probe, content))
    frame = session.range(0, tasks, 1, tasks).mapInArrow(stage, ENVELOPE_SCHEMA)
    try:
        with _Watch(context, group, plan.settings.message_timeout_secs):
            payloads = frame.toArrow().column("payload").to_pylist()
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if is_loss(text):
            raise LocationUnavailable(
                f"an executor was lost while it looked at the places of the run: {_line(reason_in(text))}. Start "
                "again if it does not go on by itself."
            ) from error
        raise ConfigError(
            f"tasks cannot check the places of the run: {_line(reason_in(text))}. Correct that; the "
            "executor's log has more."
        ) from error
    if len(payloads) != tasks * len(places):
        raise ConfigError(
            f"the check of the run's places has {len(payloads)} results of {tasks} tasks for {len(places)} places. "
            "Start again; see Spark's log if that repeats."
        )
    return payloads, failed_tasks(context, group)


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
        tracker, conf = self._context.statusTracker(), self._context.getConf()
        began = time.monotonic()
        asked = ", ".join(f"{name}={conf.get(name, default)}" for name, default in _ASKED.items())
        while not self._ended.wait(self._seconds):
            stages = map(tracker.getStageInfo, stages_of(self._context, self._group))
            if any(each and each.numActiveTasks + each.numCompletedTasks + each.numFailedTasks for each in stages):
                return
            _log.warning(
                "waiting for executors, for %.0f s: Spark has run no task of the check of the run's places. Asked for: "
                "%s. See in the master's UI whether a worker has so many free cores and so much memory; end other "
                "applications, or ask for less.",
                time.monotonic() - began,
                asked,
            )


def _line(text: str) -> str:
    return begun(text, _MOST_CHARACTERS)
