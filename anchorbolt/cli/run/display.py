"""Shows a run's progress: one live line on a terminal, plain lines elsewhere. Must never stop a run.

Rich draws the live line, and puts what the job prints meanwhile above it.
"""

from __future__ import annotations

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

_BETWEEN_LINES_S = 1.0


class Display(Protocol):
    """Where progress is shown."""

    def say(self, text: str) -> None:
        """Show a line that stays."""

    def begin(self, progress: Progress) -> None:
        """Show progress from now on."""

    def refresh(self) -> None:
        """Show how things stand now. Called several times a second."""

    def end(self) -> None:
        """Show progress no more. May be called at any time, more than once."""


def choose_display() -> Display:
    """Return the display that suits standard output."""
    console = Console(highlight=False)
    return LiveDisplay(console) if console.is_terminal and not console.is_dumb_terminal else PlainDisplay()


class PlainDisplay:
    """One line per wave, and at most one a second; every line ends up in standard output at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Make a display; `clock` gives seconds."""
        self._clock = clock
        self._progress: Progress | None = None
        self._shown_waves = 0
        self._shown_at = float("-inf")

    def say(self, text: str) -> None:
        """See `Display.say`."""
        try:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
        except BrokenPipeError:  # whoever read the lines has gone: the run goes on, and its lines go nowhere
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())

    def begin(self, progress: Progress) -> None:
        """See `Display.begin`."""
        self._progress = progress

    def refresh(self) -> None:
        """See `Display.refresh`."""
        progress, now = self._progress, self._clock()
        if progress is None or progress.waves == self._shown_waves or now - self._shown_at < _BETWEEN_LINES_S:
            return
        self._shown_waves, self._shown_at = progress.waves, now
        self.say(wave_line(progress, now))

    def end(self) -> None:
        """See `Display.end`."""
        self._progress = None


class LiveDisplay:
    """One line on a terminal that is drawn anew all the time."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Make a display on a terminal; `clock` gives seconds."""
        self._console = console
        self._clock = clock
        self._progress: Progress | None = None
        self._live: Live | None = None
        self._spinner = Spinner("dots")

    def say(self, text: str) -> None:
        """See `Display.say`."""
        self._console.print(text, markup=False, soft_wrap=True)

    def begin(self, progress: Progress) -> None:
        """See `Display.begin`."""
        self._progress = progress
        # Drawn by `refresh` only: a thread of Rich's own would read figures while they change.
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def refresh(self) -> None:
        """See `Display.refresh`."""
        if self._live is None or self._progress is None:
            return
        waiting = self._progress.txid is None
        text = "waiting for the first wave" if waiting else wave_line(self._progress, self._clock())
        self._spinner.update(text=Text(text, no_wrap=True, overflow="ellipsis"))
        self._live.update(self._spinner, refresh=True)

    def end(self) -> None:
        """See `Display.end`."""
        if self._live is not None:
            self._live.stop()
        self._live = None


def wave_line(progress: Progress, now: float) -> str:
    """Say how a run stands; `now` is of the clock that its waves were added with."""
    retried = f", rounds run again: {progress.retried}" if progress.retried else ""
    return (
        f"wave {progress.txid}: {progress.tuples:,} tuples, {progress.rate(now):,.0f} tuples/s, "
        f"checkpoint {progress.checkpoint_ms:,.0f} ms, lag {progress.lag_ms:,.0f} ms{retried}"
    )
