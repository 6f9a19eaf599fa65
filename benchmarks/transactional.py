"""Whether pipelining pays, what an almost empty batch costs, and what a large batch needs: `make bench-transactional`.

- A processing phase that waits 300 ms for input and output, a commit phase that waits 50 ms: the rate of several
  batches pending beside that of one. On Spark, and on LocalCluster.
- A processing phase that computes: 2 batches pending beside 1.
- Batches of a few tuples beside waves of as many tuples of a rich spout, into the same kind of stateful bolt.
- With `--tuples`, the largest worker's memory with batches of so many tuples, of a tenth and of 10,000, into a
  committer whose instance holds a counter.

Ratios are of medians over `--rounds`, measured in turn in one session.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.config import load_conf
from anchorbolt.engine import LocalCluster, SparkCluster, WaveReport
from anchorbolt.engine.spark.session import build_session, jobs_at_once
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import Topology, TopologyBuilder
from anchorbolt.transactional import (
    BaseBatchBolt,
    BaseTransactionalBolt,
    Committer,
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
    TransactionalTopologyBuilder,
)
from tests.support.process_memory import worker_mb
from tests.support.stores import settings_of

_FIRST = 3  # batches that are not measured: workers start, and Spark plans


class Numbers(PartitionedTransactionalSpout):
    """So many numbers a batch, for so many batches."""

    def __init__(self, batches: int, tuples: int) -> None:
        self.batches, self.tuples = batches, tuples

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("tx", "number")

    def coordinator(self, conf: Any, context: Any) -> PartitionedCoordinator:
        return _Coordinator(self.batches)

    def emitter(self, conf: Any, context: Any) -> PartitionedEmitter:
        return _Emitter(self.tuples)


class _Coordinator(PartitionedCoordinator):
    def __init__(self, batches: int) -> None:
        self.batches, self.begun = batches, 0

    def after(self, last_metadata: Any) -> None:
        self.begun = 0 if last_metadata is None else last_metadata[0]

    def is_ready(self) -> bool:
        return self.begun < self.batches

    def number_of_partitions(self) -> int:
        return 1


class _Emitter(PartitionedEmitter):
    def __init__(self, tuples: int) -> None:
        self.tuples = tuples

    def emit_partition_batch_new(self, attempt: Any, collector: Any, partition: int, last_metadata: Any) -> Any:
        number = (last_metadata or 0) + 1
        self.emit_partition_batch(attempt, collector, partition, number)
        return number

    def emit_partition_batch(self, attempt: Any, collector: Any, partition: int, metadata: Any) -> None:
        for number in range(self.tuples):
            collector.emit((attempt, number))


class Waits(BaseBatchBolt):
    """Waits at the end of its batch: for input and output, or by computing."""

    def __init__(self, seconds: float, *, computes: bool = False) -> None:
        self.seconds, self.computes = seconds, computes

    def prepare(self, conf: Any, context: Any, collector: Any, id: Any) -> None:
        self.collector, self.id, self.count = collector, id, 0

    def execute(self, tup: Any) -> None:
        self.count += 1

    def finish_batch(self) -> None:
        if self.computes:
            end = time.process_time() + self.seconds
            while time.process_time() < end:
                sum(range(1000))
        else:
            time.sleep(self.seconds)
        self.collector.emit((self.id, self.count))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("tx", "count")


class CommitWaits(BaseTransactionalBolt, Committer):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def prepare(self, conf: Any, context: Any, collector: Any, id: Any) -> None:
        self.count = 0

    def execute(self, tup: Any) -> None:
        self.count += 1

    def finish_batch(self) -> None:
        time.sleep(self.seconds)


class Count(BaseStatefulBolt[Any]):
    def init_state(self, state: Any) -> None:
        self.counts = state

    def execute(self, tup: Any) -> None:
        self.counts.put(tup["number"], self.counts.get(tup["number"], 0) + 1)


def pipelined(batches: int, *, computes: bool) -> Topology:
    builder = TransactionalTopologyBuilder("pipelined", "numbers", Numbers(batches, 10))
    builder.set_bolt("waits", Waits(0.3, computes=computes)).shuffle_grouping("numbers")
    builder.set_bolt("commits", CommitWaits(0.0 if computes else 0.05)).global_grouping("waits")
    return builder.build_topology()


def almost_empty(batches: int) -> Topology:
    builder = TransactionalTopologyBuilder("almost-empty", "numbers", Numbers(batches, 10))
    builder.set_committer_bolt("count", Count()).fields_grouping("numbers", "number")
    return builder.build_topology()


def almost_empty_waves(waves: int) -> Topology:
    builder = TopologyBuilder()
    spout = GeneratorSpout(["number"], lambda number: (number % 10,), count=10 * waves, batch=10, tracked=False)
    builder.set_spout("numbers", spout)
    builder.set_bolt("count", Count()).fields_grouping("numbers", "number")
    return builder.create_topology("almost-empty-waves")


def large(batches: int, tuples: int) -> Topology:
    builder = TransactionalTopologyBuilder("large", "numbers", Numbers(batches, tuples))
    builder.set_bolt("commits", CommitWaits(0.0)).global_grouping("numbers")
    return builder.build_topology()


def times(cluster: Any, topology: Topology, **conf: Any) -> list[float]:
    """Run a topology to its end; return when each wave committed."""
    committed: list[float] = []

    def note(report: WaveReport) -> None:
        committed.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        settings = {**settings_of(Path(folder) / "state"), "topology.checkpoint.location": f"{folder}/checkpoint"}
        handle = cluster.submit(topology, {**settings, **conf}, until_empty=True, on_wave=note)
        assert handle.await_termination(900)
    return committed


def pace_ms(committed: list[float], first: int = _FIRST) -> float:
    """Return the time from commit to commit, in ms."""
    return (committed[-1] - committed[first]) / (len(committed) - 1 - first) * 1000


def main(
    rounds: Annotated[int, typer.Option(help="Measure so often.")] = 3,
    batches: Annotated[int, typer.Option(help="Batches in a run.")] = 30,
    tuples: Annotated[
        int, typer.Option(help="Tuples of the largest batch for the memory; 0 leaves it out.")
    ] = 10_000_000,
) -> None:
    console = Console(width=120)
    settings = load_conf({"topology.max.spout.pending": 4}).settings
    spark = build_session("bench", jobs_at_once=jobs_at_once(pipelined(1, computes=False), settings))
    clusters = {"Spark": SparkCluster(spark), "LocalCluster": LocalCluster()}
    console.print(f"master {spark.sparkContext.master}")
    table = Table("what", "ms a batch, each round", "median", "ratio")

    def compare(what: str, runs: dict[str, Any]) -> None:
        figures: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                figures[name].append(run())
        base = statistics.median(next(iter(figures.values())))
        for name, each in figures.items():
            median = statistics.median(each)
            table.add_row(
                f"{what}: {name}", " ".join(f"{one:.0f}" for one in each), f"{median:.0f}", f"{base / median:.2f}"
            )

    for engine, cluster in clusters.items():
        compare(
            f"300 ms of waiting, {engine}",
            {
                f"{pending} pending": lambda cluster=cluster, pending=pending: pace_ms(
                    times(cluster, pipelined(batches, computes=False), **{"topology.max.spout.pending": pending})
                )
                for pending in (1, 2, 4)
            },
        )
    compare(
        "300 ms of computing, Spark",
        {
            f"{pending} pending": lambda pending=pending: pace_ms(
                times(clusters["Spark"], pipelined(batches, computes=True), **{"topology.max.spout.pending": pending})
            )
            for pending in (1, 2)
        },
    )
    compare(
        "almost empty, Spark",
        {
            "a wave of 10 tuples": lambda: _pace_of_waves(clusters["Spark"], batches),
            "a batch of 10 tuples": lambda: pace_ms(times(clusters["Spark"], almost_empty(batches))),
        },
    )
    console.print(table)
    if tuples:
        memory = Table("tuples a batch", "largest worker, MB")
        for each in (10_000, tuples // 10, tuples):
            times(clusters["Spark"], large(3, each))
            memory.add_row(f"{each:,}", f"{worker_mb():.0f}")
        console.print(memory)


def _pace_of_waves(cluster: Any, waves: int) -> float:
    return pace_ms(times(cluster, almost_empty_waves(waves), **{"topology.spout.intake.tuples": 10}))


if __name__ == "__main__":
    typer.run(main)
