"""Commits run on Spark's workers if they carry the updates: what the tasks stage does not pass through the driver."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pyspark.sql import SparkSession

from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.faults.points import FaultPoint, PointReached
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from anchorbolt.streams import Tuple
from anchorbolt.topology import TopologyBuilder
from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.conftest import Watch
from tests.engine.jobs import Fill, StatefulBolt, text_spout, write_lines
from tests.servers.hbase_server import HBaseServer
from tests.support.hbase_traffic import counted_traffic
from tests.support.stores import settings_of

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
    conf = {
        "topology.state.provider": f"{__name__}.CarriedSqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "state")},
        "topology.checkpoint.location": str(tmp_path / "checkpoint"),
    }
    on_driver: list[PointReached] = []
    watch(on_driver.append)
    handle = SparkCluster(spark).submit(builder.build_topology(), conf, until_empty=True)
    assert handle.await_termination(120)
    assert handle.state("count") == {"to": 2, "be": 1}
    points = {reached.point for reached in on_driver}
    assert FaultPoint.NAMESPACES_COMMITTED in points
    assert FaultPoint.NAMESPACE_COMMITTED not in points
