"""Shows the progress of a command that goes through entries: rate and time left, on standard error.

A bar that Rich draws on a terminal; elsewhere a line every ten seconds, so that a short command says nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

__all__ = ["BarSteps", "LineSteps", "Steps", "choose_steps"]

_BETWEEN_LINES_S = 10.0


class Steps(Protocol):
    """Where the steps of a command are shown; a context manager."""

    def __enter__(self) -> Steps:
        """Begin to show."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Show nothing any more."""

    def begin(self, what: str, entries: int) -> None:
        """A step over so many entries begins; the one before it has ended."""

    def advance(self, entries: int) -> None:
        """So many more entries of the step are done."""


def choose_steps() -> Steps:
    """Return what suits standard error."""
    console = Console(stderr=True, highlight=False)
    return BarSteps(console) if console.is_terminal and not console.is_dumb_terminal else LineSteps()


class BarSteps:
    """A bar on a terminal, for the step that is going on."""

    def __init__(self, console: Console) -> None:
        """Draw on `console`."""
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> BarSteps:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def begin(self, what: str, entries: int) -> None:
        """See `Steps.begin`."""
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(Text(what).markup, total=entries)

    def advance(self, entries: int) -> None:
        """See `Steps.advance`."""
        if self._task is not None:
            self._bars.advance(self._task, entries)


class LineSteps:
    """A line every ten seconds."""

    def __init__(
        self,
        write: Callable[[str], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Write lines by `write`, to standard error if that is None; `clock` gives seconds."""
        self._write = write or (lambda text: sys.stderr.write(text))
        self._clock = clock
        self._what, self._entries, self._done = "", 0, 0
        self._began = self._shown = 0.0

    def __enter__(self) -> LineSteps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def begin(self, what: str, entries: int) -> None:
        """See `Steps.begin`."""
        self._what, self._entries, self._done = what, entries, 0
        self._began = self._shown = self._clock()

    def advance(self, entries: int) -> None:
        """See `Steps.advance`."""
        self._done += entries
        now = self._clock()
        if now - self._shown < _BETWEEN_LINES_S:
            return
        self._shown = now
        rate = self._done / (now - self._began)
        left = max(0, self._entries - self._done) / rate if rate else 0.0
        self._write(
            f"{self._what}: {self._done:,} of {self._entries:,}, {rate:,.0f} entries/s, {left:,.0f} s left\n"
        )


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        """Show entries per second."""
        rate = task.finished_speed or task.speed
        return Text(f"{rate:,.0f}/s" if rate else "")
