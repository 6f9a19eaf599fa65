"""Progress of long work over entries on standard error, with rate and time left.

On a terminal Rich draws a bar. Elsewhere a line is printed every ten seconds, so a short command prints none.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import rich.progress
from rich.console import Console
from rich.text import Text

from anchorbolt.migration_tools import Progress

_BETWEEN_LINES_S = 10.0


@contextmanager
def shown_progress(*, wanted: bool = True) -> Iterator[Progress]:
    """Yield a progress display for standard error, which disappears at the end; a silent one unless `wanted`."""
    if not wanted:
        yield Progress()
        return
    shown = WorkProgress(Console(stderr=True))
    with nullcontext() if shown.bars.disable else shown.bars:  # if disabled, it prints an empty line in Rich 13
        yield shown


class WorkProgress(Progress):
    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._shown_at = 0.0
        self.bars = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}", markup=False),
            rich.progress.BarColumn(bar_width=20),
            rich.progress.MofNCompleteColumn(),
            _Rate(),
            rich.progress.TimeElapsedColumn(),
            rich.progress.TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal or console.is_dumb_terminal,
            get_time=clock,
        )

    def begin(self, what: str, total: int | None) -> None:
        for each in self.bars.task_ids:
            self.bars.remove_task(each)
        self._task = self.bars.add_task(what, total=total)
        self._shown_at = self._clock()

    def advance(self, entries: int) -> None:
        self.bars.advance(self._task, entries)
        if self.bars.disable and self._clock() - self._shown_at >= _BETWEEN_LINES_S:
            self._shown_at = self._clock()
            self._console.file.write(_line(self.bars.tasks[-1]))


class _Rate(rich.progress.ProgressColumn):
    def render(self, task: rich.progress.Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} entries/s")


def _line(task: rich.progress.Task) -> str:
    rate = task.completed / (task.elapsed or 1)
    of_total = left = ""
    if task.total is not None:
        of_total = f" of {task.total:,}"
        left = f", {max(0, task.total - task.completed) / rate:,.0f} s left" if rate else ""
    return f"{task.description}: {task.completed:,}{of_total}, {rate:,.0f} entries/s{left}\n"
