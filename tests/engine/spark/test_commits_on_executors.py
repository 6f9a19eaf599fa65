"""What a wave passes through the driver, and what it has shuffled: gone from the disk soon after it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.engine.spark.jobs import ShuffleFiles
from anchorbolt.faults.points import PointReached
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from anchorbolt.streams import Tuple
from anchorbolt.testing import FaultPoint
from anchorbolt.topology import TopologyBuilder
from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.conftest import Watch
from tests.engine.jobs import Fill, RichBolt, StatefulBolt, kept_in, text_spout, word_count, write_lines
from tests.servers.hbase_server import HBaseServer
from tests.support.hbase_traffic import counted_traffic
from tests.support.stores import WORKERS, settings_of

TASKS = 64
SMALL, LARGE = 1, 200  # kB that each task stages
WAVES = [SMALL, SMALL, LARGE]


def test_the_drivers_traffic_with_hbase_does_not_depend_on_the_number_of_staged_bytes(
    tmp_path: Path, spark: SparkSession, hbase_server: HBaseServer, watch: Watch
) -> None:
    builder = TopologyBuilder()
    builder.set_spout("sizes", text_spout(write_lines(tmp_path / "in", [[str(size)] for size in WAVES])))
    builder.set_bolt("fill", Fill(), TASKS).all_grouping("sizes")
    topology = builder.create_topology("driver-traffic")
    conf = {
        **settings_of(hbase_server),
        "topology.checkpoint.location": str(tmp_path / "checkpoint"),
        "topology.state.checkpoint.interval.ms": 100,
        "topology.message.timeout.secs": 120,
    }
    staged: list[int] = []
    seen: list[int] = []
    on_driver: list[PointReached] = []
    watch(on_driver.append)
    with counted_traffic() as traffic:

        def on_wave(report: WaveReport) -> None:
            staged.append(report.keys_staged)
            seen.append(traffic.bytes)

        handle = SparkCluster(spark).submit(topology, conf, until_empty=True, on_wave=on_wave)
        assert handle.await_termination(240)
    assert staged == [TASKS * size for size in WAVES]
    small, large = (after - before for before, after in pairwise(seen))
    assert small > 0
    # A wave that lasts longer has more of the driver's questions in it whether the store is there: two a second.
    assert abs(large - small) < 50_000, "bytes; the large wave stages 12.8 MB"
    points = {reached.point for reached in on_driver}
    assert FaultPoint.NAMESPACES_COMMITTED in points
    assert not points & {FaultPoint.SLICE_APPLIED, FaultPoint.NAMESPACE_COMMITTED}
    assert sum(1 for _ in handle.state_items("fill")) == TASKS * LARGE


@dataclass(frozen=True)
class CarriedSqlite(SqliteStateProvider):
    commit_carries_updates = True


class CountWords(StatefulBolt):
    def execute(self, tup: Tuple) -> None:
        self.count(tup["word"])


def test_a_provider_of_the_users_has_the_state_of_a_transactional_topology_committed_on_the_executors(
    tmp_path: Path, spark: SparkSession, watch: Watch
) -> None:
    spout = MemoryTransactionalSpout({0: [("to",), ("be",), ("to",)]}, ["word"], take=1)
    builder = TransactionalTopologyBuilder("committed-batches", "words", spout)
    builder.set_committer_bolt("count", CountWords(), 2).fields_grouping("words", "word")
    conf = kept_in(tmp_path) | {"topology.state.provider": f"{__name__}.CarriedSqlite"}
    on_driver: list[PointReached] = []
    watch(on_driver.append)
    handle = SparkCluster(spark).submit(builder.build_topology(), conf, until_empty=True)
    assert handle.await_termination(120)
    assert handle.state("count") == {"to": 2, "be": 1}
    points = {reached.point for reached in on_driver}
    assert FaultPoint.NAMESPACES_COMMITTED in points
    assert FaultPoint.NAMESPACE_COMMITTED not in points


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


@pytest.mark.skipif(bool(WORKERS), reason="workers that stay do not use Spark's shuffle")
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
