"""The check of a run's places on executors."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anchorbolt.bolts import ParquetSink
from anchorbolt.engine.driver.places import check_places
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.probe import reason_in, run_probe
from anchorbolt.run.preparation import prepare_plan
from tests.engine.jobs import feeder, kept_in, word_count


def plan_below(folder: Path, **conf: Any) -> ExecutionPlan:
    settings = {**kept_in(folder), **conf}
    return prepare_plan(word_count(feeder("a"), ParquetSink(str(folder / "out"))), settings)


def test_every_task_says_what_it_found_in_every_place(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_below(tmp_path)
    found = list(run_probe(spark, plan, [plan.checkpoint_location, str(tmp_path)], ".probe", b"x"))
    assert len(found) == 2 * spark.sparkContext.defaultParallelism
    assert all("not shared" in each.problem for each in found)
    check_places(plan, lambda *check: run_probe(spark, plan, *check))
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: Job aborted.\n"
            'Caused by: java.io.IOException: Cannot run program "/o/python": error=13, Permission denied\n\tat a.B()\n'
            "Caused by: java.io.IOException: error=13, Permission denied",
            'Cannot run program "/o/python": error=13, Permission denied',
        ),
        (
            "Caused by: a.b.OneException: outer\n\tat x.Y(Z.java:1)\nCaused by: a.b.TwoError: inner",
            "a.b.TwoError: inner",
        ),
        ("something else\nmore", "something else"),
    ],
)
def test_of_a_stack_trace_the_innermost_cause_is_told(text: str, reason: str) -> None:
    assert reason_in(text).startswith(reason)
