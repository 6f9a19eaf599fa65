"""Transactional topologies over ranges of offsets of a source that Spark reads: the same batch in each try, on both
engines."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from anchorbolt import errors
from anchorbolt.bolts import BaseStatefulBolt, BasicOutputCollector, FailedException, OutputCollector
from anchorbolt.engine import LocalCluster, RunHandle, SparkCluster
from anchorbolt.faults.points import PointReached
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams import Tuple
from anchorbolt.testing import FaultPoint
from anchorbolt.topology import Topology
from anchorbolt.transactional import (
    Committer,
    MemoryTransactionalSpout,
    SparkTransactionalSpout,
    TransactionalTopologyBuilder,
)
from tests.engine.conftest import Watch
from tests.engine.jobs import BasicBolt, kept_in

Submit = Callable[[Topology, Mapping[str, Any]], RunHandle]


@pytest.fixture(params=["spark", pytest.param("local", marks=pytest.mark.thorough)])
def submit(request: pytest.FixtureRequest, spark: SparkSession) -> Submit:
    """Run a topology on an engine until its source is empty, and return the handle."""

    def run(topology: Topology, conf: Mapping[str, Any]) -> RunHandle:
        if request.param == "spark":
            handle: RunHandle = SparkCluster(spark).submit(topology, conf, until_empty=True)
        else:
            handle = LocalCluster().submit(topology, conf)
        assert handle.await_termination(120)
        return handle

    return run


def conf_in(folder: Path, **more: Any) -> dict[str, Any]:
    return {**kept_in(folder), **{f"topology.{name.replace('_', '.')}": value for name, value in more.items()}}


class Numbers(SparkTransactionalSpout):
    """The numbers from 0 on, some at a time, in two partitions."""

    def __init__(self, stop: int, take: int, **options: Any) -> None:
        super().__init__(["number", "text"], 0, **options)
        self.stop = stop
        self.take = take
        self.read_ranges: list[tuple[int, int]] = []

    def latest(self, spark: SparkSession, start: int) -> int:
        return min(start + self.take, self.stop)

    def read(self, spark: SparkSession, start: int, end: int) -> DataFrame:
        self.read_ranges.append((start, end))
        return spark.range(start, end, 1, 2).select("id", F.concat(F.lit("n"), F.col("id") % 3))

    def behind(self, end: int) -> int:
        return self.stop - end


class Lines(SparkTransactionalSpout):
    """The rows of a table of Parquet files by their column `position`, which only grows."""

    def __init__(self, folder: Path, take: int) -> None:
        super().__init__(["word", "at"], {"position": -1})
        self.folder = str(folder)
        self.take = take

    def latest(self, spark: SparkSession, start: dict[str, int]) -> dict[str, int] | None:
        position = start["position"]
        rows = spark.read.parquet(self.folder).where(F.col("position") > position)
        [row] = rows.select(F.max("position")).collect()
        return None if row[0] is None else {"position": min(position + self.take, row[0])}

    def read(self, spark: SparkSession, start: dict[str, int], end: dict[str, int]) -> DataFrame:
        rows = spark.read.parquet(self.folder)
        return rows.where(F.col("position").between(start["position"] + 1, end["position"])).select("word", "at")


class Pass(BasicBolt):
    """Passes on the tuples, if their first value is the attempt."""

    fields = ("tx", "txid", "value", "text")

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        attempt, *values = tup.values
        assert tup["tx"] is attempt
        collector.emit((attempt, attempt.txid, *values))


class FailOnce(Pass):
    """Fails the first try of each batch of some txids, on a machine with this folder."""

    def __init__(self, folder: Path, *txids: int) -> None:
        self.folder = folder
        self.txids = txids

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        seen = self.folder / f"failed-{tup[0].txid}"
        if tup[0].txid in self.txids and not seen.exists():
            seen.touch()
            raise FailedException("once")
        super().execute(tup, collector)


class Collect(BaseStatefulBolt[KeyValueState[str, Any]], Committer):
    """Keeps by txid all values of the batch, and how often each text came."""

    def prepare(self, conf: Mapping[str, Any], context: Any, collector: OutputCollector) -> None:
        self.texts: Counter[str] = Counter()

    def init_state(self, state: KeyValueState[str, Any]) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        key = f"batch {tup['txid']}"
        self.state.put(key, sorted([*self.state.get(key, []), tup["value"]]))
        self.state.put(tup["text"], self.state.get(tup["text"], 0) + 1)


def collecting(spout: Any, first: Any = None, parallelism: int | None = None) -> Topology:
    builder = TransactionalTopologyBuilder("ranges", "spout", spout, parallelism)
    builder.set_bolt("first", first or Pass(), 2).fields_grouping("spout", "text")
    builder.set_bolt("collect", Collect()).global_grouping("first")
    return builder.build_topology()


def batches(handle: RunHandle) -> dict[int, list[Any]]:
    state = handle.state("collect")
    return {int(key.split()[1]): value for key, value in state.items() if key.startswith("batch ")}


@pytest.mark.parametrize("submit", ["spark", "local"], indirect=True)
def test_each_batch_is_the_range_that_the_spout_has_decided_on(submit: Submit, tmp_path: Path) -> None:
    spout = Numbers(25, 10)
    handle = submit(collecting(spout), conf_in(tmp_path))
    assert batches(handle) == {1: [*range(10)], 2: [*range(10, 20)], 3: [*range(20, 25)]}
    assert {text: handle.state("collect")[text] for text in ("n0", "n1", "n2")} == {"n0": 9, "n1": 8, "n2": 8}
    assert spout.read_ranges == [(0, 10), (10, 20), (20, 25)]
    assert [dict(report.tuples_in)["spout"] for report in handle.reports] == [10, 10, 5]
    assert [report.source_offsets_behind for report in handle.reports] == [{"spout": 15}, {"spout": 5}, {"spout": 0}]


def test_a_run_continues_where_the_one_before_ended(submit: Submit, tmp_path: Path) -> None:
    conf = conf_in(tmp_path)
    submit(collecting(Numbers(15, 10)), conf)
    handle = submit(collecting(Numbers(18, 100)), conf)
    assert batches(handle) == {1: [*range(10)], 2: [*range(10, 15)], 3: [15, 16, 17]}
    assert not submit(collecting(Numbers(18, 100)), conf).reports


@pytest.mark.parametrize("pending", [1, 3])
def test_a_batch_that_failed_is_read_again_and_is_the_same(submit: Submit, tmp_path: Path, pending: int) -> None:
    spout = Numbers(50, 10)
    handle = submit(collecting(spout, FailOnce(tmp_path, 2, 4)), conf_in(tmp_path, max_spout_pending=pending))
    assert batches(handle) == {txid: [*range(10 * txid - 10, 10 * txid)] for txid in range(1, 6)}
    assert set(spout.read_ranges) == {(start, start + 10) for start in range(0, 50, 10)}
    assert spout.read_ranges.count((10, 20)) == 2


def test_a_batch_in_flight_is_read_again_by_the_next_run_though_the_source_has_more(
    submit: Submit, tmp_path: Path, watch: Watch
) -> None:
    def crash(reached: PointReached) -> None:
        if reached.point is FaultPoint.BATCH_PROCESSED:
            raise RuntimeError("crash")

    conf = conf_in(tmp_path)
    watch(crash)
    with pytest.raises(errors.WaveFailed, match="crash"):
        submit(collecting(Numbers(5, 10)), conf)
    watch(lambda reached: None)
    handle = submit(collecting(Numbers(12, 100)), conf)
    assert batches(handle) == {1: [0, 1, 2, 3, 4], 2: [*range(5, 12)]}


def test_a_table_that_grows_is_read_as_it_grows(submit: Submit, spark: SparkSession, tmp_path: Path) -> None:
    def add(*rows: tuple[int, str]) -> None:
        frame = spark.createDataFrame([*rows], "position long, word string")
        frame.selectExpr("position", "word", "named_struct('p', position) AS at").write.parquet(
            str(tmp_path / "table"), mode="append"
        )

    conf = conf_in(tmp_path)
    add((0, "a"), (1, "b"), (2, "a"))
    handle = submit(collecting_words(tmp_path), conf)
    assert batches(handle) == {1: ["a", "b"], 2: ["a"]}
    assert handle.reports[-1].offsets_behind is None
    add((3, "c"), (4, "a"))
    handle = submit(collecting_words(tmp_path), conf)
    assert batches(handle) == {1: ["a", "b"], 2: ["a"], 3: ["a", "c"]}
    assert handle.state("collect")["{'p': 4}"] == 1


class Words(BasicBolt):
    fields = ("tx", "txid", "value", "text")

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit((tup[0], tup[0].txid, tup["word"], str(tup["at"])))


def collecting_words(folder: Path) -> Topology:
    builder = TransactionalTopologyBuilder("ranges", "spout", Lines(folder / "table", 2), 1)
    builder.set_bolt("words", Words(), 2).shuffle_grouping("spout")
    builder.set_bolt("collect", Collect()).global_grouping("words")
    return builder.build_topology()


class Two(Numbers):
    """Its second batch has no rows, in no partition."""

    def read(self, spark: SparkSession, start: int, end: int) -> DataFrame:
        return super().read(spark, start, end) if start != 10 else spark.createDataFrame([], "n long, t string")


def test_a_range_without_rows_is_a_batch_without_tuples(submit: Submit, tmp_path: Path) -> None:
    handle = submit(collecting(Two(25, 10)), conf_in(tmp_path))
    assert batches(handle) == {1: [*range(10)], 3: [*range(20, 25)]}
    assert [report.txid for report in handle.reports] == [1, 2, 3]


def test_an_object_that_cannot_be_pickled_stays_on_the_driver(submit: Submit, tmp_path: Path) -> None:
    spout = Numbers(5, 10)
    vars(spout)["connection"] = (number for number in range(3))
    assert batches(submit(collecting(spout, parallelism=1), conf_in(tmp_path))) == {1: [0, 1, 2, 3, 4]}


class Wrong(Numbers):
    def __init__(self, latest: Any = 5, read: Any = None) -> None:
        super().__init__(5, 5)
        self.wrong_latest = latest
        self.wrong_read = read

    def latest(self, spark: SparkSession, start: Any) -> Any:
        return self.wrong_latest(spark) if callable(self.wrong_latest) else self.wrong_latest

    def read(self, spark: SparkSession, start: Any, end: Any) -> Any:
        return self.wrong_read(spark)


def fail(spark: SparkSession) -> Any:
    raise ValueError("no such table")


@pytest.mark.parametrize(
    ("spout", "kind"),
    [
        (Wrong(latest="five"), errors.TopologyError),
        (Wrong(latest=object()), errors.TopologyError),
        (Wrong(latest=fail), errors.SpoutError),
        (Wrong(read=fail), errors.SpoutError),
        (Wrong(read=lambda spark: None), errors.TopologyError),
        (Wrong(read=lambda spark: spark.range(5)), errors.TopologyError),
        (Wrong(read=lambda spark: spark.readStream.format("rate").load()), errors.TopologyError),
        (Wrong(read=lambda spark: spark.range(5).select("id", F.raise_error(F.lit("bad row")))), errors.WaveFailed),
    ],
    ids=["type", "object", "latest", "read", "none", "columns", "stream", "row"],
)
def test_a_spout_that_goes_wrong_ends_the_run_and_is_named(
    submit: Submit, tmp_path: Path, spout: Wrong, kind: type[errors.AnchorboltError]
) -> None:
    with pytest.raises(kind) as caught:
        submit(collecting(spout), conf_in(tmp_path, max_batch_retries=0))
    if kind is not errors.WaveFailed:
        assert caught.value.component == "spout"  # type: ignore[attr-defined]
    else:
        assert "bad row" in caught.value.message


def test_progress_of_another_kind_of_spout_is_refused(submit: Submit, tmp_path: Path) -> None:
    conf = conf_in(tmp_path)
    submit(collecting(MemoryTransactionalSpout({0: [(1, "a")]}, ["number", "text"], 10)), conf)
    with pytest.raises(errors.TopologyError):
        submit(collecting(Numbers(5, 10)), conf)


@pytest.mark.parametrize(
    "arguments",
    [
        {"fields": "word"},
        {"fields": []},
        {"fields": ["tx"]},
        {"fields": ["word", 1]},
        {"fields": ["word"], "attempt_field": "word"},
        {"fields": ["word"], "start": object()},
    ],
)
def test_arguments_that_cannot_be_used_are_refused(arguments: dict[str, Any]) -> None:
    class Bare(SparkTransactionalSpout):
        def latest(self, spark: SparkSession, start: Any) -> Any: ...

        def read(self, spark: SparkSession, start: Any, end: Any) -> Any: ...

    with pytest.raises(errors.TopologyError):
        Bare(**{"start": 0, **arguments})
