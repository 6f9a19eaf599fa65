"""A run that has ended leaves nothing in the driver, in the JVM, in the workers, or on disk."""

import gc
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import accumulators
from pyspark.sql import SparkSession

from anchorbolt.bolts import BaseBasicBolt, BasicOutputCollector, DataFrameSink, KafkaSink, ParquetSink
from anchorbolt.bolts.base import Bolt
from anchorbolt.bolts.kafka import producer
from anchorbolt.bolts.sink import SinkPublisher, SinkRun
from anchorbolt.engine import SparkCluster
from anchorbolt.errors import AnchorboltError, BoltError, ConfigError, SinkUnavailable, SpoutError, TopologyError
from anchorbolt.run.spark_cluster import SparkRunHandle
from anchorbolt.spouts import GeneratorSpout, Spout, StreamSpout
from anchorbolt.spouts.collector import SpoutOutputCollector
from anchorbolt.streams import TopologyContext, Tuple
from anchorbolt.topology import Topology, TopologyBuilder
from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.jobs import StatefulBolt, chain, kept_in, word_count

DEADLINE_S = 60
OF_JVM = (
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
)


class CountsOfBatches(StatefulBolt):
    def execute(self, tup: Tuple) -> None:
        self.count(tup["word"])
        self.collector.ack(tup)


def stream(home: Path, name: str) -> Topology:
    spout = StreamSpout(lambda spark: spark.readStream.text(str(home / "in")), ["sentence"])
    return word_count(spout, ParquetSink(str(home / f"out-{name}")), name=name)


def reliable(home: Path, name: str) -> Topology:
    return chain(
        name,
        {
            "numbers": GeneratorSpout(["number"], lambda number: (number,), count=20),
            "count": (StatefulBolt(), 2, "number"),
        },
    )


def transactional(home: Path, name: str) -> Topology:
    builder = TransactionalTopologyBuilder(name, "words", MemoryTransactionalSpout({0: [("a",), ("b",)]}, ["word"], 1))
    builder.set_committer_bolt("count", CountsOfBatches(), 2).fields_grouping("words", "word")
    return builder.build_topology()


KINDS = (stream, reliable, transactional)


def start(spark: SparkSession, home: Path, topology: Topology, name: str, **more: Any) -> SparkRunHandle:
    conf = {
        "topology.checkpoint.location": str(home / f"checkpoint-{name}"),
        "topology.state.provider.config": {"directory": str(home / f"state-{name}")},
        "topology.state.checkpoint.interval.ms": 100,
        "topology.max.batch.retries": 0,
    }
    return SparkCluster(spark).submit(topology, {**conf, **more}, until_empty=True)


def run(spark: SparkSession, home: Path, number: int) -> None:
    name = f"run-{number}"
    handle = start(spark, home, KINDS[number % len(KINDS)](home, name), name)
    assert handle.await_termination(DEADLINE_S)


def kept_by_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Tell what the worker keeps that runs this."""
    from anchorbolt.engine.spark import worker
    from anchorbolt.state_backends.shared_client import _clients

    for _ in batches:
        runs, plans, _ = worker.kept()
        descriptors = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
        files = [os.readlink(each) for each in descriptors if each.is_symlink()]  # the one of the list itself is gone
        kept = {
            "runs": runs,
            "plans": plans,
            "clients": len(_clients),
            "state files": sum("/state-" in file for file in files),
        }
        yield pa.RecordBatch.from_pylist([{"kept": json.dumps(kept)}])
        time.sleep(0.2)  # so that another worker runs the other task


def in_workers(spark: SparkSession) -> dict[str, int]:
    """Return the most that a worker keeps."""
    rows = spark.range(0, 2, 1, 2).mapInArrow(kept_by_worker, "kept string").collect()
    kept = [json.loads(row.kept) for row in rows]
    return {name: max(each[name] for each in kept) for name in kept[0]}


def in_jvm(spark: SparkSession) -> dict[str, int]:
    """Return how many objects of the classes `OF_JVM` are reachable in the driver's JVM."""
    gateway: Any = spark.sparkContext._gateway
    java = gateway.jvm
    given = gateway.new_array(java.Object, 4)
    given[0] = java.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    given[1] = "gcClassHistogram"
    given[2], given[3] = gateway.new_array(java.Object, 1), gateway.new_array(java.String, 1)
    given[2][0], given[3][0] = gateway.new_array(java.String, 0), "[Ljava.lang.String;"
    # By reflection: py4j sees only the server's own class, which its module does not open.
    methods = java.Class.forName("javax.management.MBeanServer").getMethods()
    [invoke] = [each for each in methods if each.getName() == "invoke"]
    server = java.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    lines = [line.split() for line in invoke.invoke(server, given).splitlines()]
    alive = {line[3]: int(line[1]) for line in lines if len(line) >= 4 and line[1].isdigit()}
    return {name.rpartition(".")[2]: alive.get(name, 0) for name in OF_JVM}


def on_driver(spark: SparkSession) -> dict[str, int]:
    """Return what the driver, its JVM and Spark's local directories keep, once garbage is collected."""
    gc.collect()
    jvm, context = spark._jvm, spark.sparkContext._jsc.sc()
    assert jvm is not None
    listeners = context.listenerBus().listeners()
    local = Path(str(spark._jvm.org.apache.spark.SparkFiles.getRootDirectory())).parent  # type: ignore[union-attr]
    folders = [*local.parent.glob("blockmgr-*"), *local.parent.glob("spark-*"), local]
    memory = context.getExecutorMemoryStatus().values().head()
    return {
        "threads": threading.active_count(),
        "open files": len(os.listdir("/proc/self/fd")),
        "functions for Java": len(spark.sparkContext._gateway.gateway_property.pool),  # type: ignore[union-attr]
        "accumulators": len(accumulators._accumulatorRegistry),
        "listeners": listeners.size(),
        "persistent RDDs": context.getPersistentRDDs().size(),
        "queries": len(spark.streams.active),
        "sessions": sum(isinstance(each, SparkSession) for each in gc.get_objects()),
        **in_jvm(spark),
        "shuffle files": sum(1 for each in {*folders} for _ in each.rglob("shuffle_*")),
        "KiB of broadcasts": (memory._1() - memory._2()) >> 10,
        "archives": sum(1 for each in {*folders} for _ in each.rglob("anchorbolt-*.zip")),
    }


def grown(before: dict[str, int], after: dict[str, int]) -> dict[str, Any]:
    """Return what there is more of, beyond what comes and goes with the last run."""
    of_last_run = {"threads": 1, "functions for Java": 1, "sessions": 1, "SparkSession": 2, "MicroBatchExecution": 1}
    slack = {**of_last_run, "open files": 2, "KiB of broadcasts": 100}
    return {name: (before[name], each) for name, each in after.items() if each > before[name] + slack.get(name, 0)}


def lasting_growth(spark: SparkSession, before: dict[str, int]) -> dict[str, Any]:
    # Spark removes the blocks of what Java has collected, and py4j its functions, on threads of their own.
    deadline = time.monotonic() + DEADLINE_S
    while (more := grown(before, on_driver(spark))) and time.monotonic() < deadline:
        time.sleep(0.5)
    return more


@pytest.mark.parametrize("runs", [10, pytest.param(30, marks=pytest.mark.thorough)])
def test_runs_in_one_session_leave_nothing_behind(spark: SparkSession, tmp_path: Path, runs: int) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("the quick brown fox\n" * 3)
    for number in range(6):  # what is made once: the callback server's threads, connections of the main thread
        run(spark, tmp_path, number)
    on_driver(spark)  # it asks the session for its queries, for which Spark adds a listener once
    before = on_driver(spark)
    for number in range(6, runs):
        run(spark, tmp_path, number)
    assert not lasting_growth(spark, before)
    kept = in_workers(spark)
    # A worker that got no task of the job that closes the last run may keep that one until its next task.
    assert kept["runs"] <= 2, kept
    assert kept["plans"] <= 2, kept
    assert kept["clients"] == 0, kept
    assert kept["state files"] <= 6, kept


class Raises(BaseBasicBolt):
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        raise ValueError(tup[0])


class RaisesInBatch(CountsOfBatches):
    def execute(self, tup: Tuple) -> None:
        raise ValueError(tup[0])


class CannotBegin(DataFrameSink):
    def begin_run(self, run: SinkRun) -> SinkPublisher:
        raise SinkUnavailable("away")


class CannotOpen(GeneratorSpout):
    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector) -> None:
        raise OSError("away")


def with_bolt(spout: Spout, bolt: Bolt, name: str) -> Topology:
    return chain(name, {"numbers": spout, "bolt": bolt})


def lines(home: Path) -> StreamSpout:
    return StreamSpout(lambda spark: spark.readStream.text(str(home / "in")), ["sentence"])


def numbers() -> GeneratorSpout:
    return GeneratorSpout(["number"], lambda number: (number,), count=20)


def failing_transaction(home: Path, name: str) -> Topology:
    builder = TransactionalTopologyBuilder(name, "words", MemoryTransactionalSpout({0: [("a",), ("b",)]}, ["word"], 1))
    builder.set_committer_bolt("count", RaisesInBatch(), 2).fields_grouping("words", "word")
    return builder.build_topology()


def no_source(spark: SparkSession) -> Any:
    raise OSError("away")


FAILED: Mapping[str, tuple[type[AnchorboltError], Callable[[Path, str], Topology]]] = {
    "a bolt of a query raises": (BoltError, lambda home, name: with_bolt(lines(home), Raises(), name)),
    "a bolt of rich spouts raises": (BoltError, lambda home, name: with_bolt(numbers(), Raises(), name)),
    "Kafka cannot be reached": (
        SinkUnavailable,
        lambda home, name: word_count(lines(home), KafkaSink("127.0.0.1:9", "topic", value="word"), name=name),
    ),
    "a bolt of a transaction raises": (BoltError, failing_transaction),
    "the second sink cannot begin": (
        SinkUnavailable,
        lambda home, name: word_count(lines(home), ParquetSink(str(home / "out")), CannotBegin(print), name=name),
    ),
    "a sink cannot begin": (SinkUnavailable, lambda home, name: word_count(lines(home), CannotBegin(print), name=name)),
    "a source cannot be made": (
        TopologyError,
        lambda home, name: word_count(StreamSpout(no_source, ["sentence"]), name=name),
    ),
    "a spout cannot be opened": (
        SpoutError,
        lambda home, name: with_bolt(CannotOpen(["number"], lambda number: (number,)), Raises(), name),
    ),
    "a directory cannot be written": (
        ConfigError,
        lambda home, name: word_count(lines(home), ParquetSink(str(home / "in" / "a.txt")), name=name),
    ),
}
QUICK = ("a bolt of a query raises", "Kafka cannot be reached", "a source cannot be made")


def fail(spark: SparkSession, home: Path, kind: str, number: int) -> None:
    error, topology = FAILED[kind]
    name = f"{kind}-{number}".replace(" ", "-")
    with pytest.raises(error):
        start(spark, home, topology(home, name), name, **{"topology.message.timeout.secs": 1}).await_termination(
            DEADLINE_S
        )


@pytest.mark.parametrize("kinds", [QUICK, pytest.param([*FAILED], marks=pytest.mark.thorough)], ids=["some", "all"])
def test_failed_runs_leave_nothing_behind(
    spark: SparkSession, tmp_path: Path, kinds: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "_SLICE_S", 0.05)
    # py4j logs what a callback raises, with its traceback, and pytest keeps the records.
    monkeypatch.setattr(logging.getLogger("py4j.clientserver"), "disabled", True)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("the quick brown fox\n" * 3)
    for kind in kinds:  # some things are made only the first time
        fail(spark, tmp_path, kind, 0)
    on_driver(spark)
    before = on_driver(spark)
    for number in (1, 2):
        for kind in kinds:
            fail(spark, tmp_path, kind, number)
    assert not lasting_growth(spark, before)


class SlowToClose(StatefulBolt):
    """Does not get its `cleanup` done in the time that a run gives it."""

    def cleanup(self) -> None:
        time.sleep(3)


def test_a_cleanup_that_takes_too_long_is_told_in_our_words(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("anchorbolt.engine.spark.jobs._CLOSE_S", 1.0)
    monkeypatch.setattr("anchorbolt.engine.spark.workers.hosts._CLOSE_S", 1.0)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a\n")
    builder = TopologyBuilder()
    source = StreamSpout(lambda spark: spark.readStream.text(str(tmp_path / "in")), fields=["word"])
    builder.set_spout("words", source)
    builder.set_bolt("slow", SlowToClose(), parallelism=2).fields_grouping("words", "word")
    conf = kept_in(tmp_path)
    handle = SparkCluster(spark).submit(builder.create_topology("slow_to_close"), conf, until_empty=True)
    handle.await_termination(DEADLINE_S)
    [told] = [each.getMessage() for each in caplog.records if "cleanup" in each.getMessage()]
    assert "within 1 s" in told
    assert "py4j" not in told.lower()
    assert "JavaObject" not in told
