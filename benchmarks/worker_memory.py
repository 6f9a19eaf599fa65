"""The memory of the largest worker while many stateful tasks of one bolt share two cores.

    make bench-memory                                        # 64 tasks with 200,000 keys each, state in Redis
    make bench-memory OPTIONS="--provider sqlite --keys-per-task 20000 --cache-entries 20000"

Waves count keys that come in turn, until every key has come twice. The table shows, a few times on the way, how many
keys there are, the memory of the largest worker, and the rate. At the end, each worker tells how many committed entries
it keeps: at most `topology.state.cache.max.entries`, whatever the number of tasks.

    make bench-memory OPTIONS="--batch-words 20000000 --shape slow"   # one batch in two workers that stay

shows the highest memory of each process for one batch of so many words, beside a tenth of it: it must not grow with the
batch. In the shape `slow` the last bolt is slow, in `hot` half of all tuples have one key.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.engine.spark.session import build_session
from anchorbolt.spouts import StreamSpout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.topology import TopologyBuilder
from anchorbolt.topology.graph import Topology
from benchmarks.reliable import Split
from tests.support.process_memory import java_below, memory_mb, worker_mb
from tests.support.stores import PROVIDERS, settings_of, store_of

_WAVE = 400_000
_SHOWN = 8
_SHAPES = ("plain", "slow", "hot")
_BUFFER_MB = 8


class Count(BaseStatefulBolt[KeyValueState[int, int]]):
    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def init_state(self, state: KeyValueState[int, int]) -> None:
        self.counts = state

    def execute(self, tup: Any) -> None:
        key = tup[0]
        self.counts.put(key, self.counts.get(key, 0) + 1)
        self.collector.ack(tup)


class SlowCount(Count):
    def execute(self, tup: Any) -> None:
        for _ in range(60):
            hash(tup[0])
        super().execute(tup)


def topology(tasks: int, keys: int, rows: int = _WAVE, name: str = "worker-memory") -> Topology:
    def numbers(spark: SparkSession) -> Any:
        frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2)
        return frame.load().selectExpr(f"value % {keys} as key")

    builder = TopologyBuilder()
    builder.set_spout("numbers", StreamSpout(numbers, ["key"]))
    builder.set_bolt("count", Count(), tasks).fields_grouping("numbers", "key")
    return builder.create_topology(name)


def one_batch(words: int, shape: str) -> Topology:
    """Sentences of ten words, of 100,000 different ones."""

    def sentences(spark: SparkSession) -> Any:
        frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", words // 10)
        word = "(value * 7919 + i * 977) % 100000" + (" * (i % 2)" if shape == "hot" else "")
        text = f"concat_ws(' ', transform(sequence(0, 9), i -> concat('word', {word}))) as sentence"
        return frame.option("numPartitions", 2).load().selectExpr(text)

    builder = TopologyBuilder()
    builder.set_spout("sentences", StreamSpout(sentences, ["sentence"]))
    builder.set_bolt("split", Split(), 2).shuffle_grouping("sentences")
    builder.set_bolt("count", SlowCount() if shape == "slow" else Count(), 2).fields_grouping("split", "word")
    return builder.create_topology("worker-memory")


def measure_batch(provider: str, words: int, shape: str, console: Console) -> None:
    """Print the highest memory of each process of a run with one batch, in MB, and what the workers wrote to files."""
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as home, store_of(provider, Path(home)) as server:
        spark = build_session("worker-memory", "local[2]", workers=2)
        own = {"topology.workers": 2, "topology.worker.buffer.mb": _BUFFER_MB}
        conf = {**settings_of(server), "topology.checkpoint.location": f"{home}/checkpoint", **own}

        def on_wave(report: WaveReport) -> None:
            time.sleep(2)  # the workers tell their figures each second
            workers = handle._runner.workers()
            pids = {
                "driver": os.getpid(),
                "JVM": java_below(os.getpid()),
                **{f"worker {w.slot}": w.pid for w in workers},
            }
            peaks = ", ".join(f"{name} {memory_mb(pid or 0, peak=True):.0f} MB" for name, pid in pids.items())
            spilled = sum(each.spilled_bytes for each in workers) >> 20
            console.print(f"{words:,} words, {shape}: {report.total_ms / 1000:.0f} s, {peaks}, {spilled} MB in files")
            handle.stop()

        handle = SparkCluster(spark).submit(one_batch(words, shape), conf, on_wave=on_wave)
        handle.await_termination()
        spark.stop()


def cached_entries(spark: SparkSession) -> list[int]:
    """Return how many committed entries each worker keeps."""

    def cached(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from anchorbolt.engine.spark import worker

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"entries": [worker._registry.cached_entries]})
            time.sleep(0.5)  # so that another worker runs the other task

    return [row.entries for row in spark.range(0, 2, 1, 2).mapInArrow(cached, "entries long").collect()]


def main(
    provider: Annotated[str, typer.Option(help=f"One of {', '.join(PROVIDERS)}.")] = "redis",
    tasks: Annotated[int, typer.Option(min=1)] = 64,
    keys_per_task: Annotated[int, typer.Option(min=1)] = 200_000,
    cache_entries: Annotated[int, typer.Option(min=0, help="topology.state.cache.max.entries")] = 200_000,
    batch_words: Annotated[int, typer.Option(min=0, help="Run one batch of so many words, in workers that stay.")] = 0,
    shape: Annotated[str, typer.Option(help=f"Of that batch: one of {', '.join(_SHAPES)}.")] = _SHAPES[0],
) -> None:
    """Measure the memory of the largest worker."""
    if batch_words:
        for words in (batch_words // 10, batch_words):
            measure_batch(provider, words, shape, Console(soft_wrap=True))
        return
    keys = tasks * keys_per_task
    waves = -(-2 * keys // _WAVE)
    shown = {waves * number // _SHOWN for number in range(1, _SHOWN + 1)}
    table = Table(title=f"{tasks} tasks of {keys_per_task:,} keys on two cores, state in {provider}")
    for column in ("wave", "keys", "MB of the largest worker", "keys/s"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as home, store_of(provider, Path(home)) as server:
        spark = build_session("worker-memory", "local[2]")
        conf = {
            **settings_of(server),
            "topology.checkpoint.location": f"{home}/checkpoint",
            "topology.state.checkpoint.interval.ms": 100,
            "topology.state.cache.max.entries": cache_entries,
        }
        console, kept = Console(stderr=True), []
        started = time.monotonic()

        def on_wave(report: WaveReport) -> None:
            number = report.txid + 1
            if number in shown or number == 1:
                seen = min(number * _WAVE, keys)
                rate = number * _WAVE / (time.monotonic() - started)
                row = (f"{number}", f"{seen:,}", f"{worker_mb():.0f}", f"{rate:,.0f}")
                table.add_row(*row)
                console.print(*row)
            if number == waves:
                kept.extend(cached_entries(spark))
                handle.stop()

        handle = SparkCluster(spark).submit(topology(tasks, keys), conf, on_wave=on_wave)
        handle.await_termination()
        spark.stop()
    Console().print(table)
    Console().print(f"committed entries kept by each worker: {', '.join(f'{each:,}' for each in kept)}")


if __name__ == "__main__":
    typer.run(main)
