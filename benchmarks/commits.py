"""What a commit costs with many tasks, and how many bytes of it pass through the driver.

    make bench-commits OPTIONS="--provider hbase --tasks 64"

All tasks of a bolt stage the same number of bytes in a wave. Prints, for each size, the medians of the wave's time, of
its commit's, and of the bytes that the driver exchanged with HBase's Thrift server, on `local[2]`.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.engine.spark.session import build_session
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import Fill, text_spout, write_lines
from tests.support.hbase_traffic import counted_traffic
from tests.support.stores import PROVIDERS, settings_of, store_of

_WARM_UP = 3


def main(
    provider: Annotated[str, typer.Option(help=f"One of {', '.join(PROVIDERS)}.")] = "hbase",
    tasks: Annotated[int, typer.Option(help="Tasks of the bolt.")] = 64,
    kb: Annotated[list[int] | None, typer.Option(help="kB that each task stages; may be repeated.")] = None,
    waves: Annotated[int, typer.Option(help="Waves of each size.")] = 5,
) -> None:
    """Run the waves, and print the figures."""
    sizes = kb or [0, 100, 1000]
    order = [0] * _WARM_UP + sizes * waves
    figures: defaultdict[int, list[tuple[float, float, int]]] = defaultdict(list)
    before = 0

    def on_wave(report: WaveReport) -> None:
        nonlocal before
        size = order[report.txid]
        if report.txid >= _WARM_UP:
            figures[size].append((report.total_ms, report.commit_ms, traffic.bytes - before))
        before = traffic.bytes

    session = build_session("commits", "local[2]")
    with tempfile.TemporaryDirectory() as home, store_of(provider, Path(home)) as store, counted_traffic() as traffic:
        folder = write_lines(Path(home, "in"), [[str(size)] for size in order])
        builder = TopologyBuilder()
        builder.set_spout("sizes", text_spout(folder))
        builder.set_bolt("fill", Fill(), tasks).all_grouping("sizes")
        conf = {
            **settings_of(store),
            "topology.checkpoint.location": f"{home}/checkpoint",
            "topology.state.checkpoint.interval.ms": 100,
            "topology.message.timeout.secs": 600,
        }
        handle = SparkCluster(session).submit(
            builder.create_topology("commits"), conf, until_empty=True, on_wave=on_wave
        )
        handle.await_termination()
        session.stop()
    table = Table("kB a task", "wave, ms", "commit, ms", "bytes through the driver")
    for size, rows in figures.items():
        wave, commit, through = (statistics.median(column) for column in zip(*rows, strict=True))
        table.add_row(str(size), f"{wave:,.0f}", f"{commit:,.0f}", f"{through:,.0f}")
    Console(width=100).print(f"{provider}, {tasks} tasks, {waves} waves of each size", table)


if __name__ == "__main__":
    typer.run(main)
