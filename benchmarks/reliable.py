"""Word count from a `GeneratorSpout`: tracked beside untracked, in turn, in one session: `make bench-reliable`.

Also how many messages a second one driver takes in, tracks and acks, with a topology that does nothing else, after the
first wave; how much of what a slow bolt can do it does behind a faster spout, with the failed messages, and the memory
of the driver, its JVM and the largest worker at first and at last; and how long a message on an idle topology takes
until the last bolt executes it, and until it is acked. With `--open-roots`, also `open_roots.py`.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt
from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.engine.spark.session import build_session
from anchorbolt.spouts import BaseRichSpout, GeneratorSpout
from anchorbolt.topology import TopologyBuilder
from tests.support.process_memory import java_below, memory_mb, worker_mb
from tests.support.stores import settings_of, store_of

_WORDS = [f"word{number}" for number in range(20_000)]
_SLEEP_S = 0.001
_FIRST_WAVES = 3  # whose largest memory counts as that at first
_ACKED: list[float] = []  # ms from the emit, of each message


class Split(BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        for word in tup["sentence"].split():
            collector.emit((word,))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("word")


class Count(BaseStatefulBolt[Any]):
    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def init_state(self, state: Any) -> None:
        self.counts = state

    def execute(self, tup: Any) -> None:
        word = tup["word"]
        self.counts.put(word, self.counts.get(word, 0) + 1)
        self.collector.ack(tup)


class CountAndTell(Count):
    """Also writes down how old a word is when it is executed: a worker's process has the driver's monotonic clock."""

    def __init__(self, path: str) -> None:
        self.path = path

    def execute(self, tup: Any) -> None:
        with Path(self.path).open("a") as file:
            file.write(f"{(time.perf_counter() - tup['emitted_at']) * 1000}\n")
        super().execute(tup)


class SplitWithTime(Split):
    def execute(self, tup: Any, collector: Any) -> None:
        for word in tup["sentence"].split():
            collector.emit((word, tup["emitted_at"]))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("word", "emitted_at")


class Nothing(BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        pass


class Slow(BaseBasicBolt):
    """Takes a millisecond for each tuple, and the system's time for a short sleep."""

    def execute(self, tup: Any, collector: Any) -> None:
        time.sleep(_SLEEP_S)


class OneByOne(BaseRichSpout):
    """Emits the next message when the one before is acked."""

    stable_message_ids = True

    def __init__(self, count: int) -> None:
        self.left = count
        self.emitted_at = 0.0

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        if not self.emitted_at and self.left:
            self.left -= 1
            self.emitted_at = time.perf_counter()
            self.collector.emit(("to be or not to be", self.emitted_at), self.left)

    def ack(self, msg_id: Any) -> None:
        _ACKED.append((time.perf_counter() - self.emitted_at) * 1000)
        self.emitted_at = 0.0

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("sentence", "emitted_at")


def sentence(number: int) -> tuple[str]:
    start = number * 7919 % 19_990
    return (" ".join(_WORDS[start : start + 10]),)


def number_only(number: int) -> tuple[int]:
    return (number,)


def word_count(spout: BaseRichSpout) -> TopologyBuilder:
    builder = TopologyBuilder()
    builder.set_spout("in", spout)
    builder.set_bolt("split", Split(), parallelism=2).shuffle_grouping("in")
    builder.set_bolt("count", Count(), parallelism=2).fields_grouping("split", "word")
    return builder


def three_levels(path: str) -> TopologyBuilder:
    builder = TopologyBuilder()
    builder.set_spout("in", OneByOne(150))
    builder.set_bolt("split", SplitWithTime(), parallelism=2).shuffle_grouping("in")
    builder.set_bolt("count", CountAndTell(path), parallelism=2).fields_grouping("split", "word")
    return builder


def slow(spout: BaseRichSpout) -> TopologyBuilder:
    builder = TopologyBuilder()
    builder.set_spout("in", spout)
    builder.set_bolt("slow", Slow()).shuffle_grouping("in")
    return builder


def nothing(spout: BaseRichSpout) -> TopologyBuilder:
    builder = TopologyBuilder()
    builder.set_spout("in", spout)
    builder.set_bolt("nothing", Nothing(), parallelism=2).shuffle_grouping("in")
    return builder


def main(
    sentences: Annotated[int, typer.Option(help="Sentences of ten words in each run.")] = 300_000,
    rounds: Annotated[int, typer.Option(help="Runs of each kind.")] = 5,
    slow_messages: Annotated[int, typer.Option(help="Messages that the slow bolt executes.")] = 60_000,
    workers: Annotated[int, typer.Option(help="Only the rates, in workers that stay, which have the spouts, too.")] = 0,
    open_roots: Annotated[int, typer.Option(help="Also the memory for so many open roots; 0 leaves it out.")] = 0,
) -> None:
    """Measure, and print the medians."""
    console = Console()
    spark = build_session("reliable", "local[2]", workers=workers)
    rates: dict[str, list[float]] = {}
    memory: list[tuple[float, float, float]] = []  # after each wave of the slow bolt: MB of driver, JVM, worker
    java = java_below(os.getpid()) or 0

    def run(kind: str, builder: TopologyBuilder, *, watches: bool = False, **conf: Any) -> int:
        """Run a topology until its spout is empty; return how many messages have failed."""
        with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as directory:
            settings = {
                "topology.checkpoint.location": str(Path(directory) / "checkpoint"),
                "topology.state.provider": "sqlite",
                "topology.state.provider.config": {"directory": str(Path(directory) / "state")},
                "topology.workers": workers,
                **({"topology.spouts.in": "workers"} if workers else {}),
                **conf,
            }
            waves: list[tuple[float, int]] = []  # when each ended, and the messages that it took in
            failed = 0

            def note(report: WaveReport) -> None:
                nonlocal failed
                waves.append((time.perf_counter(), report.tuples_in["in"]))
                failed += sum(report.messages_failed.values())
                if watches:
                    memory.append((memory_mb(), memory_mb(java), worker_mb()))

            handle = SparkCluster(spark).submit(
                builder.create_topology("bench"), settings, until_empty=True, on_wave=note
            )
            handle.await_termination()
            rate = sum(messages for _, messages in waves[1:]) / (waves[-1][0] - waves[0][0])
            rates.setdefault(kind, []).append(rate)
            console.print(f"{kind}: {rate:,.0f} messages/s, {len(waves)} waves")
            return failed

    for _ in range(rounds + 1):  # the first is a warm-up
        run("word count, untracked", word_count(GeneratorSpout(["sentence"], sentence, count=sentences, tracked=False)))
        run("word count, tracked", word_count(GeneratorSpout(["sentence"], sentence, count=sentences)))
        run("nothing, tracked", nothing(GeneratorSpout(["number"], number_only, count=sentences * 5)))
    table = Table("run", "messages/s", "beside untracked")
    base = rates["word count, untracked"][1:]
    for kind in rates:
        ratio = statistics.median(a / b for a, b in zip(rates[kind][1:], base, strict=True))
        median = statistics.median(rates[kind][1:])
        table.add_row(kind, f"{median:,.0f}", f"{ratio:.2f}" if kind.startswith("word") else "")
    console.print(table)
    if workers:
        return
    failed = run("slow bolt", slow(GeneratorSpout(["number"], number_only, count=slow_messages)), watches=True)
    started = time.perf_counter()
    for _ in range(1000):
        time.sleep(_SLEEP_S)
    alone = 1000 / (time.perf_counter() - started)
    with (
        tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as home,
        store_of("redis", Path(home)) as store,
        tempfile.NamedTemporaryFile("r") as executed,
    ):
        run("one by one, state in Redis", three_levels(executed.name), **settings_of(store))
        last = [max(map(float, six)) for six in zip(*[iter(executed.read().split())] * 6, strict=True)]
    share = rates["slow bolt"][0] / alone
    console.print(f"behind a faster spout, a slow bolt does {share:.2f} of the {alone:,.0f} messages/s that it can do")
    for what, mb in zip(("driver", "its JVM", "its largest worker"), zip(*memory, strict=True), strict=True):
        first = max(mb[: min(_FIRST_WAVES, len(mb))])
        console.print(f"meanwhile {what} has {first:.0f} MB at first, {mb[-1]:.0f} MB at last")
    console.print(f"meanwhile {failed} messages have failed")
    console.print(f"the last bolt has executed a message after {statistics.median(last[50:]):.0f} ms")
    console.print(f"it is acked after {statistics.median(_ACKED[50:]):.0f} ms (medians of {len(_ACKED[50:])})")
    if open_roots:
        # In a process of its own: what other threads of this one allocate meanwhile would count.
        subprocess.run([sys.executable, "-m", "benchmarks.open_roots", "--roots", str(open_roots)], check=True)


if __name__ == "__main__":
    typer.run(main)
