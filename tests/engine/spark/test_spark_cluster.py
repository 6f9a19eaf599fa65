"""The Spark engine computes what the local engine and plain Python compute, and leaves the user's session alone."""

import itertools
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from anchorbolt import errors
from anchorbolt.bolts import DataFrameSink, ParquetSink
from anchorbolt.engine import LocalCluster, RunStatus, SparkCluster
from anchorbolt.engine.spark.jobs import RoundJobs
from anchorbolt.run.spark_cluster import SparkRunHandle
from anchorbolt.spouts import StreamSpout
from anchorbolt.streams import Tuple
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import Topology
from tests.engine.jobs import (
    RichBolt,
    StatefulBolt,
    counted,
    diamond,
    diamond_result,
    finished,
    kept_in,
    one_bolt,
    text_spout,
    word_count,
    write_lines,
)
from tests.servers.redis_server import RedisServer
from tests.support.serializers import Money
from tests.support.stores import WORKERS, settings_of

LINES = [
    ["the quick brown fox", "jumps over the lazy dog"],
    ["the end", "over and over", "anchor the bolt"],
    ["dog"],
    ["a fox and a dog and an anchor", "bolt"],
]
WORDS = Counter(word for batch in LINES for line in batch for word in line.split())


def conf_in(folder: Path) -> dict[str, Any]:
    """State and checkpoint below a folder."""
    return {**kept_in(folder), "topology.state.checkpoint.interval.ms": 100}


def run(spark: SparkSession, topology: Topology, conf: Mapping[str, Any]) -> SparkRunHandle:
    """Run a topology until its source is empty."""
    handle = SparkCluster(spark).submit(topology, conf, until_empty=True)
    assert handle.await_termination(240)
    return handle


def test_a_diamond_of_two_spouts_has_the_same_state_on_both_engines_as_in_plain_python(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = write_lines(tmp_path / "first", LINES)
    second = write_lines(tmp_path / "second", [["lazy anchor", "fox"], ["the bolt bolt"]])
    topology = diamond(text_spout(first), text_spout(second))
    on_spark = run(spark, topology, conf_in(tmp_path / "spark"))
    local = finished(topology, cluster=LocalCluster(seed=7))
    counts, totals = diamond_result([*itertools.chain(*LINES), "lazy anchor", "fox", "the bolt bolt"])
    for handle in (on_spark, local):
        assert handle.state("count") == counts
        assert handle.state("total") == totals
        assert sum(report.tuples_in["split"] for report in handle.reports) == 11
    assert on_spark.status is RunStatus.FINISHED


def test_a_run_leaves_the_import_path_of_the_driver_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    before = list(sys.path)
    run(spark, word_count(text_spout(write_lines(tmp_path / "in", LINES))), conf_in(tmp_path))
    assert sys.path == before
    assert not [entry for entry in sys.path if entry.endswith(".zip") and "anchorbolt" in entry]


def test_state_in_redis_and_two_topologies_in_one_database(
    spark: SparkSession, tmp_path: Path, redis_database: RedisServer
) -> None:
    text = write_lines(tmp_path / "in", LINES)
    for name in ("one", "two"):
        conf = conf_in(tmp_path / name) | settings_of(redis_database)
        handle = run(spark, word_count(text_spout(text), name=name), conf)
        assert handle.state("count") == WORDS


def test_parquet_and_dataframe_sinks_get_each_wave_once(spark: SparkSession, tmp_path: Path) -> None:
    calls: list[tuple[int, list[Any]]] = []

    def remember(frame: DataFrame, txid: int) -> None:
        calls.append((txid, sorted(tuple(row) for row in frame.collect())))

    text = write_lines(tmp_path / "in", LINES)
    topology = word_count(text_spout(text), ParquetSink(str(tmp_path / "out")), DataFrameSink(remember))
    run(spark, topology, conf_in(tmp_path))
    rows = sorted((row["word"], row["count"]) for row in pq.read_table(tmp_path / "out").to_pylist())
    assert rows == sorted((word, count) for word in WORDS for count in range(1, WORDS[word] + 1))
    assert [txid for txid, _ in calls] == [0, 1, 2, 3]
    assert sorted(row for _, rows in calls for row in rows) == rows


def test_the_users_session_keeps_its_settings(spark: SparkSession, tmp_path: Path) -> None:
    before = {key: spark.conf.get(key) for key in ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions")}
    run(spark, word_count(text_spout(write_lines(tmp_path / "in", LINES[:1]))), conf_in(tmp_path))
    assert {key: spark.conf.get(key) for key in before} == before
    assert before["spark.sql.adaptive.enabled"] == "true"


class DiesOnce(StatefulBolt):
    """Counts words; its worker is killed at a named point, or crashes in `pre_prepare`, once."""

    def __init__(self, marker: str, point: str) -> None:
        self.marker, self.point = marker, point

    def die_at(self, point: str) -> None:
        if point == self.point and not os.path.exists(self.marker):
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGSEGV if point == "pre_prepare" else signal.SIGKILL)

    def execute(self, tup: Tuple) -> None:
        super().execute(tup)
        if self.state.get("dog"):
            self.die_at("execute")

    def pre_prepare(self, txid: int) -> None:
        if txid == 2:
            self.die_at("pre_prepare")

    def pre_commit(self, txid: int) -> None:
        if txid == 1:
            self.die_at("pre_commit")


@pytest.mark.parametrize("point", ["execute", "pre_prepare", "pre_commit"])
def test_a_killed_worker_changes_nothing_in_the_result_and_its_task_is_named(
    spark: SparkSession, tmp_path: Path, point: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = write_lines(tmp_path / "in", [["a b a"], ["dog a"], ["dog b c"], ["c"]])
    handle = run(spark, counted(text_spout(text), DiesOnce(str(tmp_path / "died"), point)), conf_in(tmp_path))
    assert (tmp_path / "died").exists(), "the worker was not killed at all"
    assert handle.state("count") == {"a": 3, "b": 2, "c": 2, "dog": 2}
    assert [report.txid for report in handle.reports] == [0, 1, 2, 3]
    [warned] = [message for message in caplog.messages if "tried again" in message]
    named = re.search(
        r"the worker process of (?:bolt 'count', task|worker) (\d),? ended .*No report from: \[(?:.*\('count', \1\))?",
        warned,
    )
    assert named is not None
    # A worker that stays runs tasks of all levels at a time.
    assert WORKERS or "'split'" not in warned, "it had reported"
    assert ("Segmentation fault" in warned) is (point == "pre_prepare")


class Cleaned(RichBolt):
    """Raises on "bad", and writes a file in `cleanup`."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def execute(self, tup: Tuple) -> None:
        if tup["sentence"] == "bad":
            raise ZeroDivisionError(f"on {tup['sentence']}")

    def cleanup(self) -> None:
        self.marker.touch()


def test_cleanup_is_called_at_the_end_of_a_run(spark: SparkSession, tmp_path: Path) -> None:
    spout = text_spout(write_lines(tmp_path / "in", LINES))
    run(spark, one_bolt(Cleaned(tmp_path / "cleaned"), spout), conf_in(tmp_path))
    assert (tmp_path / "cleaned").exists()


class CountsInAttribute(RichBolt):
    """Counts its tuples in an attribute."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def execute(self, tup: Tuple) -> None:
        self.counts[tup[0]] += 1
        self.collector.ack(tup)


def test_a_bolt_that_counts_in_an_attribute_is_warned_of_once_by_the_driver(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(spark, one_bolt(CountsInAttribute(), text_spout(write_lines(tmp_path / "in", LINES))), conf_in(tmp_path))
    [warning] = [each.getMessage() for each in caplog.records if "self.counts" in each.getMessage()]
    assert "BaseStatefulBolt" in warning


def test_a_poisoned_tuple_ends_the_run_with_the_users_own_traceback_first(spark: SparkSession, tmp_path: Path) -> None:
    topology = one_bolt(Cleaned(tmp_path / "cleaned"), text_spout(write_lines(tmp_path / "in", [["bad"]])))
    conf = conf_in(tmp_path) | {"topology.max.batch.retries": 1}
    handle = SparkCluster(spark).submit(topology, conf, until_empty=True)
    with pytest.raises(errors.BoltError) as caught:
        handle.await_termination(240)
    assert caught.value.message.startswith("Traceback (most recent call last)")
    assert "ZeroDivisionError: on bad" in caught.value.message
    assert caught.value.component == "bolt"
    assert handle.status is RunStatus.FAILED


def test_stop_finishes_the_wave_and_the_next_run_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    topology = word_count(text_spout(write_lines(tmp_path / "in", LINES)))
    handle = SparkCluster(spark).submit(topology, conf_in(tmp_path), on_wave=lambda _: handle.stop())
    assert handle.await_termination(240)
    assert handle.status is RunStatus.STOPPED
    first = sum(handle.state("count").values())
    assert 0 < first < WORDS.total()
    again = run(spark, topology, conf_in(tmp_path))
    assert again.state("count") == WORDS
    assert again.recovery.action == "resumed"


def test_a_deleted_checkpoint_location_is_refused_unless_it_is_accepted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = word_count(text_spout(write_lines(tmp_path / "in", LINES)))
    run(spark, topology, conf_in(tmp_path))
    moved = conf_in(tmp_path) | {"topology.checkpoint.location": str(tmp_path / "elsewhere")}
    closed: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(RoundJobs, "close_instances", lambda *run: closed.append(run))
        with pytest.raises(errors.QueryChanged, match=r"topology\.checkpoint\.accept\.new\.query"):
            SparkCluster(spark).submit(topology, moved)
    assert not closed  # no worker has had a bolt of this run: the refusal waits for none
    assert not (tmp_path / "elsewhere" / "metadata").exists()
    handle = run(spark, topology, moved | {"topology.checkpoint.accept.new.query": True})
    assert handle.state("count") == {word: 2 * count for word, count in WORDS.items()}
    handle = run(spark, topology, moved)
    assert handle.state("count") == {word: 2 * count for word, count in WORDS.items()}


def test_a_restored_state_directory_is_refused_and_nothing_is_written(spark: SparkSession, tmp_path: Path) -> None:
    topology = word_count(text_spout(write_lines(tmp_path / "in", LINES)))
    run(spark, topology, conf_in(tmp_path))
    for path in (tmp_path / "state").glob("*count-1*"):
        path.unlink()
    with pytest.raises(errors.StateRegressed, match="word-count:count-1"):
        SparkCluster(spark).submit(topology, conf_in(tmp_path))
    assert not list((tmp_path / "state").glob("*count-1*"))


def test_after_a_clean_end_the_files_are_whole_and_an_older_one_in_the_place_of_one_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The Python workers live on, with the files open, and are killed later."""
    state = tmp_path / "state"
    text = write_lines(tmp_path / "in", LINES[:1])
    topology = word_count(text_spout(text))
    run(spark, topology, conf_in(tmp_path))
    assert [path.stat().st_size for path in state.glob("*-wal") if path.stat().st_size] == []
    older = {path: path.read_bytes() for path in state.glob("*count-?.sqlite")}
    write_lines(text, LINES)
    handle = run(spark, topology, conf_in(tmp_path))
    assert handle.state("count") == WORDS
    for path, content in older.items():
        path.write_bytes(content)
    with pytest.raises(errors.StateRegressed, match="word-count:count-"):
        SparkCluster(spark).submit(topology, conf_in(tmp_path))
    assert {path: path.read_bytes() for path in older} == older


def test_state_in_memory_is_refused_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    topology = word_count(text_spout(write_lines(tmp_path / "in", LINES)))
    with pytest.raises(errors.ConfigError, match="memory"):
        SparkCluster(spark).submit(topology, {"topology.state.provider": "memory"})


@pytest.mark.parametrize(
    ("spout", "says"),
    [
        (StreamSpout(lambda spark: spark.range(3), ["id"]), "not a streaming"),
        (StreamSpout(lambda spark: spark.readStream.format("rate").load(), ["one"]), "timestamp, value"),
        (StreamSpout(lambda spark: spark.readStream.text("/no/such/place"), ["line"]), "source function raised"),
        (FeederSpout(["a"]), "does not run on Spark"),
    ],
)
def test_a_source_that_cannot_be_read_is_refused_before_anything_runs(
    spark: SparkSession, tmp_path: Path, spout: Any, says: str
) -> None:
    with pytest.raises(errors.TopologyError, match=says):
        SparkCluster(spark).submit(one_bolt(Cleaned(tmp_path), spout), conf_in(tmp_path))
    assert not (tmp_path / "checkpoint").exists()
    assert not (tmp_path / "state").exists()


class Sums(StatefulBolt):
    """A cent for every word."""

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["word"], self.state.get(tup["word"], Money(0)) + 1)


class SumsInDollars(StatefulBolt):
    """The next deployment: all in another currency, two for one."""

    state_schema_version = 2

    def upcast(self, key: str, value: Money, version: int) -> Money:
        return Money(2 * value.amount, "USD")

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["word"], self.state.get(tup["word"], Money(0, "USD")) + 2)


def test_a_users_serializer_and_upcast_work_on_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    conf = conf_in(tmp_path)
    conf["topology.state.provider.config"]["valueSerializerClass"] = "tests.support.serializers.MoneySerializer"
    text = write_lines(tmp_path / "in", LINES)
    first = run(spark, counted(text_spout(text), Sums()), conf)
    assert first.state("count") == {word: Money(count) for word, count in WORDS.items()}
    (text / "9999.txt").write_text("the new line\n")
    second = run(spark, counted(text_spout(text), SumsInDollars()), conf)
    expected = {word: Money(2 * count, "USD") for word, count in WORDS.items()}
    expected |= {"new": Money(2, "USD"), "line": Money(2, "USD"), "the": expected["the"] + 2}
    assert second.state("count") == expected
    with pytest.raises(errors.CodecMismatch, match="state_schema_version 1"):
        run(spark, counted(text_spout(text), Sums()), conf)
