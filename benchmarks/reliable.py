"""Word count from a `GeneratorSpout`: tracked beside untracked, in turn, in one session: `make bench-reliable`.

Also how many messages a second one driver takes in, tracks and acks, with a topology that does nothing else; and how
long a message on an idle topology takes until it is acked.
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt
from anchorbolt.engine import SparkCluster
from anchorbolt.engine.spark.session import build_session
from anchorbolt.spouts import BaseRichSpout, GeneratorSpout
from anchorbolt.topology import TopologyBuilder

_WORDS = [f"word{number}" for number in range(20_000)]
_LATENCIES: list[float] = []


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


class Nothing(BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        pass


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
            self.collector.emit(("to be or not to be",), self.left)

    def ack(self, msg_id: Any) -> None:
        _LATENCIES.append((time.perf_counter() - self.emitted_at) * 1000)
        self.emitted_at = 0.0

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("sentence")


def sentence(number: int) -> tuple[str]:
    start = number * 7919 % 19_990
    return (" ".join(_WORDS[start : start + 10]),)


def word_count(spout: BaseRichSpout) -> TopologyBuilder:
    builder = TopologyBuilder()
    builder.set_spout("in", spout)
    builder.set_bolt("split", Split(), parallelism=2).shuffle_grouping("in")
    builder.set_bolt("count", Count(), parallelism=2).fields_grouping("split", "word")
    return builder


def nothing(spout: BaseRichSpout) -> TopologyBuilder:
    builder = TopologyBuilder()
    builder.set_spout("in", spout)
    builder.set_bolt("nothing", Nothing(), parallelism=2).shuffle_grouping("in")
    return builder


def main(
    sentences: Annotated[int, typer.Option(help="Sentences of ten words in each run.")] = 300_000,
    rounds: Annotated[int, typer.Option(help="Runs of each kind.")] = 5,
    redis_port: Annotated[int | None, typer.Option(help="State of the latency runs in this Redis.")] = None,
) -> None:
    """Measure, and print the medians."""
    console = Console()
    spark = build_session("reliable", "local[2]")
    seconds: dict[str, list[float]] = {}

    def run(kind: str, builder: TopologyBuilder, **conf: Any) -> None:
        with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as directory:
            settings = {
                "topology.checkpoint.location": str(Path(directory) / "checkpoint"),
                "topology.state.provider": "sqlite",
                "topology.state.provider.config": {"directory": str(Path(directory) / "state")},
                **conf,
            }
            ends: list[float] = []
            started = time.perf_counter()
            handle = SparkCluster(spark).submit(
                builder.create_topology("bench"),
                settings,
                until_empty=True,
                on_wave=lambda report: ends.append(time.perf_counter()),
            )
            handle.await_termination()
            seconds.setdefault(kind, []).append(ends[-1] - started)
            console.print(f"{kind}: {ends[-1] - started:.2f} s, {len(ends)} waves")

    for _ in range(rounds + 1):  # the first is a warm-up
        run("word count, untracked", word_count(GeneratorSpout(["sentence"], sentence, count=sentences, tracked=False)))
        run("word count, tracked", word_count(GeneratorSpout(["sentence"], sentence, count=sentences)))
        run("nothing, tracked", nothing(GeneratorSpout(["sentence"], sentence, count=sentences * 3)))
    store: dict[str, Any] = {}
    if redis_port is not None:
        redis = {"jedisPoolConfig": {"port": redis_port}}
        store = {"topology.state.provider": "redis", "topology.state.provider.config": redis}
    run("latency", word_count(OneByOne(150)), **store)
    table = Table("run", "median s", "per second", "beside untracked")
    base = statistics.median(seconds["word count, untracked"][1:])
    emitted = {"word count, untracked": 1, "word count, tracked": 1, "nothing, tracked": 3}
    for kind, factor in emitted.items():
        tuples = sentences * factor
        median = statistics.median(seconds[kind][1:])
        ratio = f"{base / median:.2f}" if kind.startswith("word") else ""
        table.add_row(kind, f"{median:.2f}", f"{tuples / median:,.0f} messages", ratio)
    console.print(table)
    console.print(f"ack after {statistics.median(_LATENCIES[50:]):.0f} ms (median of {len(_LATENCIES[50:])})")


if __name__ == "__main__":
    typer.run(main)
