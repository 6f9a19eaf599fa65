"""A run that has ended leaves nothing in the driver, in the JVM, in the workers, or on disk."""

import gc
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import accumulators
from pyspark.sql import SparkSession

from anchorbolt.bolts import ParquetSink
from anchorbolt.engine import SparkCluster
from anchorbolt.spouts import GeneratorSpout, StreamSpout
from anchorbolt.streams.tuple import Tuple
from anchorbolt.topology import TopologyBuilder
from anchorbolt.topology.graph import Topology
from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.jobs import StatefulBolt, word_count

DEADLINE_S = 60


class CountsOfBatches(StatefulBolt):
    def execute(self, tup: Tuple) -> None:
        self.count(tup["word"])
        self.collector.ack(tup)


def stream(home: Path, name: str) -> Topology:
    spout = StreamSpout(lambda spark: spark.readStream.text(str(home / "in")), ["sentence"])
    return word_count(spout, ParquetSink(str(home / f"out-{name}")), name=name)


def reliable(home: Path, name: str) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", GeneratorSpout(["number"], lambda number: (number,), count=20))
    builder.set_bolt("count", StatefulBolt(), 2).fields_grouping("numbers", "number")
    return builder.create_topology(name)


def transactional(home: Path, name: str) -> Topology:
    builder = TransactionalTopologyBuilder(name, "words", MemoryTransactionalSpout({0: [("a",), ("b",)]}, ["word"], 1))
    builder.set_committer_bolt("count", CountsOfBatches(), 2).fields_grouping("words", "word")
    return builder.build_topology()


KINDS = (stream, reliable, transactional)


def run(spark: SparkSession, home: Path, number: int) -> None:
    name = f"run-{number}"
    conf = {
        "topology.checkpoint.location": str(home / f"checkpoint-{name}"),
        "topology.state.provider.config": {"directory": str(home / f"state-{name}")},
        "topology.state.checkpoint.interval.ms": 100,
    }
    handle = SparkCluster(spark).submit(KINDS[number % len(KINDS)](home, name), conf, until_empty=True)
    assert handle.await_termination(DEADLINE_S)


def kept_by_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Tell what the worker keeps that runs this."""
    from anchorbolt.engine.spark import worker
    from anchorbolt.state_backends.shared_client import _clients

    for _ in batches:
        descriptors = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
        files = [os.readlink(each) for each in descriptors if each.is_symlink()]  # the one of the list itself is gone
        kept = {
            "runs": len(worker._registry.runs),
            "plans": len(worker._plans),
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


def on_driver(spark: SparkSession) -> dict[str, int]:
    """Return what the driver, its JVM and Spark's local directories keep, once garbage is collected."""
    gc.collect()
    jvm, context = spark._jvm, spark.sparkContext._jsc.sc()
    assert jvm is not None
    jvm.System.gc()
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
        "shuffle files": sum(1 for each in {*folders} for _ in each.rglob("shuffle_*")),
        "KiB of broadcasts": (memory._1() - memory._2()) >> 10,
        "archives": sum(1 for each in {*folders} for _ in each.rglob("anchorbolt-*.zip")),
    }


def grown(before: dict[str, int], after: dict[str, int]) -> dict[str, Any]:
    """Return what there is more of, beyond what comes and goes with the last run."""
    slack = {"open files": 2, "threads": 1, "functions for Java": 1, "KiB of broadcasts": 100}
    return {name: (before[name], each) for name, each in after.items() if each > before[name] + slack.get(name, 0)}


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
    # Spark removes the blocks of what Java has collected, and py4j its functions, on threads of their own.
    deadline = time.monotonic() + DEADLINE_S
    while (more := grown(before, on_driver(spark))) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not more
    kept = in_workers(spark)
    # A worker that got no task of the job that closes the last run may keep that one until its next task.
    assert kept["runs"] <= 2, kept
    assert kept["plans"] <= 2, kept
    assert kept["clients"] == 0, kept
    assert kept["state files"] <= 6, kept
