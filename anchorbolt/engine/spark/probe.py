"""Runs the check of a run's places in tasks, on all executors that Spark gives a task."""

import json
import re
from collections.abc import Iterator, Sequence

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.job_failures import is_loss
from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA
from anchorbolt.engine.task.probe import Probed
from anchorbolt.errors import ConfigError, LocationUnavailable
from anchorbolt.util.messages import begun

_RAISED = re.compile(r"^(?:Caused by: |: )?((?:\w+\.)*\w*(?:Error|Exception)\b(?!: Traceback).*)$", re.M)
_NO_PYTHON = re.compile(r"Cannot run program .*")

_MOST_TASKS = 256
_MOST_CHARACTERS = 600


def reason_in(text: str) -> str:
    """Return the innermost cause in a stack trace of Java or Python, in one line."""
    if no_python := _NO_PYTHON.search(text):
        return f"{no_python[0]}. PYSPARK_PYTHON names the Python of the executors"
    raised: list[str] = _RAISED.findall(text)
    return begun(raised[-1].strip() if raised else text.strip().partition("\n")[0], _MOST_CHARACTERS)


def run_probe(
    session: SparkSession, plan: ExecutionPlan, places: Sequence[str], probe: str, content: bytes
) -> Iterator[Probed]:
    """See `anchorbolt.engine.driver.places.RunProbe`. Waits for executors as long as Spark does; Spark warns meanwhile.

    Raises:
        ConfigError: The tasks fail.
        LocationUnavailable: An executor was lost meanwhile.
    """
    tasks = min(session.sparkContext.defaultParallelism, _MOST_TASKS)
    stage = RemoteStage("probe", plan.run_id, plan.pickled(), (list(places), probe, content))
    frame = session.range(0, tasks, 1, tasks).mapInArrow(stage, ENVELOPE_SCHEMA)
    try:
        payloads = frame.toArrow().column("payload").to_pylist()
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if is_loss(text):
            raise LocationUnavailable(
                f"an executor was lost while it looked at the places of the run: {reason_in(text)}. Start again if it "
                "does not go on by itself."
            ) from error
        raise ConfigError(
            f"tasks cannot check the places of the run: {reason_in(text)}. Correct that; the executor's log has more."
        ) from error
    for payload in payloads:
        yield Probed(*json.loads(payload))
