"""What windows cost: counts of ten minutes that slide by one, over 100,000 keys, beside a plain count of the events.

    make bench-sliding OPTIONS="--provider redis"

Both run in two workers that stay and read the files. Events come at 200,000 a second of their time, so a minute of them
is 12,000,000, and each minute closes a window of each key. Rates are those of whole waves, and of a median minute.
"""

import random
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from anchorbolt.engine import WaveReport
from anchorbolt.engine.spark.session import build_session
from anchorbolt.run.spark_cluster import SparkCluster
from anchorbolt.topology.graph import Topology
from anchorbolt.transactional import FilesTransactionalSpout, TransactionalTopologyBuilder
from benchmarks.hourly.events import BEGIN_MS
from benchmarks.hourly.topology import (
    Parse,
    ParseBlocks,
    PlainCount,
    PlainCountOfBlocks,
    SlidingCount,
    SlidingCountOfBlocks,
)
from benchmarks.workloads import TASKS
from benchmarks.zipf_text import TextFiles
from tests.support.stores import PROVIDERS, settings_of, store_of

_KEYS = 100_000
_BATCH = 500_000
_BATCH_MS = 2_500
_A_MINUTE = 60_000 // _BATCH_MS


BOLTS: dict[str, tuple[Any, Any]] = {
    "rows, plain": (Parse, PlainCount),
    "rows, sliding": (Parse, SlidingCount),
    "columns, plain": (ParseBlocks, PlainCountOfBlocks),
    "columns, sliding": (ParseBlocks, SlidingCountOfBlocks),
}


def main(
    provider: Annotated[str, typer.Option(help=f"One of {', '.join(PROVIDERS)}.")] = "redis",
    minutes: Annotated[int, typer.Option(help="Minutes of events after the first one, which is not measured.")] = 1,
) -> None:
    """Measure events/s of a plain count and of sliding windows, by rows and by columns."""
    spark = build_session("benchmark-sliding", f"local[{TASKS}]", workers=TASKS)
    spark.sparkContext.setLogLevel("ERROR")
    progress = Console(stderr=True)
    table = Table("", "events/s", "of a plain count")
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as name, store_of(provider, Path(name)) as store:
        directory = Path(name)
        write(directory / "text", 1 + minutes)
        plain = 0.0
        for number, (label, (parse, count)) in enumerate(BOLTS.items()):
            conf = {
                **settings_of(store),
                "topology.state.namespace.prefix": f"bench-{number}",
                "topology.checkpoint.location": str(directory / f"checkpoint-{number}"),
                "topology.workers": TASKS,
                "topology.max.spout.pending": 2,
            }
            rate = measured(SparkCluster(spark), topology(directory / "text", parse(), count()), conf)
            plain = plain if "sliding" in label else rate
            table.add_row(label, f"{rate:,.0f}", f"{rate / plain:.2f}")
            progress.print(f"{label}: {rate:,.0f} events/s")
    Console().print(table)


def write(directory: Path, minutes: int) -> None:
    """Write the events of so many minutes."""
    choices, text = random.Random(3), TextFiles(directory)
    for number in range(minutes * _A_MINUTE + 1):
        begin = BEGIN_MS + number * _BATCH_MS
        keys = choices.choices(range(_KEYS), k=_BATCH)
        text.add([f"key{key},{begin + place * _BATCH_MS // _BATCH}" for place, key in enumerate(keys)], TASKS)


def topology(text: Path, parse: Any, count: Any) -> Topology:
    spout = FilesTransactionalSpout(str(text), ["event"], take_files=TASKS, take_bytes=None)
    builder = TransactionalTopologyBuilder("sliding", "events", spout, TASKS)
    builder.set_bolt("parse", parse, TASKS).shuffle_grouping("events")
    builder.set_committer_bolt("count", count, TASKS).fields_grouping("parse", "key")
    return builder.build_topology()


def measured(cluster: SparkCluster, topology: Topology, conf: dict[str, Any]) -> float:
    """Run the topology over all files; return the events/s of a median minute after the first."""
    commits: list[float] = []

    def committed(report: WaveReport) -> None:
        if report.tuples_in.get("parse"):
            commits.append(time.perf_counter())

    cluster.submit(topology, conf, until_empty=True, on_wave=committed).await_termination()
    minutes = commits[_A_MINUTE::_A_MINUTE]
    return _A_MINUTE * _BATCH / statistics.median(b - a for a, b in pairwise(minutes))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
