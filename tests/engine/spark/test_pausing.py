"""A run on Spark that is paused and resumed: the query holds the batch that it has planned."""

import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anchorbolt.engine import RunStatus, SparkCluster
from anchorbolt.spouts import StreamSpout
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import text_spout, word_count, write_lines
from tests.engine.spark.test_spark_cluster import conf_in
from tests.reliability import jobs
from tests.reliability.jobs import Count, QueueSpout

DEADLINE_S = 240


class Committed:
    """The txids that a run has committed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.txids: list[int] = []

    def __call__(self, report: Any) -> None:
        with self._changed:
            self.txids.append(report.txid)
            self._changed.notify_all()

    def wait_for(self, waves: int, timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self.txids) >= waves, timeout)


def put(folder: Path, name: str, line: str) -> None:
    """Add a file at once, as a streaming source wants it."""
    written = folder.parent / name
    written.write_text(f"{line}\n")
    os.replace(written, folder / f"{name}.txt")


def wait_until_planned(conf: dict[str, Any], batch: int) -> None:
    """Wait until Spark has planned a batch."""
    end = time.monotonic() + DEADLINE_S
    while not Path(conf["topology.checkpoint.location"], "offsets", str(batch)).exists():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_batch_that_spark_has_planned_waits_for_longer_than_messages_may_take(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = write_lines(tmp_path / "in", [["a b"]])
    conf = conf_in(tmp_path) | {"topology.message.timeout.secs": 1}
    committed = Committed()
    handle = SparkCluster(spark).submit(word_count(text_spout(folder)), conf, on_wave=committed)
    assert committed.wait_for(1, DEADLINE_S)
    assert handle.pause(DEADLINE_S)
    put(folder, "1", "b c")
    wait_until_planned(conf, 1)
    put(folder, "2", "c")
    assert not committed.wait_for(2, 1.5)
    assert (handle.status, handle.paused, handle.observe().current_wave) == (RunStatus.RUNNING, True, None)
    handle.resume()
    assert committed.wait_for(3, DEADLINE_S)
    assert handle.stop(DEADLINE_S)
    assert committed.txids == [0, 1, 2]
    assert handle.state("count") == Counter("abbcc")


@pytest.mark.parametrize("is_planned", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_paused_run_is_stopped_at_once_and_the_next_run_processes_what_it_held(
    spark: SparkSession, tmp_path: Path, is_planned: bool
) -> None:
    folder = write_lines(tmp_path / "in", [["a"]])
    conf, committed = conf_in(tmp_path), Committed()
    topology = word_count(text_spout(folder))
    handle = SparkCluster(spark).submit(topology, conf, on_wave=committed)
    assert committed.wait_for(1, DEADLINE_S)
    assert handle.pause(DEADLINE_S)
    if is_planned:
        put(folder, "1", "b")
        wait_until_planned(conf, 1)
    assert handle.stop(DEADLINE_S)
    assert (handle.status, committed.txids) == (RunStatus.STOPPED, [0])
    again = SparkCluster(spark).submit(topology, conf, until_empty=True)
    assert again.await_termination(DEADLINE_S)
    assert again.state("count") == Counter("ab" if is_planned else "a")


@pytest.mark.thorough
def test_a_run_that_ends_by_itself_does_not_end_in_a_pause(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_lines(tmp_path / "in", [["a"], ["b"], ["c"]])
    begun = threading.Event()

    def pause(report: Any) -> None:
        assert begun.wait(DEADLINE_S)
        assert handle.pause() is False

    topology = word_count(text_spout(folder))
    handle = SparkCluster(spark).submit(topology, conf_in(tmp_path), until_empty=True, on_wave=pause)
    begun.set()
    for waves in (1, 2, 3):
        assert handle.pause(DEADLINE_S)
        while len(handle.reports) < waves:  # a listener pauses the run after each
            handle.resume()
            assert not handle.await_termination(0.02)
        assert not handle.await_termination(0.5)
        assert (len(handle.reports), handle.paused) == (waves, True)
    handle.resume()
    assert handle.await_termination(DEADLINE_S)
    assert handle.state("count") == Counter("abc")


@pytest.mark.thorough
def test_both_kinds_of_spouts_of_a_topology_are_paused(spark: SparkSession, tmp_path: Path) -> None:
    jobs.forget()
    folder = write_lines(tmp_path / "in", [["a"]])
    builder = TopologyBuilder()
    builder.set_spout("rich", QueueSpout("word"))
    builder.set_spout("lines", StreamSpout(lambda spark: spark.readStream.text(str(folder)), ["word"]))
    count = builder.set_bolt("count", Count()).fields_grouping("rich", "word")
    count.fields_grouping("lines", "word")
    conf, committed = conf_in(tmp_path), Committed()
    handle = SparkCluster(spark).submit(builder.create_topology("both"), conf, on_wave=committed)
    assert committed.wait_for(1, DEADLINE_S)
    assert handle.pause(DEADLINE_S)
    waves = len(committed.txids)
    jobs.MESSAGES.append((1, ("b",)))
    put(folder, "1", "c")
    wait_until_planned(conf, 1)
    assert not committed.wait_for(waves + 1, 1.5)
    assert len(jobs.MESSAGES) == 1
    handle.resume()
    end = time.monotonic() + DEADLINE_S
    while len(handle.state("count")) < 3:
        assert time.monotonic() < end
        assert not handle.await_termination(0.05)
    jobs.wait_for(lambda: jobs.ACKED == [1])
    assert handle.stop(DEADLINE_S)
    assert handle.state("count") == {"a": 1, "b": 1, "c": 1}
