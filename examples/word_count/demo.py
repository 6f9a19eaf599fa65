"""Word count over the King James Bible while a Spark worker and the driver are killed; the counts are checked.

    make demo                      # state in SQLite
    make demo PROVIDER=redis       # in a Redis of the demo's own; also redis-cluster, hbase
    make demo WORKERS=2            # the tasks of bolts stay in two processes

The parts are in `crash_demo`; the job itself is `job.py`.
"""

import json
import random
import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from crash_demo.drill import Drill, KillPlan
from crash_demo.job_process import DemoError
from crash_demo.providers import Provider, provided
from crash_demo.report import Run, table_of_run, table_of_runs
from crash_demo.text import count_words, cut_into_files, read_verses
from crash_demo.topology import FILES_PER_WAVE
from crash_demo.verdict import judge
from rich.console import Console

FILES = 60

console = Console(highlight=False, soft_wrap=True)


def main(
    provider: Annotated[Provider, typer.Option(help="Where the state is kept.")] = Provider.SQLITE,
    seed: Annotated[
        int | None, typer.Option(help="Draws the moments of the kills; by default another one each time.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Do it so many times, each with the next seed.")] = 1,
    verses: Annotated[int | None, typer.Option(min=FILES, help="Count only the first verses.")] = None,
    workers: Annotated[int, typer.Option(min=0, help="Keep the tasks of bolts in so many processes.")] = 0,
    keep: Annotated[bool, typer.Option(help="Keep the work directory; on failure it is kept anyhow.")] = False,
) -> None:
    """Count words, kill a worker and the driver on the way, and compare the counts with an independent count.

    Exits with 0 only if both were killed and the counts are equal in the end, each time.
    """
    if not sys.platform.startswith("linux"):
        sys.exit("The demo finds the processes that it kills in /proc, so it needs Linux.")
    signal.signal(signal.SIGTERM, _end)  # so that no started process outlives this one
    first = secrets.randbelow(1_000_000) if seed is None else seed
    done = [one_run(provider, each, verses, workers, keep=keep) for each in range(first, first + runs)]
    if runs > 1:
        console.print(table_of_runs(done))
        console.print(f"{sum(run.proved for run in done)} of {runs} runs: equal after both kills")
    sys.exit(0 if all(run.proved for run in done) else 1)


def one_run(provider: Provider, seed: int, verses: int | None, workers: int, *, keep: bool) -> Run:
    """Run the demo once and print a report; remove the work directory unless the run failed."""
    text = read_verses(verses)
    work = Path(tempfile.mkdtemp(prefix="anchorbolt-demo-"))
    console.print(f"seed {seed}, state in {provider.value}, work directory {work}")
    proved = False
    try:
        cut_into_files(text, work / "in", FILES)
        chance = random.Random(seed)
        plan = KillPlan.drawn(chance, FILES // FILES_PER_WAVE)
        with provided(provider, work) as provider_conf:
            conf = {
                **provider_conf,
                "topology.checkpoint.location": str(work / "checkpoint"),
                "topology.workers": workers,
                "demo.input": str(work / "in"),
                "demo.output": str(work / "out"),
            }
            (work / "conf.json").write_text(json.dumps(conf, indent=2))
            story = Drill(work / "conf.json", work, plan, chance, console.print).run()
        run = Run(provider.value, seed, story, judge(count_words(text), story.counts, work / "out"))
        console.print(table_of_run(run))
        proved = run.proved
        return run
    except DemoError as error:
        console.print(f"The demo failed: {error}", style="red", markup=False)
        sys.exit(1)
    finally:
        if proved and not keep:
            shutil.rmtree(work)
        else:
            console.print(f"the work directory is kept: {work}")


def _end(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    typer.run(main)
