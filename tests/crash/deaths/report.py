"""What happened in a run, and how a campaign shows it."""

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

Say = Callable[[str], None]


@dataclass
class Report:
    """What happened."""

    seed: int
    killed: Counter[str] = field(default_factory=Counter)
    not_struck: list[str] = field(default_factory=list)
    starts: int = 0
    waves: int = 0
    repeated: int = 0  # waves that took several rounds
    most_rounds: int = 0  # of one wave
    longest_s: float = 0.0  # between the ends of two waves of one driver
    seconds: float = 0.0
    first_mb: float = 0.0  # of the driver with most waves, after its first ones
    last_mb: float = 0.0
    java_mb: tuple[int, int] = (0, 0)  # of its JVM, in the same way
    workers_mb: tuple[int, int] = (0, 0)  # of its largest worker, in the same way
    wrong: list[str] = field(default_factory=list)


def run_campaign(run: Callable[[Path, Say], Report], *, keep: bool) -> None:
    """Run below a new folder, show the report, and end the process: with 1 if something is wrong.

    The folder is left where something is wrong, or with `keep`.
    """
    console = Console(width=None if sys.stdout.isatty() else 200, soft_wrap=True)
    home = Path(tempfile.mkdtemp(prefix="anchorbolt-deaths-"))
    begun = time.monotonic()

    def say(text: str) -> None:
        console.print(f"{time.monotonic() - begun:7.1f} s  {text}", highlight=False, markup=False)

    report = run(home, say)
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
    table.add_row("waves", f"{report.waves}, {report.repeated} of them in several rounds, at most {report.most_rounds}")
    table.add_row("longest time between the ends of two waves", f"{report.longest_s:.1f} s")
    table.add_row("seconds", f"{report.seconds:.0f}")
    table.add_row(
        "memory of the driver with most waves", f"{report.first_mb:.0f} MB at first, {report.last_mb:.0f} MB at last"
    )
    table.add_row("its JVM's", f"{report.java_mb[0]} MB at first, {report.java_mb[1]} MB at last")
    table.add_row("its largest worker's", f"{report.workers_mb[0]} MB at first, {report.workers_mb[1]} MB at last")
    table.add_row("wrong", str(len(report.wrong)))
    console.print(table)
    for wrong in report.wrong:
        console.print(f"WRONG: {wrong}", markup=False, highlight=False)
