"""A run's progress: the figures, summed from its wave reports, and their display, which never stops a run."""

import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from anchorbolt.cli.command import drop_output, print_error, set_up_logging
from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.observe.figures.profile import Profile
from anchorbolt.util.messages import counted

_WINDOW_S = 10.0
_BETWEEN_LINES_S = 1.0
_PHASES = ("source_ms", "compute_ms", "prepare_ms", "decide_ms", "commit_ms")


class Activity(NamedTuple):
    """The work of the engine in the current wave."""

    tasks_done: int = 0
    tasks: int = 0  # of the bolts; 0 between two jobs
    executed: int = 0  # tuples, by the finished tasks
    waits_for: str | None = None  # a bolt's task that has not returned
    losses: int = 0  # rounds in which Spark or the network lost something


class _Wave(NamedTuple):
    ended: float
    seconds: float
    emitted: int  # by the spouts
    executed: int  # by the bolts


class Progress:
    """The figures of a run. Not thread-safe. All times are in seconds of one monotonic clock."""

    def __init__(self, spouts: Collection[str], interval_ms: float, now: float = 0.0) -> None:
        self.waves = 0  # committed in this run
        self.tuples = 0  # emitted by the spouts in these waves
        self.last: WaveReport | None = None
        self.retried = 0  # rounds that were run again
        self.losses = 0  # of these, because Spark or the network had lost something
        self.acked = self.failed = 0  # messages of rich spouts
        self.dead_letters = 0
        self.wave_began = now  # at the earliest: the end of the last wave
        self.activity = Activity()  # in the current wave
        self.paused = False
        self._spouts = spouts
        self._interval_ms = interval_ms
        self._latest: deque[_Wave] = deque()

    def add(self, report: WaveReport, now: float) -> None:
        """Add a wave that was committed at `now`."""
        emitted = sum(report.tuples_out.get(spout, 0) for spout in self._spouts)
        executed = sum(number for component, number in report.tuples_in.items() if component not in self._spouts)
        self._latest.append(_Wave(now, report.total_ms / 1000, emitted, executed))
        self.waves += 1
        self.tuples += emitted
        self.last = report
        self.retried += report.rounds - 1
        self.losses += report.losses
        self.acked += sum(report.messages_acked.values())
        self.failed += sum(report.messages_failed.values())
        self.dead_letters += sum(report.dead_letters.values())
        self.wave_began = now
        self.activity = self.activity._replace(waits_for=None)

    @property
    def lag_ms(self) -> float:
        """Time by which the latest wave exceeded the checkpoint interval."""
        return max(0.0, self.last.total_ms - self._interval_ms) if self.last else 0.0

    def rates(self, now: float) -> tuple[float, float]:
        """Return the rates of the tuples emitted by spouts and executed by bolts, per second.

        Both are averages over the waves that ended in the last ten seconds.
        """
        latest = self._latest
        while latest and latest[0].ended < now - _WINDOW_S:
            latest.popleft()
        if not latest:
            return 0.0, 0.0
        seconds = max(now - latest[0].ended + latest[0].seconds, 0.001)
        return sum(each.emitted for each in latest) / seconds, sum(each.executed for each in latest) / seconds

    def line(self, now: float) -> str:
        """Return the line about a run with the latest wave `last`."""
        if self.last is None:
            return "paused before the first wave" if self.paused else "waiting for the first wave"
        lost = f" ({self.losses} after losses)" if self.losses else ""
        retried = f", rounds run again: {self.retried}{lost}" if self.retried else ""
        messages = f", {self.acked:,} acked, {self.failed:,} failed" if self.acked or self.failed else ""
        dead = f", {counted(self.dead_letters, 'dead letter')}" if self.dead_letters else ""
        throttled = f", spouts throttled {_cause(self.last)}" if self.last.throttled else ""
        behind = f", {counted(self.last.offsets_behind, 'offset')} behind" if self.last.offsets_behind else ""
        behind += f", {counted(self.last.files_waiting, 'file')} waiting" if self.last.files_waiting else ""
        paused = "paused after " if self.paused else ""
        read, executed = self.rates(now)
        return (
            f"{paused}wave {self.last.txid}: {counted(self.tuples, 'tuple')}, {read:,.0f} read/s, "
            f"{executed:,.0f} executed/s, "
            f"checkpoint {self.last.checkpoint_ms:,.0f} ms, lag {self.lag_ms:,.0f} ms{behind}"
            f"{messages}{dead}{throttled}{retried}"
        )

    def figures(self, now: float) -> dict[str, object]:
        """Return the figures of `line` and of the latest wave by name; empty before the first wave."""
        if self.last is None:
            return {}
        read, executed = self.rates(now)
        by = dict(zip(("throttled_by", "throttled_by_task"), self.last.throttled_by or (), strict=False))
        return {
            "txid": self.last.txid,
            "waves": self.waves,
            "tuples": self.tuples,
            "read_per_second": round(read, 1),
            "executed_per_second": round(executed, 1),
            "lag_ms": round(self.lag_ms, 1),
            "checkpoint_ms": round(self.last.checkpoint_ms, 1),
            **{name: round(getattr(self.last, name), 1) for name in _PHASES},
            "rounds": self.last.rounds,
            "rounds_again": self.retried,
            "losses": self.losses,
            "bytes_shuffled": self.last.bytes_shuffled,
            "keys_read": self.last.keys_read,
            "keys_staged": self.last.keys_staged,
            "acked": self.acked,
            "failed": self.failed,
            "dead_letters": self.dead_letters,
            "throttled": bool(self.last.throttled),
            **by,
            **({} if self.last.offsets_behind is None else {"offsets_behind": self.last.offsets_behind}),
            **({} if self.last.files_waiting is None else {"files_waiting": self.last.files_waiting}),
        }

    def current_wave(self, now: float) -> str:
        """Return the activity of the current wave, to append to the line; empty in its first second."""
        done, tasks, executed, waits_for, losses = self.activity
        seconds = now - self.wave_began
        if not (tasks or losses) or seconds < 1.0:
            return ""
        running = f"{done} of {counted(tasks, 'task')}" if tasks else "is tried again"
        so_far = f", {executed:,} executed" if executed else ""
        lost = f", losses: {losses}" if losses else ""
        waits = f", waits for {waits_for}" if waits_for else ""
        return f" | next: {running}{so_far}{lost}, {seconds:,.0f} s{waits}"


def _cause(report: WaveReport) -> str:
    if report.throttled_by is None:
        return "until a wave is measured"
    component, index = report.throttled_by
    return f"by {component!r}, task {index}"


class Display:
    """Prints the events of a run as lines of text, and shows the progress.

    On a terminal the progress is one live line, drawn by Rich, below the job's own output. Elsewhere it is one line per
    wave, at most one per second.
    """

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console(highlight=False)
        self._is_live = self._console.is_terminal and not self._console.is_dumb_terminal
        self._clock = clock
        self._progress: Progress | None = None
        self._live: Live | None = None
        self._spinner = Spinner("dots")
        self._shown_waves, self._shown_at = 0, float("-inf")

    @contextmanager
    def logging(self, *, verbose: bool) -> Iterator[None]:
        """Log to standard error until the end of the run."""
        set_up_logging(verbose=verbose)
        yield

    def name(self, topology: str) -> None:
        """Take the topology's name, once it is known."""

    def say(self, text: str, **fields: object) -> None:
        """Print a permanent line. `fields` are its figures, for a display that shows more than the text."""
        if self._is_live:
            self._console.print(text, markup=False, soft_wrap=True)
            return
        try:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
        except BrokenPipeError:
            drop_output()

    def fail(self, text: str, error: BaseException | None = None, *, with_traceback: bool = False) -> None:
        """Show on standard error why the run ended; `error` is the error, if any. The progress must have ended.

        The text ends with the error's class, under which docs/failures describes the fix.
        """
        if error is not None and with_traceback:
            traceback.print_exception(error)
        print_error(text if error is None else f"{text} ({type(error).__name__})")

    def show(self, profile: Profile) -> None:
        """Print where the time went. The progress must have ended."""
        titles = ("tuples", "source", "decode", "execute", "state", "encode", "stage", "all", "µs/tuple")
        table = Table("seconds", *titles, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for column in table.columns[1:]:
            column.justify, column.no_wrap = "right", True
        for each in profile.components:
            parts = (*each[2:], each.total_ms)
            a_tuple = f"{1000 * each.total_ms / each.tuples:,.2f}" if each.tuples else ""
            table.add_row(each.component, f"{each.tuples:,}", *(f"{ms / 1000:,.2f}" for ms in parts), a_tuple)
        self._console.print(table)
        self._console.print(
            f"rounds {profile.rounds_ms / 1000:,.2f} s, decide {profile.decide_ms / 1000:,.2f} s, "
            f"commit {profile.commit_ms / 1000:,.2f} s; in the rounds {profile.working:.2f} tasks of bolts worked at a "
            "time, the rest is Spark, the network, and waiting",
            soft_wrap=True,
        )

    def begin(self, progress: Progress) -> None:
        """Start to show the progress."""
        self._progress = progress
        if self._is_live:
            # Only `refresh` draws: Rich's own thread would read figures while they change.
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    def refresh(self) -> None:
        """Show the current progress. Called several times a second."""
        progress, now = self._progress, self._clock()
        if progress is None:
            return
        if self._live is not None:
            text = progress.line(now) + progress.current_wave(now)
            self._spinner.update(text=Text(text, no_wrap=True, overflow="ellipsis"))
            self._live.update(self._spinner, refresh=True)
        elif progress.waves != self._shown_waves and now - self._shown_at >= _BETWEEN_LINES_S:
            self._shown_waves, self._shown_at = progress.waves, now
            self.say_progress(progress, now)

    def say_progress(self, progress: Progress, now: float) -> None:
        """Print the progress as a permanent line."""
        self.say(progress.line(now))

    def end(self) -> None:
        """Stop showing the progress. May be called at any time, more than once."""
        if self._live is not None:
            self._live.stop()
        self._live = self._progress = None
