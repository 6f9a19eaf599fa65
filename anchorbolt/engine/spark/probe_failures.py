"""Why tasks of the check of a run's places failed: on which machine, and the one line of Spark's text that says it."""

import logging
import re
from typing import NamedTuple

from pyspark import SparkContext

from anchorbolt.engine.spark.job_failures import is_loss

_log = logging.getLogger("anchorbolt.engine")

_MOST_TASKS = 1000
_BUS_MS = 10_000
_RAISED = re.compile(r"^(?:Caused by: |: )?((?:\w+\.)*\w*(?:Error|Exception)\b(?!: Traceback).*)$", re.M)
_NO_PYTHON = re.compile(r"Cannot run program .*")


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
                scala.statusStore().taskList(stage, 0, _MOST_TASKS)
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
