"""Prints the runs of the demo as short tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table

from crash_demo.drill import Kill, Story
from crash_demo.verdict import Verdict

__all__ = ["Run", "table_of_run", "table_of_runs"]


@dataclass(frozen=True)
class Run:
    """A run of the demo with its options and results."""

    provider: str
    seed: int
    story: Story
    verdict: Verdict

    @property
    def proved(self) -> bool:
        """Whether both kills happened and the result is right."""
        return self.verdict.equal and [kill.victim for kill in self.story.kills] == ["worker", "driver"]

    @property
    def waves(self) -> int:
        """The number of committed waves."""
        recovered = [recovery.txid for recovery in self.story.recoveries]
        return max([*self.story.rounds, *recovered]) + 1

    @property
    def after_worker(self) -> str:
        """The outcome of the wave in which the worker was killed."""
        kill = self.story.kills[0]
        rounds = self.story.rounds.get(kill.txid, 1)
        return f"rolled back, {rounds} rounds" if rounds > 1 else "not disturbed"

    @property
    def after_driver(self) -> str:
        """What the second driver found and did."""
        return self.story.recoveries[-1].action


def table_of_run(run: Run) -> RenderableType:
    """Return a table of one run: the kills, the recovery, and whether the counts are equal."""
    worker, driver = run.story.kills
    verdict = run.verdict
    table = Table(title="Word count with two kills", show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    table.add_row("state", run.provider)
    table.add_row("seed", str(run.seed))
    table.add_row("waves", str(run.waves))
    table.add_row("worker killed", _moment(worker))
    table.add_row("  recovery", f"wave {worker.txid}: {run.after_worker}")
    table.add_row("driver killed", _moment(driver))
    table.add_row(
        "  recovery", f"{run.after_driver}; went on after txid {run.story.recoveries[-1].txid}, in a new driver"
    )
    table.add_row("words", f"{verdict.words:,}")
    table.add_row("distinct words", f"{verdict.distinct:,}")
    table.add_row("counts in the state", _judged(verdict.state))
    table.add_row(f"{verdict.sink_rows:,} rows in the sink", _judged(verdict.sink))
    table.add_row("time", f"{run.story.seconds:.0f} s")
    return table


def table_of_runs(runs: Sequence[Run]) -> RenderableType:
    """Return a table with one line per run."""
    table = Table(title=f"{len(runs)} runs, state in {runs[0].provider}", title_justify="left")
    for heading in ("seed", "waves", "worker killed", "driver killed", "counts", "time"):
        table.add_column(heading)
    for run in runs:
        worker, driver = run.story.kills
        table.add_row(
            str(run.seed),
            str(run.waves),
            f"wave {worker.txid}: {run.after_worker}",
            f"wave {driver.txid}: {run.after_driver}",
            "[green]equal[/]" if run.verdict.equal else "[red]NOT EQUAL[/]",
            f"{run.story.seconds:.0f} s",
        )
    return table


def _moment(kill: Kill) -> str:
    return f"process {kill.pid}, SIGKILL at {kill.at:.1f} s, {kill.into_ms:.0f} ms into wave {kill.txid}"


def _judged(differences: Sequence[str]) -> str:
    if not differences:
        return "[green]equal to the independent count[/]"
    return "\n".join(["[red]NOT EQUAL[/]", *differences])
