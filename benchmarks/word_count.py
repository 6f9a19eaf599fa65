"""Word count on Anchorbolt, as jobs and in workers, beside Spark's own operators and Bytewax: `make bench`.

The README in this directory says what is measured, and how.
"""

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from anchorbolt_side import AnchorboltSide, FilesSide, WorkersSide
from bytewax_side import BytewaxBatchesSide, BytewaxSide
from contestant import ContestantKind
from figures import as_document, machine, show
from processes import RemoteContestant, SideProcess
from rich.console import Console
from rounds import compare
from spark_side import JvmSide, SparkSide
from workloads import WORKLOADS
from zipf_text import ZipfText

_CORES = 2
_SEED = 3
_LOGS = Path(__file__).resolve().parent.parent / "build" / "benchmarks"
_BYTEWAX: tuple[ContestantKind, ...] = (BytewaxSide, BytewaxBatchesSide)
_KINDS: tuple[ContestantKind, ...] = (AnchorboltSide, WorkersSide, FilesSide, SparkSide, JvmSide, *_BYTEWAX)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    workload: Annotated[
        list[str] | None, typer.Option(help=f"Only these: {', '.join(known.name for known in WORKLOADS)}.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Small batches and one round, to see that all sides work.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write everything measured here, too.")] = None,
) -> None:
    """Measure words/s, and milliseconds of an almost empty wave."""
    chosen = [known for known in WORKLOADS if not workload or known.name in workload]
    unknown = set(workload or ()) - {known.name for known in WORKLOADS}
    if unknown:
        raise typer.BadParameter(f"no workload is called {', '.join(sorted(unknown))}", param_hint="--workload")
    console = Console()
    progress = Console(stderr=True)
    kinds = [kind for kind in _KINDS if any(known.name in kind.works_on for known in chosen)]
    if not BytewaxSide.is_installed():
        progress.print("without Bytewax, which is not installed: make bench installs it for Python 3.10 to 3.12")
        kinds = [kind for kind in kinds if kind not in _BYTEWAX]
    results = []
    _LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as directory, ExitStack() as stack:
        processes = [
            stack.enter_context(SideProcess(kind, _CORES, _LOGS / f"{kind.name.replace(' ', '-').lower()}.log"))
            for kind in kinds
        ]
        about = processes[0].with_session(machine)
        console.print(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in about.items()))
        for current in (known.shortened() for known in chosen) if quick else chosen:
            home = Path(directory) / current.name
            text = ZipfText(home / "text", _SEED)
            sides = [
                RemoteContestant(process, current, home / "text", home / process.name, _CORES)
                for process in processes
                if current.name in process.works_on
            ]
            results.append(compare(current, text, sides, progress.print))
    show(console, results, ours=FilesSide.name, explained=AnchorboltSide.name)
    if json_file is not None:
        json_file.write_text(json.dumps(as_document(results, about, ours=FilesSide.name), indent=2) + "\n")


if __name__ == "__main__":
    app()
