"""What an almost empty wave takes, and how many messages a second are acked: jobs beside workers that stay, in turn.

`make bench-latency`. Three levels (spout, split, count) with state in Redis:

- a rich spout that emits its next message when the last one is acked: the time of a wave, and from emit to ack;
- a transactional spout with a few tuples in a batch, one batch at a time: from commit to commit;
- a stream spout that reads a file of 20 lines a wave: Spark's `triggerExecution`;
- a rich spout that emits as fast as it can, and a bolt that does nothing: messages/s, taken in, tracked and acked.

Each kind runs as jobs and in two workers in turn, in one process, with a session each; rich spouts also in the workers.
The first waves are left out.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.engine.spark.session import build_session
from anchorbolt.spouts import GeneratorSpout, StreamSpout
from anchorbolt.topology import Topology, TopologyBuilder
from anchorbolt.transactional import BaseBatchBolt, Committer, TransactionalTopologyBuilder
from benchmarks import reliable
from benchmarks.transactional import Numbers
from tests.support.stores import settings_of, store_of

_TUPLES = 5
_IN_WORKERS = -1  # in place of a number of workers: two, with the spout in one of them
_LINES = 20

Times = list[float]
"""Milliseconds."""


class Pass(BaseBatchBolt):
    def prepare(self, conf: Any, context: Any, collector: Any, attempt: Any) -> None:
        self.collector, self.attempt = collector, attempt

    def execute(self, tup: Any) -> None:
        self.collector.emit((self.attempt, str(tup["number"] % 7)))

    def finish_batch(self) -> None:
        pass

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("tx", "word")


class CommitterCount(reliable.Count, Committer):
    """Counts words in the commit phase."""


def one_by_one(directory: Path, waves: int) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("in", reliable.OneByOne(waves))
    builder.set_bolt("split", reliable.Split(), parallelism=2).shuffle_grouping("in")
    builder.set_bolt("count", reliable.Count(), parallelism=2).fields_grouping("split", "word")
    return builder.create_topology("one-by-one")


def batches(directory: Path, waves: int) -> Topology:
    builder = TransactionalTopologyBuilder("batches", "in", Numbers(waves, _TUPLES))
    builder.set_bolt("split", Pass(), parallelism=2).shuffle_grouping("in")
    builder.set_bolt("count", CommitterCount(), parallelism=2).fields_grouping("split", "word")
    return builder.build_topology()


def stream(directory: Path, waves: int) -> Topology:
    text = directory / "text"
    text.mkdir()
    for number in range(waves):
        (text / f"{number:05}.txt").write_text("to be or not to be\n" * _LINES)
    source = StreamSpout(
        lambda spark: spark.readStream.option("maxFilesPerTrigger", 1).text(str(text)), fields=["sentence"]
    )
    builder = TopologyBuilder()
    builder.set_spout("in", source)
    builder.set_bolt("split", reliable.Split(), parallelism=2).shuffle_grouping("in")
    builder.set_bolt("count", reliable.Count(), parallelism=2).fields_grouping("split", "word")
    return builder.create_topology("stream")


_KINDS: dict[str, tuple[Callable[[Path, int], Topology], int]] = {  # with the words of a wave
    "rich spout, one message at a time": (one_by_one, 6),
    "transactional spout, a batch": (batches, _TUPLES),
    "stream spout, 20 lines": (stream, 6 * _LINES),
}


def main(
    waves: Annotated[int, typer.Option(help="Waves of each run.")] = 150,
    rounds: Annotated[int, typer.Option(help="Runs of each kind.")] = 3,
    messages: Annotated[int, typer.Option(help="Messages of each run of the fast spout.")] = 1_500_000,
) -> None:
    """Measure, and print the medians."""
    console = Console()
    times: dict[tuple[str, int], Times] = defaultdict(list)
    acked: dict[int, Times] = defaultdict(list)
    rates: dict[int, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as home, store_of("redis", Path(home)) as store:
        settings = settings_of(store)
        for number in range(rounds):
            for workers in (0, 2):
                spark = build_session("latency", "local[2]", jobs_at_once=2, workers=workers)
                for kind, (topology, words) in _KINDS.items():
                    directory = Path(home) / f"{number}-{workers}-{kind[:4]}"
                    directory.mkdir()
                    reliable._ACKED.clear()
                    conf = {**settings, "topology.state.namespace.prefix": directory.name}
                    found = times_of_waves(spark, topology(directory, waves), conf, directory, workers, waves * words)
                    times[kind, workers] += found
                    acked[workers] += reliable._ACKED[waves // 4 :]
                    console.print(f"round {number + 1}, {workers} workers, {kind}: {median(found):.1f} ms")
                rates[workers].append(_rate(spark, Path(home) / f"{number}-{workers}-rate", workers, messages))
                if workers:
                    directory = Path(home) / f"{number}-{workers}-rate-in"
                    rates[_IN_WORKERS].append(_rate(spark, directory, workers, messages, "workers"))
                spark.stop()
    table = Table("p50 / p99 of a wave, ms", "jobs", "2 workers", "ratio")
    for kind in _KINDS:
        table.add_row(kind, *map(p50_and_p99, (times[kind, 0], times[kind, 2])), _ratio(times[kind, 0], times[kind, 2]))
    table.add_row("from emit to ack", p50_and_p99(acked[0]), p50_and_p99(acked[2]), _ratio(acked[0], acked[2]))
    console.print(table)
    shown = {"jobs": 0, "2 workers": 2, "with the spout in a worker": _IN_WORKERS}
    found = ", ".join(f"{name} {median(rates[key]):,.0f}" for name, key in shown.items())
    console.print(f"messages/s tracked and acked: {found}")


def times_of_waves(
    spark: SparkSession, topology: Topology, settings: dict[str, Any], directory: Path, workers: int, words: int
) -> Times:
    ends: list[float] = []
    reports: list[WaveReport] = []

    def note(report: WaveReport) -> None:
        ends.append(time.perf_counter())
        reports.append(report)

    conf = {
        **settings,
        "topology.checkpoint.location": str(directory / "checkpoint"),
        "topology.state.checkpoint.interval.ms": 100,
        "topology.workers": workers,
    }
    handle = SparkCluster(spark).submit(topology, conf, until_empty=True, on_wave=note)
    handle.await_termination()
    counted = sum(handle.state("count").values())
    if counted != words:
        raise SystemExit(f"{topology.name}: {counted} words were counted, and {words} sent")
    first = len(ends) // 4
    if handle.query is not None:
        progress = [each for each in handle.query.recentProgress if each.numInputRows]
        return [float(each.durationMs["triggerExecution"]) for each in progress[-(len(ends) - first) :]]
    if topology.batch_spout is not None:
        return [(after - before) * 1000 for before, after in zip(ends[first:], ends[first + 1 :], strict=False)]
    phases = ("source_ms", "compute_ms", "prepare_ms", "decide_ms", "commit_ms")
    return [sum(getattr(report, phase) for phase in phases) for report in reports[first:]]


def _rate(spark: SparkSession, directory: Path, workers: int, messages: int, spouts_in: str = "driver") -> float:
    waves: list[tuple[float, int]] = []
    topology = reliable.nothing(GeneratorSpout(["number"], reliable.number_only, count=messages))
    conf = {
        "topology.checkpoint.location": str(directory / "checkpoint"),
        "topology.state.provider.config": {"directory": str(directory / "state")},
        "topology.workers": workers,
        "topology.spouts.in": spouts_in,
    }
    handle = SparkCluster(spark).submit(
        topology.create_topology("rate"),
        conf,
        until_empty=True,
        on_wave=lambda report: waves.append((time.perf_counter(), report.messages_acked.get("in", 0))),
    )
    handle.await_termination()
    if sum(number for _, number in waves) != messages:
        raise SystemExit(f"{sum(number for _, number in waves)} messages were acked, and {messages} emitted")
    return sum(number for _, number in waves[1:]) / (waves[-1][0] - waves[0][0])


def p50_and_p99(times: Times) -> str:
    return f"{median(times):.1f} / {quantiles(times, n=100)[-1]:.1f}"


def _ratio(jobs: Times, workers: Times) -> str:
    return f"{median(jobs) / median(workers):.1f}"


if __name__ == "__main__":
    typer.run(main)
