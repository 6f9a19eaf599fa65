"""Workers: which runs they forget, what they log and keep, how many tasks they run; a call that does not return."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from anchorbolt.bolts import BaseBasicBolt
from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.engine.spark.intake.server import CallServer
from anchorbolt.engine.spark.jobs import RoundJobs
from anchorbolt.engine.spark.runs import KnownRuns, LiveRuns
from anchorbolt.engine.spark.worker import ENVELOPE_SCHEMA
from anchorbolt.engine.spark.workers import hosts
from anchorbolt.engine.workers.links import Address, Secret
from anchorbolt.errors import ConfigError, WaveFailed
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.serialization import pack
from anchorbolt.spouts import StreamSpout
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.cli.command import wait_until
from tests.engine.jobs import (
    CountWords,
    Scale,
    SplitSentence,
    StatefulBolt,
    Total,
    chain,
    feeder,
    kept_in,
    one_bolt,
    text_spout,
    word_count,
    write_lines,
)
from tests.engine.spark.test_spark_cluster import conf_in
from tests.servers.redis_server import RedisServer
from tests.support.stores import settings_of


class WaitsForFile(BaseBasicBolt):
    def __init__(self, file: str) -> None:
        self.file = file

    def execute(self, tup: Any, collector: Any) -> None:
        if tup[0] == "wait":
            self.wait_for_somebody()

    def wait_for_somebody(self) -> None:
        wait_until(Path(self.file).exists, "the file", 120)


@pytest.mark.thorough
def test_the_driver_knows_the_task_that_does_not_return_until_it_does(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "released"
    lines = write_lines(tmp_path / "lines", [["a", "wait"]])
    topology = one_bolt(WaitsForFile(str(file)), text_spout(lines))
    handle = SparkCluster(spark).submit(topology, conf_in(tmp_path), until_empty=True)
    try:
        wait_until(lambda: bool(handle.observe().long_calls), "a call that does not return", 120)
        (call,) = handle.observe().long_calls
        assert handle.observe().unended_tasks == [("bolt", 0)]
    finally:
        file.touch()
    assert (call.kind, call.component, call.task_index, call.method) == ("bolt", "bolt", 0, "execute")
    assert call.seconds >= 2
    assert "in wait_for_somebody" in call.stack
    assert "anchorbolt/engine" not in call.stack
    assert handle.await_termination(120)
    wait_until(lambda: not handle.observe().long_calls, "no call", 30)


def test_of_a_task_the_worker_that_told_last_counts() -> None:
    conf = SimpleNamespace(get=lambda key: None)
    with closing(CallServer(Mock(sparkContext=Mock(getConf=lambda: conf)))) as server:
        for worker, seconds in (("killed", 16.0), ("next", 2.0)):
            call = ["bolt", "count", 1, "execute", seconds, "here"]
            assert list(server.answers(pack([worker, [call]]))) == []
        [call] = server.calls()
    assert call[:3] == ("bolt", "count", 1)
    assert 2 <= call.seconds < 10


def test_a_worker_that_was_missed_forgets_an_ended_run_with_its_next_task() -> None:
    driver, worker = LiveRuns(), KnownRuns()
    driver.begin("a")
    assert worker.ended("a", str(driver), []) == []
    driver.end("a")
    driver.begin("b")
    assert worker.ended("b", str(driver), ["a"]) == ["a"]
    assert worker.ended("b", str(driver), ["b"]) == []


def test_a_worker_keeps_a_run_of_which_an_older_job_does_not_know() -> None:
    driver, worker = LiveRuns(), KnownRuns()
    driver.begin("a")
    before_b = str(driver)
    driver.begin("b")
    assert worker.ended("b", str(driver), []) == []
    assert worker.ended("a", before_b, ["b"]) == []
    driver.end("b")
    assert worker.ended("a", str(driver), ["a", "b"]) == ["b"]


def test_a_late_task_of_an_ended_run_keeps_its_own_and_the_next_task_drops_it() -> None:
    driver, worker = LiveRuns(), KnownRuns()
    driver.begin("a")
    late = str(driver)
    driver.begin("b")
    driver.end("a")
    assert worker.ended("a", late, []) == []
    assert worker.ended("b", str(driver), ["a"]) == ["a"]


def test_runs_with_workers_get_their_slots_or_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = LiveRuns()
    monkeypatch.setattr(hosts, "live_runs", runs)
    session = Mock(sparkContext=Mock(defaultParallelism=4, master="local[4]", getConf=dict))
    hosts.check_slots(session, 4, 0)
    runs.begin("a", workers=2, others=1)
    hosts.check_slots(session, 1, 1)
    with pytest.raises(ConfigError, match=r"has 4, of which .* hold 2\. Set it to at most 1, .*'local\[5\]'"):
        hosts.check_slots(session, 2, 0)
    runs.end("a")
    hosts.check_slots(session, 3, 1)


def sleeping(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(600)
    yield from batches


def test_a_job_is_cancelled_when_its_round_fails(spark: SparkSession, tmp_path: Path) -> None:
    plan = prepare_plan(word_count(feeder()), {}, memory=MemoryStateProvider(), location="nowhere")
    done: Future[None] = Future()
    tracker, frame = spark.sparkContext.statusTracker(), spark.range(1).mapInArrow(sleeping, ENVELOPE_SCHEMA)

    def fail_when_it_runs() -> None:
        wait_until(lambda: bool(tracker.getActiveJobsIds()), "a job", 60)
        done.set_exception(WaveFailed("a worker was lost", txid=1))

    with closing(RoundJobs(spark, plan, b"")) as jobs, ThreadPoolExecutor(1) as pool:
        failing = pool.submit(fail_when_it_runs)
        with pytest.raises(WaveFailed, match="cancel"), jobs.unless_failed(done):
            jobs.rows("read the source", frame, Round(1, Fence(1, 1)), [])
        failing.result()
    assert len(spark.sparkContext.getJobTags()) == 0


def test_the_end_of_a_run_that_never_began_changes_nothing() -> None:
    driver = LiveRuns()
    driver.begin("a")
    before = str(driver)
    driver.end("b")
    assert str(driver) == before


REPEATS = """
import logging
from anchorbolt.engine.spark.worker_log import set_up_worker_log, tell_left_out
from anchorbolt.faults.points import at_task

set_up_worker_log()
at_task("count", 3, 7)
for _ in range(30):
    logging.getLogger("jobs").warning("again")
at_task("other", 0, 7)
tell_left_out()
"""


def test_a_worker_tells_when_the_run_ends_what_it_has_left_out() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", REPEATS],
        env={"ANCHORBOLT_LOG_FORMAT": "json", "PYTHONPATH": ":".join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    events = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [(event["component"], event["task"], event.get("left_out")) for event in events] == [
        ("count", 3, None),
        ("count", 3, 28),
    ]


STATEFUL_TASKS, KEYS, MOST = 64, 100, 1000
PER_WAVE = STATEFUL_TASKS * KEYS


def cached_entries(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from anchorbolt.engine.spark import worker

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"entries": [worker.kept()[2]]})
        time.sleep(0.2)  # so that another worker runs the other task


def numbers(spark: SparkSession) -> DataFrame:
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", PER_WAVE).option("numPartitions", 2)
    return frame.load().selectExpr(f"value % {PER_WAVE} as key")


@pytest.mark.thorough
def test_the_cached_entries_of_a_worker_do_not_grow_with_its_tasks(spark: SparkSession, tmp_path: Path) -> None:
    kept: list[int] = []

    def on_wave(report: WaveReport) -> None:
        rows = spark.range(0, 2, 1, 2).mapInArrow(cached_entries, "entries long").collect()
        kept.extend(row.entries for row in rows)
        if report.txid == 2:
            handle.stop()

    conf = {**kept_in(tmp_path), "topology.state.cache.max.entries": MOST}
    handle = SparkCluster(spark).submit(
        chain(
            "many-tasks", {"numbers": StreamSpout(numbers, ["key"]), "count": (StatefulBolt(), STATEFUL_TASKS, "key")}
        ),
        conf,
        on_wave=on_wave,
    )
    assert handle.await_termination(200)
    assert len(handle.state("count")) == PER_WAVE
    assert len(kept) >= 6
    assert 0 < max(kept) <= MOST


TASKS = 1000


@pytest.mark.thorough
@pytest.mark.timeout(2400)
def test_a_thousand_tasks_a_bolt_commit_their_waves(
    spark: SparkSession, tmp_path: Path, redis_database: RedisServer
) -> None:
    folder = write_lines(tmp_path / "in", [["a bee a", "cat"], ["bee"]])
    conf = {**settings_of(redis_database), "topology.checkpoint.location": str(tmp_path / "checkpoint")}
    handle = SparkCluster(spark).submit(
        chain(
            "thousand",
            {
                "sentences": text_spout(folder),
                "split": (SplitSentence(), TASKS),
                "count": (CountWords(), TASKS, "word"),
                "scale": (Scale(), TASKS),
                "total": (Total(), TASKS, "letter"),
            },
        ),
        conf,
        until_empty=True,
    )
    assert handle.await_termination(2000)
    assert dict(handle.state("count").items()) == {"a": 2, "bee": 2, "cat": 1}


def test_workers_whose_jobs_are_all_cancelled_do_not_come_again() -> None:
    """It failed: a stop during the start waited for workers whose jobs it had cancelled, and which began anew."""
    context = Mock()
    collect = context.parallelize.return_value.mapPartitions.return_value.collect
    collect.side_effect = PySparkException("Job 3 cancelled as part of cancellation of all jobs")
    gone: list[str] = []
    with closing(hosts.SparkHosts(Mock(sparkContext=context), Mock(), b"", 2)) as started:
        started.start(Address("here", 1, Secret(b"")), gone.append)
        wait_until(lambda: len(gone) == 2, "the end of both", 30)
    assert collect.call_count == 2
