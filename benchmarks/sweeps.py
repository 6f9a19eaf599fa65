"""Throughput against one quantity at a time: `make bench-sweeps`.

The quantities are the size of a batch, the tasks, how skewed the words are, and the sizes of a key and of a value. Of
each, all values run in turn, round by round, so that the ratios of two values are those of one run. All counts are
compared with a plain count of the text.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.anchorbolt_side import BlocksOnRedis, FilesOnRedis, FilesOnSqlite
from benchmarks.contestant import ContestantKind
from benchmarks.figures import machine
from benchmarks.processes import RemoteContestant, SideProcess
from benchmarks.rounds import Case, Result, compare
from benchmarks.workloads import TASKS, Output, Workload
from benchmarks.zipf_text import WORDS_PER_SENTENCE, Vocabulary, ZipfText
from tests.support.stores import store_of

_KINDS: tuple[ContestantKind, ...] = (FilesOnSqlite, FilesOnRedis, BlocksOnRedis)
_SEED = 3
_LOGS = Path(__file__).resolve().parent.parent / "build" / "benchmarks"
_WORDS_OF_A_ROUND = 1_000_000
_WAVES_OF_A_ROUND = 60
_COUNTS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Point:
    """One value of the quantity."""

    label: str
    workload: Workload
    vocabulary: Vocabulary


@dataclass(frozen=True)
class Sweep:
    """A quantity and its values; the ratios are to the point `base`."""

    name: str
    title: str
    axis: str
    base: str
    points: tuple[Point, ...]


def _point(sweep: str, label: str, words: int = 100_000, vocabulary: Vocabulary | None = None, **fields: int) -> Point:
    measured = max(1, min(_WORDS_OF_A_ROUND // words, _WAVES_OF_A_ROUND))
    dropped = -(-measured // 3)
    name = f"{sweep}-{''.join(filter(str.isalnum, label))}"
    sentences = words // WORDS_PER_SENTENCE
    files = min(TASKS, sentences)
    workload = Workload(name, label, sentences, files, Output.NONE, dropped, dropped, measured, 3, **fields)
    return Point(label, workload, vocabulary or Vocabulary())


SWEEPS = (
    Sweep(
        "batch",
        "Size of a batch",
        "words in a batch",
        "1 M",
        tuple(
            _point("batch", label, 10**power)
            for power, label in enumerate(("10", "100", "1 k", "10 k", "100 k", "1 M", "10 M"), start=1)
        ),
    ),
    Sweep(
        "tasks",
        "Tasks of the counting bolt",
        "tasks",
        "2",
        tuple(_point("tasks", f"{tasks}", count_tasks=tasks) for tasks in _COUNTS),
    ),
    Sweep(
        "all-tasks",
        "Tasks of each bolt",
        "tasks",
        "2",
        tuple(_point("all-tasks", f"{tasks}", count_tasks=tasks, split_tasks=tasks) for tasks in _COUNTS),
    ),
    Sweep(
        "skew",
        "Distribution of the words",
        "words",
        "even",
        (
            _point("skew", "even", vocabulary=Vocabulary(0)),
            _point("skew", "Zipf 1.1"),
            _point("skew", "Zipf 1.5", vocabulary=Vocabulary(1.5)),
            _point("skew", "one: half", vocabulary=Vocabulary(0, first_share=0.5)),
        ),
    ),
    Sweep(
        "key",
        "Size of a key",
        "bytes, at least",
        "10",
        tuple(_point("key", f"{size}", 30_000, Vocabulary(word_bytes=size)) for size in (10, 30, 100, 300, 1000)),
    ),
    Sweep(
        "value",
        "Size of a value",
        "bytes, at least",
        "10",
        tuple(_point("value", f"{size}", 30_000, value_bytes=size) for size in (10, 30, 100, 300, 1000)),
    ),
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    sweep: Annotated[
        list[str] | None, typer.Option(help=f"Only these: {', '.join(known.name for known in SWEEPS)}.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds that count.")] = 3,
    most_words: Annotated[int, typer.Option(help="Leave out larger batches.")] = 10_000_000,
    quick: Annotated[bool, typer.Option(help="Small batches and one round, to see that all points work.")] = False,
    json_file: Annotated[Path, typer.Option("--json", help="Write everything measured here.")] = _LOGS / "sweeps.json",
) -> None:
    """Measure words/s."""
    if unknown := set(sweep or ()) - {known.name for known in SWEEPS}:
        raise typer.BadParameter(f"no sweep is called {', '.join(sorted(unknown))}", param_hint="--sweep")
    console = Console(width=120)
    about = machine()
    documents = []
    _LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as directory, ExitStack() as stack:
        redis = stack.enter_context(store_of("redis", Path(directory)))
        processes = [stack.enter_context(SideProcess(kind, TASKS, _LOGS)) for kind in _KINDS]
        for current in (known for known in SWEEPS if not sweep or known.name in sweep):
            points = [point for point in current.points if point.workload.words <= most_words]
            if quick:
                points = [replace(point, workload=point.workload.tiny()) for point in points]
            else:
                points = [replace(point, workload=replace(point.workload, rounds=rounds)) for point in points]
            homes = Path(directory) / current.name
            cases = list(_cases(points, processes, homes, redis.port))
            results = dict(
                zip([point.label for point in points], compare(cases, Console(stderr=True).print), strict=True)
            )
            base = results.get(current.base, next(iter(results.values())))
            console.print(_table(current, results, base))
            documents.append(_document(current, results, base))
            json_file.write_text(json.dumps({"machine": about, "sweeps": documents}, indent=1) + "\n")
            shutil.rmtree(homes)
            redis.client().flushall()
    console.print(f"All counts are equal to a plain count of the text. Everything measured is in {json_file}.")


def _cases(points: Sequence[Point], processes: Sequence[SideProcess], homes: Path, redis_port: int) -> Iterator[Case]:
    for point in points:
        home = homes / point.workload.name
        text = ZipfText(home / "text", _SEED, point.vocabulary)
        sides = [RemoteContestant(each, point.workload, home / "text", home, redis_port) for each in processes]
        yield Case(point.workload, text, sides)


def _table(sweep: Sweep, results: dict[str, Result], base: Result) -> Table:
    sides = list(base.batches)
    headers = [header for side in sides for header in (f"{side}: words/s", f"beside {base.workload.title}")]
    table = Table(sweep.axis, *headers, title=sweep.title)
    for column in table.columns:
        column.justify = "right"
    for label, result in results.items():
        cells = ((f"{median(result.words_per_second(s)):,.0f}", f"{result.ratio(s, s, base):.2f}") for s in sides)
        table.add_row(label, *(cell for both in cells for cell in both))
    return table


def _document(sweep: Sweep, results: dict[str, Result], base: Result) -> dict[str, Any]:
    return {
        "name": sweep.name,
        "title": sweep.title,
        "axis": sweep.axis,
        "base": base.workload.title,
        "points": [
            {
                "label": label,
                "words_a_batch": result.workload.words,
                "counts_equal": True,  # `compare` raises if they differ
                "sides": {
                    side: {
                        "words_per_second": median(result.words_per_second(side)),
                        "words_per_second_by_round": result.words_per_second(side),
                        "ms_a_batch": median(result.trigger_ms(side)),
                        "beside_base": result.ratio(side, side, base),
                    }
                    for side in result.batches
                },
            }
            for label, result in results.items()
        ],
    }


if __name__ == "__main__":
    app()
