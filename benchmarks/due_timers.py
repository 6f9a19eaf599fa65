"""Timers that are due all at once: how long the waves take in which they fire, and the memory of the processes.

    make bench-timers OPTIONS="--provider redis"

Two tasks in two workers that stay set timers for one moment. When it has come, waves follow until all have fired, and
each timer emits a tuple. The rate is that of all these waves.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt
from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.engine.spark.session import build_session
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.topology.graph import Topology
from benchmarks.workloads import TASKS
from tests.support.process_memory import memory_mb, worker_mb
from tests.support.stores import PROVIDERS, settings_of, store_of


class Remind(BaseStatefulBolt[Any]):
    def __init__(self, at: int) -> None:
        self.at = at

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def init_state(self, state: Any) -> None:
        pass

    def init_timers(self, timers: Any) -> None:
        self.timers = timers

    def execute(self, tup: Any) -> None:
        self.timers.set(tup[0], at=self.at)
        self.collector.ack(tup)

    def on_timer(self, timer: Any) -> None:
        self.collector.emit((timer.key,), anchors=timer)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("key")


class Ignore(BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        pass


def topology(timers: int, at: int) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("keys", GeneratorSpout(["key"], lambda number: (f"key-{number:08d}",), count=timers, batch=1000))
    builder.set_bolt("remind", Remind(at), TASKS).fields_grouping("keys", "key")
    builder.set_bolt("fired", Ignore(), TASKS).shuffle_grouping("remind")
    return builder.create_topology("due-timers")


def main(
    provider: Annotated[str, typer.Option(help=f"One of {', '.join(PROVIDERS)}.")] = "sqlite",
    timers: Annotated[int, typer.Option(min=1)] = 1_000_000,
    after: Annotated[int, typer.Option(help="Seconds until they are due: enough time to set them all.")] = 120,
) -> None:
    """Measure waves in which timers fire that are due at once."""
    waves: list[float] = []
    peaks = [0.0, 0.0]
    fired = 0
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as home, store_of(provider, Path(home)) as server:
        spark = build_session("due-timers", f"local[{TASKS}]", workers=TASKS)
        spark.sparkContext.setLogLevel("ERROR")
        conf = {**settings_of(server), "topology.checkpoint.location": f"{home}/checkpoint", "topology.workers": TASKS}
        with Progress(console=Console(stderr=True)) as progress:
            bar = progress.add_task("timers fired", total=timers)
            last = time.perf_counter()

            def on_wave(report: WaveReport) -> None:
                nonlocal fired, last
                now = time.perf_counter()
                if some := report.tuples_in.get("fired", 0):
                    waves.append((now - last) * 1000 if waves else report.total_ms)
                    fired += some
                    progress.update(bar, completed=fired)
                peaks[:] = max(peaks[0], worker_mb()), memory_mb(os.getpid(), peak=True)
                last = now
                if fired >= timers:
                    handle.stop()

            handle = SparkCluster(spark).submit(
                topology(timers, int(time.time() * 1000) + after * 1000), conf, on_wave=on_wave
            )
            handle.await_termination()
        spark.stop()
    Console().print(
        f"{provider}: {fired:,} timers in {len(waves)} waves of {statistics.median(waves):,.0f} ms (median), at most "
        f"{max(waves):,.0f} ms; {fired / sum(waves) * 1000:,.0f} timers/s; the largest worker took {peaks[0]:.0f} MB, "
        f"the driver {peaks[1]:.0f} MB"
    )


if __name__ == "__main__":
    typer.run(main)
