"""Word count on Anchorbolt, as jobs and in workers, beside Spark's own operators, Bytewax and PyFlink: `make bench`.

The README in this directory says what is measured, and how.
"""

import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.anchorbolt_side import (
    BlocksOnRedis,
    BlocksOnSqlite,
    FilesBefore,
    FilesOnRedis,
    FilesOnSqlite,
    FilesWithoutSink,
    JobsBefore,
    JobsOnRedis,
    JobsOnSqlite,
    WorkersOnRedis,
    WorkersOnSqlite,
)
from benchmarks.bytewax_side import BytewaxBatchesSide, BytewaxSide
from benchmarks.contestant import ContestantKind
from benchmarks.figures import as_document, machine, show
from benchmarks.flink_side import FlinkSide
from benchmarks.processes import RemoteContestant, SideProcess
from benchmarks.rounds import Case, Result, compare
from benchmarks.spark_side import JvmSide, PandasSide, SparkSide
from benchmarks.workloads import LARGE, TASKS, WORKLOADS
from benchmarks.zipf_text import ZipfText
from tests.support.stores import store_of

_SEED = 3
ROOT = Path(__file__).resolve().parent.parent
_LOGS = ROOT / "build" / "benchmarks"

_OURS: tuple[ContestantKind, ...] = (
    JobsOnSqlite,
    JobsOnRedis,
    WorkersOnSqlite,
    WorkersOnRedis,
    FilesOnSqlite,
    FilesOnRedis,
    BlocksOnSqlite,
    BlocksOnRedis,
    FilesWithoutSink,
)
_BEFORE: tuple[ContestantKind, ...] = (JobsBefore, FilesBefore)
_COMPARED = (FilesOnRedis, FilesOnSqlite, BlocksOnRedis)
"""The tables have the ratio of each of these to every side."""
_BYTEWAX: tuple[ContestantKind, ...] = (BytewaxSide, BytewaxBatchesSide)
_PEERS: tuple[ContestantKind, ...] = (SparkSide, PandasSide, JvmSide, *_BYTEWAX, FlinkSide)

_SHORT: tuple[ContestantKind, ...] = (JobsOnSqlite, FilesOnSqlite, FilesOnRedis, BlocksOnRedis, JvmSide, BytewaxSide)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    workload: Annotated[
        list[str] | None, typer.Option(help=f"Only these: {', '.join(known.name for known in WORKLOADS)}.")
    ] = None,
    side: Annotated[
        list[str] | None, typer.Option(help=f"Only these: {', '.join(kind.name for kind in (*_OURS, *_PEERS))}.")
    ] = None,
    short: Annotated[
        bool, typer.Option(help="Real ratios of the most important sides in less than 5 minutes.")
    ] = False,
    quick: Annotated[bool, typer.Option(help="Small batches and one round, to see that all sides work.")] = False,
    before: Annotated[
        str | None, typer.Option(help="Also run our sides on SQLite with the code of this commit.")
    ] = None,
    json_file: Annotated[Path, typer.Option("--json", help="Write everything measured here.")] = _LOGS
    / "word-count.json",
) -> None:
    """Measure words/s, and milliseconds of an almost empty wave."""
    known = [each.name for each in WORKLOADS if not short or each.name in LARGE]
    _refuse_unknown("workload", workload or (), known)
    _refuse_unknown("side", side or (), [kind.name for kind in (*_OURS, *_PEERS)])
    console = Console(width=132)
    progress = Console(stderr=True)

    def takes_part(kind: ContestantKind, name: str) -> bool:
        is_asked_for = kind.name in side if side else not short or kind in _SHORT
        return name in kind.works_on and (is_asked_for or kind in _BEFORE)

    kinds = [*_installed(progress), *(_BEFORE if before else ())]
    plan = {
        each: [kind for kind in kinds if takes_part(kind, each.name)]
        for each in WORKLOADS
        if each.name in (workload or known)
    }
    kinds = [kind for kind in kinds if any(kind in sides for sides in plan.values())]
    compared = [kind.name for kind in (*_COMPARED, *([JobsOnSqlite] if before else [])) if kind in kinds]
    results: list[Result] = []
    _LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as directory, ExitStack() as stack:
        redis = stack.enter_context(store_of("redis", Path(directory)))
        about = machine()
        code = code_of(before, Path(directory) / "before") if before else None
        processes = {
            kind: stack.enter_context(SideProcess(kind, TASKS, _LOGS, code=code if kind in _BEFORE else None))
            for kind in kinds
        }
        console.print(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in about.items()))
        for each, chosen in plan.items():
            current = each.tiny() if quick else each.shortened() if short else each
            home = Path(directory) / current.name
            text = ZipfText(home / "text", _SEED)
            sides = [RemoteContestant(processes[kind], current, home / "text", home, redis.port) for kind in chosen]
            results += compare([Case(current, text, sides)], progress.print)
            json_file.write_text(json.dumps(as_document(results, about, compared), indent=1) + "\n")
    show(console, results, compared=compared, explained=kinds[0].name)
    console.print(f"Everything measured is in {json_file}.")


def _installed(progress: Console) -> list[ContestantKind]:
    missing: list[ContestantKind] = []
    for program, kinds in ((BytewaxSide, _BYTEWAX), (FlinkSide, (FlinkSide,))):
        if not program.is_installed():
            progress.print(
                f"without {program.name}, which is not installed: make bench does it for Python 3.10 to 3.12"
            )
            missing += kinds
    return [kind for kind in (*_OURS, *_PEERS) if kind not in missing]


def code_of(commit: str, directory: Path) -> Path:
    """Write the package `anchorbolt` as a commit has it into the directory."""
    archive = subprocess.run(["git", "archive", commit, "anchorbolt"], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(directory, filter="data")
    return directory


def _refuse_unknown(option: str, names: Sequence[str], known: Sequence[str]) -> None:
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise typer.BadParameter(f"no {option} is called {', '.join(unknown)}", param_hint=f"--{option}")


if __name__ == "__main__":
    app()
