"""Progress of long work over entries: a bar on a terminal, with rate and time left; nothing elsewhere. By Rich."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

from anchorbolt.migration_tools.progress import Progress, Silent

__all__ = ["shown_progress"]


@contextmanager
def shown_progress(*, wanted: bool = True) -> Iterator[Progress]:
    """Give a progress that is shown on standard error where that is a terminal, and goes when the work ends."""
    console = Console(stderr=True)
    if not wanted or not console.is_terminal or console.is_dumb_terminal:
        yield Silent()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, transient=True) as bars:
        yield _Shown(bars)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} entries/s")


class _Shown:
    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def begin(self, what: str, total: int | None) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(what, total=total)

    def advance(self, entries: int) -> None:
        if self._task is not None:
            self._bars.advance(self._task, entries)
