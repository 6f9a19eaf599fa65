"""How many instructions a wave of word count takes, now and as of an earlier commit: `make bench-instructions`.

    make bench-instructions OPTIONS="--before 5ebb7f36"

Two timings of the same code differ by some percent, from one directory or hour to the next. The instructions that a run
takes differ by a thousandth, so this tells whether the per-tuple path has become longer. Each run is a process of its
own under Valgrind's cachegrind, which must be installed (Debian: apt-get install valgrind), with one seed of hashes:
word count of files in a `LocalCluster`, with state in SQLite. The waves are the difference of a long and a short run.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from anchorbolt.engine import LocalCluster
from benchmarks.word_count import ROOT, code_of
from benchmarks.word_count_topology import word_count_of_files
from benchmarks.workloads import WORKLOADS
from benchmarks.zipf_text import ZipfText

_SEED = 3
_SHORT, _LONG = 2, 6  # waves
_ROUNDS = 2
_CACHEGRIND = "valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"
_STEADY = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
_COUNTED = re.compile(r"I +refs: +([\d,]+)")
_BY_NAME = {each.name: each for each in WORKLOADS}

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def compare(
    context: typer.Context,
    before: Annotated[str, typer.Option(help="The commit to compare with.")] = "HEAD~1",
    workload: Annotated[str, typer.Option(help=f"One of {', '.join(_BY_NAME)}.")] = "100k",
) -> None:
    """Count the instructions of a wave."""
    if context.invoked_subcommand is not None:
        return
    if shutil.which("valgrind") is None:
        raise typer.BadParameter("valgrind is not installed. Debian: apt-get install valgrind.")
    table = Table("", "millions of instructions a wave", title=_BY_NAME[workload].title)
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as name:
        home = Path(name)
        trees = {before: code_of(before, home / "before"), "now": ROOT}
        texts = {waves: home / f"text-{waves}" for waves in (_SHORT, _LONG)}
        for waves, folder in texts.items():
            text = ZipfText(folder, _SEED)
            for _ in range(waves):
                text.write(_BY_NAME[workload].sentences, _BY_NAME[workload].files)
        for tree in trees.values():
            _instructions(tree, workload, texts[_SHORT], home)  # compiles the modules
        counted = {
            which: min(
                (_instructions(tree, workload, texts[_LONG], home) - _instructions(tree, workload, texts[_SHORT], home))
                / (_LONG - _SHORT)
                for _ in range(_ROUNDS)
            )
            for which, tree in trees.items()
        }
    for which, instructions in counted.items():
        table.add_row(which, f"{instructions / 1e6:,.1f}")
    table.add_row("before/now", f"{counted[before] / counted['now']:.3f}")
    Console().print(table)


@app.command(hidden=True)
def run(workload: str, text: Path) -> None:
    """Run the topology over a text: what is counted."""
    with tempfile.TemporaryDirectory(dir=text.parent) as home:
        conf = {
            "topology.state.provider": "sqlite",
            "topology.state.provider.config": {"directory": f"{home}/state"},
            "topology.checkpoint.location": f"{home}/checkpoint",
        }
        topology = word_count_of_files(_BY_NAME[workload], text, Path(home, "out"))
        LocalCluster(seed=_SEED).submit(topology, conf, until_empty=True).await_termination()


def _instructions(tree: Path, workload: str, text: Path, home: Path) -> int:
    path = os.pathsep.join([str(tree), str(ROOT)])
    done = subprocess.run(
        [*_CACHEGRIND, sys.executable, "-m", "benchmarks.instructions", "run", workload, str(text)],
        cwd=home,
        env={**os.environ, "PYTHONPATH": path, **_STEADY},
        capture_output=True,
        text=True,
    )
    found = _COUNTED.search(done.stderr)
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"{' '.join(done.args)}: {done.stderr[-2000:]}")
    return int(found[1].replace(",", ""))


if __name__ == "__main__":
    app()
