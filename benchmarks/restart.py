"""How soon a new driver commits its first wave, with few and with many keys in the state.

    make bench-restart                                           # 10,000 and 10,000,000 keys, state in Redis
    make bench-restart OPTIONS="--provider sqlite --keys 1000000"

For each size, a topology fills its state. Then new driver processes start in turn on the small and on the large state,
process one wave of 10,000 keys that the state has, and stop. The time runs from `submit` to the commit of that wave, so
the start of Python and Java is not in it. The table shows medians; the ratio is the median of the rounds' own ratios.
"""

import multiprocessing
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.engine.spark.session import build_session
from benchmarks.worker_memory import topology
from tests.support.stores import PROVIDERS, settings_of, store_of

_FILLED_BY = 400_000
_WAVE = 10_000
_FEW = 10_000
_TASKS = 4


class Start(NamedTuple):
    """What one driver did until its first commit."""

    first_ms: float
    recovery_ms: float
    wave_ms: float


def run(keys: int, rows: int, waves: int, conf: dict[str, Any]) -> Start:
    """Start a driver, stop it after some waves, and return what it did until its first commit."""
    spark = build_session("restart", "local[2]")
    spark.range(2).mapInArrow(lambda batches: batches, "id long").collect()  # starts Python's workers
    firsts: list[tuple[float, WaveReport]] = []
    committed = 0

    def on_wave(report: WaveReport) -> None:
        nonlocal committed
        if not firsts:
            firsts.append((time.monotonic(), report))
        committed += 1
        if committed == waves:
            handle.stop()

    began = time.monotonic()
    handle = SparkCluster(spark).submit(topology(_TASKS, keys, rows, f"restart-{keys}"), conf, on_wave=on_wave)
    handle.await_termination()
    spark.stop()
    (at, report), *_ = firsts
    return Start((at - began) * 1000, handle.recovery.ms, report.total_ms)


def in_new_process(keys: int, rows: int, waves: int, conf: dict[str, Any]) -> Start:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(run, keys, rows, waves, conf).result()


def main(
    provider: Annotated[str, typer.Option(help=f"One of {', '.join(PROVIDERS)}.")] = "redis",
    keys: Annotated[int, typer.Option(min=_FEW, help="Keys of the large state.")] = 10_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="Starts on each state, after one that is not counted.")] = 7,
) -> None:
    """Measure the first wave after a start."""
    console, sizes = Console(stderr=True), (_FEW, keys)
    starts: dict[int, list[Start]] = {size: [] for size in sizes}
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as home, store_of(provider, Path(home)) as server:
        confs = {
            size: {
                **settings_of(server),
                "topology.checkpoint.location": f"{home}/checkpoint-{size}",
                "topology.state.checkpoint.interval.ms": 100,
            }
            for size in sizes
        }
        for size in sizes:
            began = time.monotonic()
            in_new_process(size, min(_FILLED_BY, size), -(-size // _FILLED_BY), confs[size])
            console.print(f"filled {size:,} keys in {time.monotonic() - began:.0f} s")
        for number in range(rounds + 1):
            for size in sizes:
                start = in_new_process(size, _WAVE, 1, confs[size])
                console.print(f"{size:,} keys: first commit after {start.first_ms:.0f} ms")
                if number:
                    starts[size].append(start)
    table = Table(title=f"from submit to the first commit, state in {provider}")
    for column in ("keys", "ms to the first commit", "slowest", "of it recovery", "of it the wave"):
        table.add_column(column, justify="right")
    for size in sizes:
        first, recovery, wave = (statistics.median(times) for times in zip(*starts[size], strict=True))
        slowest = max(each.first_ms for each in starts[size])
        table.add_row(f"{size:,}", f"{first:.0f}", f"{slowest:.0f}", f"{recovery:.0f}", f"{wave:.0f}")
    ratios = [large.first_ms / small.first_ms for small, large in zip(starts[_FEW], starts[keys], strict=True)]
    Console().print(table)
    Console().print(f"ratio: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    typer.run(main)
