"""What it costs that a run measures itself: `make bench-figures`.

Runs word count on both engines, with 4 and with 40 tasks a bolt. Of each pair of runs, one is as users run it, with all
figures and the history; in the other, what measures and what keeps it does nothing, on the driver and in Spark's
workers. Both run in one process, JVM and session, and which comes first alternates. Prints the median of the pairs'
ratios, and an interval that holds it with 95 %: of the time of a wave, and of the processor time of the driver, its JVM
and the workers, to which a busy machine matters less. Last comes the driver's share of it for figures and history, by
the clocks of its threads: without the noise of all the rest.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from anchorbolt.engine import LocalCluster, SparkCluster
from anchorbolt.engine.spark.session import build_session
from anchorbolt.testing import FeederSpout
from benchmarks.ratios import interval_of_median
from benchmarks.unmeasured_job import MEASURES, driver_seconds, files_spout, sentences, word_count

_DROPPED = 2  # waves at the start of each run: they load state, and Spark plans


class Case(NamedTuple):
    """The runs that are compared."""

    engine: str
    tasks: int  # of each bolt
    waves: int  # of a run that count
    size: int  # sentences of 10 words in a wave


class Cost(NamedTuple):
    """Seconds of a run, without its first waves."""

    wall: float
    processors: float
    driver: float  # of it: on the driver, in figures and history


_CASES = {
    "local-4": Case("local", 4, 20, 5_000),
    "local-40": Case("local", 40, 20, 5_000),
    "spark-4": Case("spark", 4, 6, 10_000),
    "spark-40": Case("spark", 40, 4, 10_000),
}

Run = Callable[[bool], Cost]
"""Runs the job once; the argument says whether it measures."""


class _Watch:
    """Notes the end of the last wave that is dropped. What a run costs is what comes after it, to its end."""

    def __init__(self) -> None:
        self._waves = 0
        self._began = Cost(0.0, 0.0, 0.0)

    def __call__(self, report: Any) -> None:
        self._waves += 1
        if self._waves == _DROPPED:
            self._began = _spent()

    def cost(self) -> Cost:
        return Cost(*(now - before for now, before in zip(_spent(), self._began, strict=True)))


@contextmanager
def _local(case: Case) -> Iterator[Run]:
    batch = [(each,) for each in sentences(case.size, seed=1)]

    def run(measures: bool) -> Cost:
        watch = _Watch()
        with tempfile.TemporaryDirectory() as folder:
            conf = {"topology.state.provider": "memory", "topology.checkpoint.location": folder, MEASURES: measures}
            spout = FeederSpout(["sentence"], [batch] * (case.waves + _DROPPED))
            handle = LocalCluster().submit(word_count("local", spout, case.tasks), conf, on_wave=watch)
            handle.await_termination()
            return watch.cost()

    yield run


@contextmanager
def _spark(case: Case) -> Iterator[Run]:
    text = ["\n".join(sentences(case.size // 2, seed)) for seed in (1, 2)]
    session = build_session("measuring", "local[2]")
    written = 0
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as home:
        folder = Path(home, "in")
        folder.mkdir()
        topology = word_count("spark", files_spout(folder), case.tasks)

        def run(measures: bool) -> Cost:
            nonlocal written
            for _ in range(case.waves + _DROPPED):
                for each in text:
                    (folder / f"{written:06d}.txt").write_text(each)
                    written += 1
            conf = {
                "topology.state.provider": "sqlite",
                "topology.state.provider.config": {"directory": f"{home}/state"},
                "topology.checkpoint.location": f"{home}/checkpoint",
                MEASURES: measures,
            }
            watch = _Watch()
            SparkCluster(session).submit(topology, conf, until_empty=True, on_wave=watch).await_termination()
            return watch.cost()

        yield run
    session.stop()


_ENGINES: dict[str, Callable[[Case], AbstractContextManager[Run]]] = {"local": _local, "spark": _spark}


def _spent() -> Cost:
    return Cost(time.perf_counter(), _processor_seconds(), driver_seconds())


def _processor_seconds() -> float:
    """Return the processor time of this process, and of those below it that run or that have been waited for."""
    children, ticks = defaultdict[int, list[int]](list), dict[int, int]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        children[int(fields[1])].append(int(folder.name))
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    below, found = 0, list(children[os.getpid()])
    while found:
        process = found.pop()
        below += ticks[process]
        found += children[process]
    return time.process_time() + below / os.sysconf("SC_CLK_TCK")


def main(
    case: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(_CASES)}; may be repeated.")] = None,
    pairs: Annotated[int, typer.Option(help="Pairs of runs.")] = 15,
) -> None:
    """Run the pairs, and print the ratios."""
    console = Console(width=110)
    table = Table(
        "case", "time of a wave, ms", "ratio", "95 %", "processor time, ms", "ratio", "95 %", "of it on the driver"
    )
    for name in case or _CASES:
        of_pairs: list[tuple[Cost, Cost]] = []
        with _ENGINES[_CASES[name].engine](_CASES[name]) as run:
            run(True)  # a warm-up
            for number in range(pairs):
                costs = {measures: run(measures) for measures in ((True, False), (False, True))[number % 2]}
                of_pairs.append((costs[True], costs[False]))
                wall, processors = (on / off for on, off in zip(costs[True][:2], costs[False][:2], strict=True))
                console.print(f"{name}, pair {number + 1}: {wall:.3f}, {processors:.3f} of processor time")
        cells = [name]
        for kind in range(2):
            ratios = [on[kind] / off[kind] for on, off in of_pairs]
            low, high = interval_of_median(ratios)
            wave_ms = median(on[kind] for on, _ in of_pairs) / _CASES[name].waves * 1000
            cells += [f"{wave_ms:,.0f}", f"{median(ratios):.3f}", f"{low:.3f} to {high:.3f}"]
        table.add_row(*cells, f"{100 * median(on.driver / on.processors for on, _ in of_pairs):.2f} %")
    console.print(f"with all figures and the history, beside a run without them; {pairs} pairs", table)


if __name__ == "__main__":
    typer.run(main)
