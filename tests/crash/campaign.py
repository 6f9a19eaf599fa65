"""The campaign of real kills: `make crash-test ROUNDS=n`. Every point, every victim, every provider, and a report.

A round is, for each provider, five runs of the job, one for each set of kills, and for each of the driver's points a
run whose driver sleeps there while a newer one does the work. The providers' servers are started for it.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from anchorbolt.testing import FaultAction, FaultPoint, Victim
from anchorbolt.testing.crash import CrashTestError
from tests.crash.plans import IN_WAVES, ON_DRIVER, ON_WORKERS
from tests.crash.runs import CHAINED_JOB, JOB, KilledRun, kill_at, wrong_once_it_wakes
from tests.support import spark_jvm
from tests.support.stores import PROVIDERS, settings_of, store_of

_SETS: tuple[tuple[str, Sequence[FaultPoint], Victim, str], ...] = (
    ("driver, at its own points", ON_DRIVER, Victim.HERE, JOB),
    ("worker, at its own points", ON_WORKERS, Victim.HERE, JOB),
    ("driver, at a worker's points", ON_WORKERS, Victim.DRIVER, JOB),
    ("worker, at the driver's points", IN_WAVES, Victim.WORKER, JOB),
    ("worker, at its own points, with chained bolts", ON_WORKERS, Victim.HERE, CHAINED_JOB),
)

_TWO_DRIVERS = "nobody; a driver slept, a newer one ran"


@dataclass
class Tally:
    """What happened in the runs of one kind."""

    runs: int = 0
    kills: int = 0
    recoveries: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    twice: int = 0
    wrong: list[str] = field(default_factory=list)
    first_start_s: list[float] = field(default_factory=list)
    restarts_s: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, run: KilledRun) -> None:
        """Count a run that came to its end."""
        self.lost += run.lost
        self.twice += run.twice
        self.kills += sum(fault.action is FaultAction.KILL for fault in run.report.struck)
        self.wrong += run.wrong
        for number, start in enumerate(run.report.starts):
            if start.recovery:
                self.recoveries[start.recovery] += 1
            if start.first_commit_s is not None:
                (self.restarts_s if number else self.first_start_s).append(start.first_commit_s)

    def row(self) -> dict[str, str]:
        """Return the columns of the report, with their titles."""
        return {
            "runs": str(self.runs),
            "kills": str(self.kills),
            "recoveries": ", ".join(f"{times} {name}" for name, times in sorted(self.recoveries.items())),
            "lost": str(self.lost),
            "twice": str(self.twice),
            "wrong": str(len(self.wrong)),
            "first commit: first start, s": _spread(self.first_start_s),
            "after a kill, s": _spread(self.restarts_s),
            "ratio": _ratio(self.restarts_s, self.first_start_s),
            "seconds": f"{self.seconds:.0f}",
        }


def main(
    rounds: Annotated[int, typer.Option(help="How often everything is run.")] = 1,
    provider: Annotated[str | None, typer.Option(help=f"Only one of {', '.join(PROVIDERS)}.")] = None,
) -> None:
    """Kill real processes at every named point, and prove that nothing was lost or counted twice."""
    if provider not in (None, *PROVIDERS):
        raise typer.BadParameter(f"{provider} is none of {', '.join(PROVIDERS)}")
    os.environ.update(spark_jvm.environment())
    # A report in a file is not cut to the width of a terminal that is not there.
    console = Console(width=None if sys.stdout.isatty() else 200, soft_wrap=True)
    tallies: defaultdict[tuple[str, str], Tally] = defaultdict(Tally)
    for number in range(1, rounds + 1):
        for name in PROVIDERS if provider is None else [provider]:
            for title, points, victim, job in _SETS:
                tally = tallies[name, title]
                with _run(console, f"round {number}, {name}, {title}", tally) as home, store_of(name, home) as store:
                    tally.add(kill_at(home / "run", settings_of(store), points, victim, job=job))
            tally = tallies[name, _TWO_DRIVERS]
            for point in ON_DRIVER:
                what = f"round {number}, {name}, two drivers, {point.value}"
                with _run(console, what, tally) as home, store_of(name, home) as store:
                    tally.wrong += wrong_once_it_wakes(home, store, point)
    _show(console, tallies)
    sys.exit(1 if any(tally.wrong for tally in tallies.values()) else 0)


@contextmanager
def _run(console: Console, what: str, tally: Tally) -> Iterator[Path]:
    """Make the folder of a run, which stays for inspection where something is wrong, and say how the run ended."""
    home = Path(tempfile.mkdtemp(prefix="anchorbolt-crash-"))
    started, before = time.monotonic(), len(tally.wrong)
    try:
        yield home
    except (CrashTestError, AssertionError) as error:  # not as far as that in time
        tally.wrong.append(str(error))
    seconds = time.monotonic() - started
    tally.runs += 1
    tally.seconds += seconds
    if len(tally.wrong) == before:
        shutil.rmtree(home, ignore_errors=True)
    console.print(f"{what}: {seconds:.0f} s, wrong: {tally.wrong[before:] or 'nothing'}")


def _show(console: Console, tallies: Mapping[tuple[str, str], Tally]) -> None:
    table = Table("provider", "killed", *Tally().row(), title="Killed with SIGKILL, started again until done")
    for place, tally in tallies.items():
        table.add_row(*place, *tally.row().values())
    console.print(table)
    console.print("Seconds from each restart to its first commit:")
    for (provider, title), tally in tallies.items():
        if tally.restarts_s:
            console.print(f"  {provider}, {title}: {' '.join(f'{seconds:.1f}' for seconds in tally.restarts_s)}")


def _spread(seconds: Sequence[float]) -> str:
    """Median, and the largest."""
    return f"{statistics.median(seconds):.1f}, at most {max(seconds):.1f}" if seconds else "-"


def _ratio(restarts_s: Sequence[float], first_start_s: Sequence[float]) -> str:
    """How much longer a restart takes than the first start."""
    if not (restarts_s and first_start_s):
        return "-"
    return f"{statistics.median(restarts_s) / statistics.median(first_start_s):.2f}"


if __name__ == "__main__":
    typer.run(main)
