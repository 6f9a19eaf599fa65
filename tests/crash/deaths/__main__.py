"""`python -m tests.crash.deaths --messages 1000000 --kills 40 --seed N`: the large run, with a report."""

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tests.crash.deaths.plan import plan
from tests.crash.deaths.runs import Report, Run, Wanted


def main(
    messages: Annotated[int, typer.Option(help="How many messages, an even number.")] = 1_000_000,
    kills: Annotated[int, typer.Option(help="How many SIGKILLs.")] = 40,
    stops: Annotated[int, typer.Option(help="How many runs are stopped, besides.")] = 0,
    seed: Annotated[int, typer.Option(help="Decides the messages, the moments and the victims.")] = 1,
    store: Annotated[str, typer.Option(help="Where the state is: redis (that of the stream), or sqlite.")] = "redis",
    unstable: Annotated[bool, typer.Option(help="With message ids that are not stable.")] = False,
    late: Annotated[bool, typer.Option(help="With a bolt that acks late.")] = False,
    keep: Annotated[bool, typer.Option(help="Keep the logs, also where nothing is wrong.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds after which the run counts as hanging.")] = 3600.0,
) -> None:
    """Kill workers, drivers and Redis at random moments, and prove that each message was counted exactly once."""
    if store not in ("redis", "sqlite"):
        raise typer.BadParameter(f"{store} is neither redis nor sqlite")
    if late and unstable:
        # A pair that counted, and of which only one half was acked, would wait for ever for the other.
        raise typer.BadParameter("pairs need stable ids")
    console = Console(width=None if sys.stdout.isatty() else 200, soft_wrap=True)
    home = Path(tempfile.mkdtemp(prefix="anchorbolt-deaths-"))
    begun = time.monotonic()

    def say(text: str) -> None:
        console.print(f"{time.monotonic() - begun:7.1f} s  {text}", highlight=False, markup=False)

    planned = plan(seed, kills, messages, stops)
    wanted = Wanted(seed, messages, planned, store, late, stable=not unstable, timeout_s=timeout)
    report = Run(home, wanted, say).run()
    _show(console, report)
    if report.wrong or keep:
        console.print(f"See {home}")
    else:
        shutil.rmtree(home, ignore_errors=True)
    sys.exit(1 if report.wrong else 0)


def _show(console: Console, report: Report) -> None:
    table = Table("what", "result", title=f"Killed with SIGKILL, seed {report.seed}")
    table.add_row("kills", ", ".join(f"{times} {victim}" for victim, times in report.killed.items()))
    table.add_row("not struck", "; ".join(report.not_struck) or "none")
    table.add_row("starts", str(report.starts))
    table.add_row("waves", f"{report.waves}, {report.repeated} of them in several rounds")
    table.add_row("seconds", f"{report.seconds:.0f}")
    table.add_row("the last driver's memory", f"{report.first_mb:.0f} MB at first, {report.last_mb:.0f} MB at last")
    table.add_row("its JVM's", f"{report.java_mb[0]} MB at first, {report.java_mb[1]} MB at last")
    table.add_row("wrong", str(len(report.wrong)))
    console.print(table)
    for wrong in report.wrong:
        console.print(f"WRONG: {wrong}", markup=False, highlight=False)


if __name__ == "__main__":
    typer.run(main)
