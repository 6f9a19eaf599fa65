"""Shows a run's progress: one live line on a terminal, plain lines elsewhere. It never stops a run.

Rich draws the live line, and prints the job's own output above it.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from anchorbolt.cli.run.progress import Progress
from anchorbolt.util.messages import counted

_BETWEEN_LINES_S = 1.0


class Display(Protocol):
    """Shows lines and the progress of a run."""

    def say(self, text: str) -> None:
        """Print a line that stays."""

    def begin(self, progress: Progress) -> None:
        """Start to show the progress."""

    def refresh(self) -> None:
        """Show the current progress. Called several times a second."""

    def end(self) -> None:
        """Stop showing the progress. May be called at any time, more than once."""


def choose_display() -> Display:
    console = Console(highlight=False)
    return LiveDisplay(console) if console.is_terminal and not console.is_dumb_terminal else PlainDisplay()


class PlainDisplay:
    """One line per wave, at most one a second, each flushed to standard output."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._progress: Progress | None = None
        self._shown_waves = 0
        self._shown_at = float("-inf")

    def say(self, text: str) -> None:
        try:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has closed the pipe: continue the run without output
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())

    def begin(self, progress: Progress) -> None:
        self._progress = progress

    def refresh(self) -> None:
        progress, now = self._progress, self._clock()
        if progress is None or progress.waves == self._shown_waves or now - self._shown_at < _BETWEEN_LINES_S:
            return
        self._shown_waves, self._shown_at = progress.waves, now
        self.say(wave_line(progress, now))

    def end(self) -> None:
        self._progress = None


class LiveDisplay:
    """One line on a terminal that is redrawn."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._progress: Progress | None = None
        self._live: Live | None = None
        self._spinner = Spinner("dots")

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def begin(self, progress: Progress) -> None:
        self._progress = progress
        # Only `refresh` draws: Rich's own thread would read figures while they change.
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def refresh(self) -> None:
        if self._live is None or self._progress is None:
            return
        waiting = self._progress.txid is None
        now = self._clock()
        text = "waiting for the first wave" if waiting else wave_line(self._progress, now)
        text += current_wave(self._progress, now)
        self._spinner.update(text=Text(text, no_wrap=True, overflow="ellipsis"))
        self._live.update(self._spinner, refresh=True)

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
        self._live = None


def current_wave(progress: Progress, now: float) -> str:
    """Return what the current wave does, to be added to the line; empty in its first second."""
    seconds = now - progress.wave_began
    if not progress.tasks or seconds < 1.0:
        return ""
    waits = f", waits for {progress.waits_for}" if progress.waits_for else ""
    return f" | next: {progress.tasks_done} of {counted(progress.tasks, 'task')}, {seconds:,.0f} s{waits}"


def wave_line(progress: Progress, now: float) -> str:
    """Return the line of a run's progress; `now` is from the clock that its waves were added with."""
    retried = f", rounds run again: {progress.retried}" if progress.retried else ""
    read, executed = progress.rates(now)
    return (
        f"wave {progress.txid}: {counted(progress.tuples, 'tuple')}, {read:,.0f} read/s, {executed:,.0f} executed/s, "
        f"checkpoint {progress.checkpoint_ms:,.0f} ms, lag {progress.lag_ms:,.0f} ms{retried}"
    )
