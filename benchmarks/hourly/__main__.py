"""An hourly count by key, with one late event in a hundred, beside Spark's timers and windows and Bytewax's windows.

make bench-hourly OPTIONS="--workload hourly-100k"
"""

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.contestant import Counts
from benchmarks.figures import as_document, machine, show
from benchmarks.hourly.events import WORKLOADS, Events
from benchmarks.hourly.sides import CLOSE_BY_KEY, OURS, PEERS
from benchmarks.processes import RemoteContestant, SideProcess
from benchmarks.rounds import Case, Result, WrongCounts, compare
from benchmarks.workloads import TASKS
from tests.support.stores import store_of

_SEED = 3
_LOGS = Path(__file__).resolve().parent.parent.parent / "build" / "benchmarks"
_COMPARED = [kind.name for kind in OURS]


class OfClosedHours:
    """A side whose counts are compared only for the hours that all sides have closed."""

    def __init__(self, side: RemoteContestant, events: Events) -> None:
        self.name, self.run = side.name, side.run
        self._side = side
        self._events = events

    def counts(self) -> Counts:
        closed = self._events.closed(self._side.counts())
        if self.name not in CLOSE_BY_KEY:
            return closed
        expected = self._events.counts
        if sum(closed.values()) < 0.5 * sum(expected.values()):
            raise WrongCounts(f"{self.name} has closed only {len(closed):,} of {len(expected):,} windows")
        return {**expected, **closed}


def main(
    workload: Annotated[list[str] | None, typer.Option(help="Only these; may be repeated.")] = None,
    side: Annotated[list[str] | None, typer.Option(help="Only these; may be repeated.")] = None,
    json_file: Annotated[Path, typer.Option("--json", help="Write everything measured here.")] = _LOGS / "hourly.json",
) -> None:
    """Measure events/s; check that each side has closed each hour of each key once, with the right count."""
    console, progress = Console(width=132), Console(stderr=True)
    kinds = [kind for kind in (*OURS, *PEERS) if not side or kind.name in side]
    results: list[Result] = []
    _LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as directory, ExitStack() as stack:
        redis = stack.enter_context(store_of("redis", Path(directory)))
        about = machine()
        processes = [stack.enter_context(SideProcess(kind, TASKS, _LOGS)) for kind in kinds]
        for each in WORKLOADS:
            if workload and each.name not in workload:
                continue
            home = Path(directory) / each.name
            events = Events(home / "text", _SEED, each.span_ms)
            sides = [RemoteContestant(process, each, home / "text", home, redis.port) for process in processes]
            results += compare([Case(each, events, [OfClosedHours(side, events) for side in sides])], progress.print)
    compared = [name for name in _COMPARED if name in {kind.name for kind in kinds}]
    json_file.write_text(json.dumps(as_document(results, about, compared), indent=1) + "\n")
    show(console, results, compared=compared, explained=kinds[0].name)
    console.print(f"Everything measured is in {json_file}.")


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
