"""The check of a run's places on executors."""

import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anchorbolt.bolts import ParquetSink
from anchorbolt.engine.driver.places import check_places
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark import probe
from anchorbolt.engine.spark.probe import FailedTask, failed_tasks, reason_in, run_probe
from anchorbolt.errors import ConfigError
from anchorbolt.run.preparation import prepare_plan
from tests.engine.jobs import feeder, word_count


def plan_below(folder: Path, **conf: Any) -> ExecutionPlan:
    settings = {
        "topology.checkpoint.location": str(folder / "checkpoint"),
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(folder / "state")},
        **conf,
    }
    return prepare_plan(word_count(feeder("a"), ParquetSink(str(folder / "out"))), settings)


@contextmanager
def all_cores_taken(spark: SparkSession, release: Path) -> Iterator[None]:
    """Have a job hold every core of Spark until the file `release` exists."""
    cores, began = spark.sparkContext.defaultParallelism, release.with_suffix(".began")
    began.mkdir()

    def hold(rows: Iterable[int]) -> Iterable[int]:
        import time
        import uuid

        (began / uuid.uuid4().hex).touch()
        while not release.exists():
            time.sleep(0.02)
        return rows

    job = threading.Thread(target=spark.sparkContext.parallelize(range(cores), cores).mapPartitions(hold).collect)
    job.start()
    while len(list(began.iterdir())) < cores:
        threading.Event().wait(0.02)
    try:
        yield
    finally:
        release.touch()
        job.join()


@pytest.mark.slow
def test_a_check_that_gets_no_core_says_so_and_goes_on_once_it_gets_one(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    timeouts = {"topology.message.timeout.secs": 1, "topology.state.checkpoint.interval.ms": 100}
    plan = plan_below(tmp_path, **timeouts)
    spark.sparkContext.setLocalProperty("spark.job.description", "the user's own")
    with ThreadPoolExecutor(1) as pool:
        with all_cores_taken(spark, tmp_path / "release"):
            found = pool.submit(lambda: list(run_probe(spark, plan, [plan.checkpoint_location], ".probe", b"x")))
            deadline = time.monotonic() + 60
            while "free cores" not in caplog.text and time.monotonic() < deadline:
                time.sleep(0.05)
            assert "free cores" in caplog.text
            assert not found.done()
        assert len(found.result(60)) == spark.sparkContext.defaultParallelism
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "the user's own"
    spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


def test_every_task_says_what_it_found_in_every_place(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_below(tmp_path)
    found = list(run_probe(spark, plan, [plan.checkpoint_location, str(tmp_path)], ".probe", b"x"))
    assert len(found) == 2 * spark.sparkContext.defaultParallelism
    assert not any(each.sees_driver for each in found)
    check_places(plan, lambda *check: run_probe(spark, plan, *check))
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("first", "again", "is_refused"), [("a", [], False), ("a", ["b"], False), ("a", ["b", "a"], True)]
)
def test_a_machine_is_refused_if_a_task_fails_on_it_again_but_not_if_it_was_killed_during_the_check(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, again: list[str], is_refused: bool
) -> None:
    rounds = iter([[FailedTask(first, "EOFException")], [FailedTask(host, "EOFException") for host in again]])
    monkeypatch.setattr(probe, "failed_tasks", lambda context, group: next(rounds))
    plan = plan_below(tmp_path)
    with pytest.raises(ConfigError, match="machine a ") if is_refused else nullcontext():
        found = list(run_probe(spark, plan, [plan.checkpoint_location], ".probe", b"x"))
        assert len(found) == spark.sparkContext.defaultParallelism


def test_a_task_that_failed_is_told_with_its_machine_and_its_innermost_cause(spark: SparkSession) -> None:
    def fails(rows: Iterable[int]) -> Iterable[int]:
        raise ModuleNotFoundError("No module named 'async_timeout'")

    context = spark.sparkContext
    context.setJobGroup("fails", "a job that fails")
    with pytest.raises(Exception, match="async_timeout"):
        context.parallelize(range(1), 1).mapPartitions(fails).collect()
    [failed] = failed_tasks(context, "fails")
    assert failed.host
    assert failed.reason.endswith("ModuleNotFoundError: No module named 'async_timeout'")
    assert failed_tasks(context, "none") == []


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
