"""Runs the check of a run's places in tasks, on as many executors as Spark gives a task to."""

import json
from collections.abc import Iterator, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.probe import Probed
from anchorbolt.errors import ConfigError
from anchorbolt.util.messages import shortened

_MOST_TASKS = 256


def run_probe(
    session: SparkSession, plan: ExecutionPlan, places: Sequence[str], probe: str, content: bytes
) -> Iterator[Probed]:
    """See `anchorbolt.engine.submit.places.RunProbe`."""
    tasks = min(session.sparkContext.defaultParallelism, _MOST_TASKS)
    stage = RemoteStage("probe", plan.run_id, plan.pickled(), (list(places), probe, content))
    frame = session.range(0, tasks, 1, tasks).mapInArrow(stage, ENVELOPE_SCHEMA)
    try:
        payloads = frame.toArrow().column("payload").to_pylist()
    except PySparkException as error:
        raise ConfigError(
            f"tasks cannot check the places of the run: {shortened(str(error), 1000)}. Correct what is named there."
        ) from error
    for payload in payloads:
        yield Probed(*json.loads(payload))
