"""The campaign of real kills: `make crash-test ROUNDS=n`. Every point, every victim, every provider, and a report.

A round is, for each provider, four runs of the job, one for each set of kills, and for each of the driver's points a
run whose driver sleeps there while a newer one does the work. The providers' servers are started for it.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
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
from tests.crash.older_driver import wrong_once_it_wakes
from tests.crash.plans import IN_WAVES, ON_DRIVER, ON_WORKERS
from tests.crash.runs import KilledRun, kill_at
from tests.support import spark_jvm
from tests.support.stores import PROVIDERS, store_of

_SETS: tuple[tuple[str, Sequence[FaultPoint], Victim], ...] = (
    ("driver, at its own points", ON_DRIVER, Victim.HERE),
    ("worker, at its own points", ON_WORKERS, Victim.HERE),
    ("driver, at a worker's points", ON_WORKERS, Victim.DRIVER),
    ("worker, at the driver's points", IN_WAVES, Victim.WORKER),
)

_TWO_DRIVERS = "nobody; a driver slept, a newer one ran"


@dataclass
class Tally:
    """What happened in the runs of one kind."""

    runs: int = 0
    kills: int = 0
    recoveries: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    twice: int = 0
    wrong: list[str] = field(default_factory=list)
    first_start_s: list[float] = field(default_factory=list)
    restarts_s: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, run: KilledRun) -> None:
        """Count a run that came to its end."""
        report = run.report
        self.runs += 1
        self.lost += run.lost
        self.twice += run.twice
        self.kills += sum(fault.action is FaultAction.KILL for fault in report.struck)
        self.wrong += run.wrong
        self.seconds += report.seconds
        for number, start in enumerate(report.starts):
            if start.recovery:
                self.recoveries[start.recovery] = self.recoveries.get(start.recovery, 0) + 1
            if start.first_commit_s is not None:
                (self.restarts_s if number else self.first_start_s).append(start.first_commit_s)


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
    tallies: dict[tuple[str, str], Tally] = {}
    for number in range(1, rounds + 1):
        for name in PROVIDERS if provider is None else [provider]:
            for title, points, victim in _SETS:
                tally = tallies.setdefault((name, title), Tally())
                with _told(console, f"round {number}, {name}, {title}", tally):
                    _run(name, points, victim, tally)
            for point in ON_DRIVER:
                tally = tallies.setdefault((name, _TWO_DRIVERS), Tally())
                with _told(console, f"round {number}, {name}, two drivers, {point.value}", tally):
                    _run_two_drivers(name, point, tally)
    _show(console, tallies)
    sys.exit(1 if any(tally.wrong for tally in tallies.values()) else 0)


def _run(provider: str, points: Sequence[FaultPoint], victim: Victim, tally: Tally) -> None:
    with _folder(tally) as home, store_of(provider, home) as store:
        try:
            tally.add(kill_at(home / "run", store, points, victim))
        except CrashTestError as error:
            tally.wrong.append(str(error))


def _run_two_drivers(provider: str, point: FaultPoint, tally: Tally) -> None:
    started = time.monotonic()
    with _folder(tally) as home, store_of(provider, home) as store:
        try:
            tally.wrong += wrong_once_it_wakes(home, store, point)
        except AssertionError as error:  # not as far as that in time
            tally.wrong.append(str(error))
    tally.runs += 1
    tally.seconds += time.monotonic() - started


@contextmanager
def _folder(tally: Tally) -> Iterator[Path]:
    """Make a folder, which stays for inspection where something is wrong."""
    home = Path(tempfile.mkdtemp(prefix="anchorbolt-crash-"))
    before = len(tally.wrong)
    yield home
    if len(tally.wrong) == before:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _told(console: Console, what: str, tally: Tally) -> Iterator[None]:
    started, before = time.monotonic(), len(tally.wrong)
    yield
    console.print(f"{what}: {time.monotonic() - started:.0f} s, wrong: {tally.wrong[before:] or 'nothing'}")


def _show(console: Console, tallies: Mapping[tuple[str, str], Tally]) -> None:
    table = Table(title="Killed with SIGKILL, started again until done")
    for column in (
        *("provider", "killed", "runs", "kills", "recoveries", "lost", "twice", "wrong"),
        *("first commit: first start, s", "after a kill, s", "ratio", "seconds"),
    ):
        table.add_column(column)
    for (provider, title), tally in tallies.items():
        recoveries = ", ".join(f"{times} {name}" for name, times in sorted(tally.recoveries.items()))
        table.add_row(
            provider,
            title,
            str(tally.runs),
            str(tally.kills),
            recoveries,
            *(str(number) for number in (tally.lost, tally.twice, len(tally.wrong))),
            _spread(tally.first_start_s),
            _spread(tally.restarts_s),
            _ratio(tally),
            f"{tally.seconds:.0f}",
        )
    console.print(table)
    console.print("Seconds from each restart to its first commit:")
    for (provider, title), tally in tallies.items():
        if tally.restarts_s:
            console.print(f"  {provider}, {title}: {' '.join(f'{seconds:.1f}' for seconds in tally.restarts_s)}")


def _spread(seconds: Sequence[float]) -> str:
    """Median, and the largest."""
    return f"{statistics.median(seconds):.1f}, at most {max(seconds):.1f}" if seconds else "-"


def _ratio(tally: Tally) -> str:
    """How much longer a restart takes than the first start."""
    if not (tally.first_start_s and tally.restarts_s):
        return "-"
    return f"{statistics.median(tally.restarts_s) / statistics.median(tally.first_start_s):.2f}"


if __name__ == "__main__":
    typer.run(main)
