"""What a wave has shuffled is gone from the disk soon after it, and the next wave of the same frame never uses it."""

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anchorbolt.engine import SparkCluster
from anchorbolt.engine.spark.jobs import ShuffleFiles
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.streams.tuple import Tuple
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import RichBolt, kept_in, text_spout, word_count, write_lines

_DEADLINE_S = 60.0


def conf_in(folder: Path) -> dict[str, Any]:
    return {**kept_in(folder), "topology.state.checkpoint.interval.ms": 100}


def shuffle_files(spark: SparkSession) -> set[Path]:
    """Return the files that hold shuffled data; with a local master the driver's process has them."""
    return set(Path(spark.sparkContext.getConf().get("spark.local.dir") or "").rglob("shuffle_*"))


def wait_until_gone(spark: SparkSession, before: set[Path]) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while files := shuffle_files(spark) - before:
        assert time.monotonic() < deadline, files
        time.sleep(0.05)


def test_after_some_waves_no_shuffled_file_of_them_is_left(spark: SparkSession, tmp_path: Path) -> None:
    before, seen = shuffle_files(spark), set[Path]()
    topology = word_count(text_spout(write_lines(tmp_path / "in", [["a b"], ["b c"], ["c d"], ["d e"]])))
    handle = SparkCluster(spark).submit(topology, conf_in(tmp_path), until_empty=True)
    while not handle.await_termination(0.01):
        seen |= shuffle_files(spark) - before
    assert len(handle.reports) == 4
    assert seen, "the waves have shuffled nothing"
    wait_until_gone(spark, before)
    assert handle.state("count") == {"a": 1, "b": 2, "c": 2, "d": 2, "e": 1}


class Acks(RichBolt):
    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)


def test_waves_with_and_without_a_batch_of_the_stream_take_turns_and_use_nothing_of_each_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = shuffle_files(spark)
    builder = TopologyBuilder()
    builder.set_spout("lines", text_spout(write_lines(tmp_path / "in", [[f"line {number}"] for number in range(4)])))
    builder.set_spout("numbers", GeneratorSpout(["number"], lambda number: (number,), count=12))
    builder.set_bolt("acks", Acks(), 2).shuffle_grouping("lines").shuffle_grouping("numbers")
    conf = conf_in(tmp_path) | {"topology.max.spout.pending": 1}
    handle = SparkCluster(spark).submit(builder.create_topology("turns"), conf, until_empty=True)
    assert handle.await_termination(240)
    assert sum(report.messages_acked.get("numbers", 0) for report in handle.reports) == 12
    assert {report.rounds for report in handle.reports} == {1}
    wait_until_gone(spark, before)


def test_a_removal_that_fails_is_told_to_the_next_round_of_the_same_frame_only() -> None:
    class Gone:
        @property
        def _jdf(self) -> Any:
            raise ConnectionError("Java is gone")

    shuffled, frame = ShuffleFiles(), Gone()
    shuffled.remove(frame)  # type: ignore[arg-type]
    shuffled.wait_for(Gone())  # type: ignore[arg-type]
    with pytest.raises(ConnectionError):
        shuffled.wait_for(frame)  # type: ignore[arg-type]
    shuffled.wait_for(frame)  # type: ignore[arg-type]
