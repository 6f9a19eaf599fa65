"""A run on Spark that is paused and resumed: the query holds the batch that it has planned."""

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anchorbolt.engine import RunStatus, SparkCluster
from tests.engine.jobs import Committed, text_spout, word_count, write_lines
from tests.engine.spark.test_spark_cluster import conf_in

DEADLINE_S = 240


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
