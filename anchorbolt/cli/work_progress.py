"""Progress of long work over entries on standard error, with rate and time left.

On a terminal Rich draws a bar. Elsewhere a line is printed every ten seconds, so a short command prints none.
"""

import sys
import time
from collections.abc import Callable, Iterator
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

_BETWEEN_LINES_S = 10.0


@contextmanager
def shown_progress(*, wanted: bool = True) -> Iterator[Progress]:
    """Yield a progress display for standard error, which disappears at the end; a silent one unless `wanted`."""
    if not wanted:
        yield Silent()
        return
    console = Console(stderr=True)
    if console.is_terminal and not console.is_dumb_terminal:
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
    else:
        yield Lines(lambda line: sys.stderr.write(line))


class Lines:
    """A line every ten seconds."""

    def __init__(self, write: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._what, self._done = "", 0
        self._total: int | None = None
        self._began = self._shown = 0.0

    def begin(self, what: str, total: int | None) -> None:
        self._what, self._total, self._done = what, total, 0
        self._began = self._shown = self._clock()

    def advance(self, entries: int) -> None:
        self._done += entries
        now = self._clock()
        if now - self._shown < _BETWEEN_LINES_S:
            return
        self._shown = now
        rate = self._done / (now - self._began)
        line = f"{self._what}: {self._done:,}"
        if self._total is not None:
            line += f" of {self._total:,}"
        line += f", {rate:,.0f} entries/s"
        if self._total is not None and rate:
            line += f", {max(0, self._total - self._done) / rate:,.0f} s left"
        self._write(f"{line}\n")


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
