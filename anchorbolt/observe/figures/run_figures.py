"""All figures of a run: each committed wave adds to them, and any thread may read them at any time."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import numpy as np

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.wave_report import PHASES, WaveReport
from anchorbolt.engine.task.messages import ReportedError, TaskReport
from anchorbolt.metrics.distribution import HIGHEST_BUCKET, LOWEST_BUCKET, Distribution
from anchorbolt.observe.figures.tasks import Declared, Edge, RegisteredMetrics, TaskFigures, TaskTables
from anchorbolt.observe.figures.windows import ALL_TIME, Numbers, Windows
from anchorbolt.tracking.settlements import TaskMessages

STORE_OPERATIONS: Final = ("read", "scan", "stage", "seal")

_BUCKETS = HIGHEST_BUCKET - LOWEST_BUCKET + 1


class WaveFigure(Declared):
    """A figure of waves; its source is a function of a `WaveReport`."""

    WAVES = (lambda report: 1.0), "waves", "Committed waves."
    ROUNDS_FAILED = (
        (lambda report: report.rounds - 1.0),
        "rounds_failed",
        "Rounds that were rolled back and run again.",
    )
    LOSSES = attrgetter("losses"), "losses", "Of these: those in which Spark or the network lost something."
    BYTES_SHUFFLED = attrgetter("bytes_shuffled"), "shuffled_bytes", "Bytes of the blobs between tasks."
    WAVE_MS = attrgetter("total_ms"), "wave_seconds", "Time of all committed waves.", 0.001


class SpoutFigure(Declared):
    """A figure of the messages of a spout; its source is an attribute of a `WaveReport`, by spout."""

    ACKED = "messages_acked", "acked_messages", "Messages of the rich spout whose trees are complete."
    FAILED = "messages_failed", "failed_messages", "Messages of the rich spout that failed."
    DEAD_LETTERS = "dead_letters", "dead_letters", "Tuples of the spout that were left out for good."


@dataclass(frozen=True)
class Figures:
    """The figures of a window."""

    seconds: float  # covered by the window: less than its length while the run is younger
    waves: Numbers  # by `WaveFigure`
    spouts: Mapping[str, Numbers]  # by spout, and by `SpoutFigure`
    tasks: Sequence[TaskFigures]
    messages: Mapping[TaskKey, TaskMessages]  # by task of a rich spout
    transferred: Mapping[Edge, float]  # tuples
    store_ms: Mapping[str, Distribution]  # by operation: the time of each call
    phases_ms: Mapping[str, Distribution]  # by phase of a wave
    complete_ms: Mapping[str, Distribution]  # by rich spout: from the emit of a message to its ack


class RunFigures:
    """The figures of one run. Thread-safe."""

    def __init__(self, plan: ExecutionPlan, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with no wave; `clock` returns seconds, and does not go back."""
        now = clock()
        self._clock = clock
        self._began = now
        self._lock = threading.Lock()
        self._tasks = TaskTables(plan, now)
        self._waves = Windows((len(WaveFigure),), now)
        self._spouts = {spout: Windows((len(SpoutFigure),), now) for spout in plan.graph.spouts}
        self._messages = {task: Windows((len(TaskMessages._fields),), now) for task in plan.wiring.rich_spout_tasks}
        self._store = Latencies(STORE_OPERATIONS, now)
        self._phases = Latencies(PHASES, now)
        self._complete = Latencies(dict.fromkeys(spout for spout, _ in plan.wiring.rich_spout_tasks), now)
        self._registered = RegisteredMetrics({}, {})
        self._errors: dict[str, ReportedError] = {}
        self._timed_out = Counter[tuple[str, TaskKey]]()
        self._last: WaveReport | None = None
        self._last_at = now

    def add(self, report: WaveReport, tasks: Sequence[TaskReport]) -> None:
        """Add a committed wave, with the reports of its tasks."""
        store = defaultdict[str, Distribution](Distribution)
        for task in tasks:
            for operation, times in task.outcome.counters.store_ms.items():
                store[operation].merge(times)
        with self._lock:
            now = self._clock()
            self._tasks.add(tasks, now, report.tuples_left_out)
            self._waves.add(np.array([figure.source(report) for figure in WaveFigure], np.float64), now)
            for spout, windows in self._spouts.items():
                given = [getattr(report, figure.source).get(spout, 0) for figure in SpoutFigure]
                windows.add(np.array(given, np.float64), now)
            for key, windows in self._messages.items():
                windows.add(np.array(report.messages_by_task.get(key, TaskMessages()), np.float64), now)
            self._store.add(store, now)
            self._phases.add({phase: _one(getattr(report, f"{phase}_ms")) for phase in PHASES}, now)
            self._complete.add(report.complete_ms, now)
            self._registered.add(tasks)
            self._add_errors(tasks)
            self._timed_out.update(report.messages_timed_out)
            self._last, self._last_at = report, now

    def add_of_spout(self, report: TaskReport) -> None:
        """Add a report of a rich spout's task: its calls between waves, since the last report."""
        with self._lock:
            self._tasks.add([report], self._clock())
            self._registered.add([report])
            self._add_errors([report])

    def _add_errors(self, reports: Sequence[TaskReport]) -> None:
        for report in reports:
            before = self._errors.get(report.component)
            if report.error is not None and (before is None or before.at <= report.error.at):
                self._errors[report.component] = report.error

    def over(self, window: str = ALL_TIME) -> Figures:
        """Return the figures of a window, one of `WINDOWS` or `ALL_TIME`. Raises KeyError for another name."""
        with self._lock:
            now = self._clock()
            waves, seconds = self._waves.sums(window, now)
            return Figures(
                seconds=seconds,
                waves=waves.copy(),
                spouts={spout: each.sums(window, now)[0].copy() for spout, each in self._spouts.items()},
                tasks=self._tasks.tasks(window, now),
                messages={
                    task: TaskMessages(*each.sums(window, now)[0].tolist()) for task, each in self._messages.items()
                },
                transferred=self._tasks.transferred(window, now),
                store_ms=self._store.over(window, now),
                phases_ms=self._phases.over(window, now),
                complete_ms=self._complete.over(window, now),
            )

    def tasks_over(self, window: str) -> list[TaskFigures]:
        """Return the figures of tasks over a window. Raises KeyError for an unknown window."""
        with self._lock:
            return self._tasks.tasks(window, self._clock())

    @property
    def timed_out(self) -> Mapping[tuple[str, TaskKey], int]:
        """The number of messages that timed out, by spout and last task that held one of their tuples."""
        with self._lock:
            return self._timed_out.copy()

    @property
    def reported_errors(self) -> Mapping[str, ReportedError]:
        """The latest error of each component that has called `report_error`."""
        with self._lock:
            return self._errors.copy()

    @property
    def dead_letters(self) -> int:
        """The number of dead letters of all spouts."""
        with self._lock:
            return int(sum(each.all_time[SpoutFigure.DEAD_LETTERS] for each in self._spouts.values()))

    @property
    def age_s(self) -> float:
        """The seconds since the run began."""
        return self._clock() - self._began

    @property
    def registered(self) -> RegisteredMetrics:
        """The values of the metrics that components have registered."""
        with self._lock:
            return self._registered.copy()

    @property
    def last_wave(self) -> tuple[WaveReport | None, float]:
        """The latest committed wave and the seconds since; before the first, None and the seconds since the start."""
        with self._lock:
            return self._last, self._clock() - self._last_at


def _one(value: float) -> Distribution:
    distribution = Distribution()
    distribution.add(value)
    return distribution


class Latencies:
    """Distributions of times in ms, by kind. Not thread-safe."""

    def __init__(self, kinds: Iterable[str], now: float) -> None:
        self._rows = {kind: row for row, kind in enumerate(kinds)}
        self._windows = Windows((len(self._rows), _BUCKETS + 2), now)

    def add(self, found: Mapping[str, Distribution], now: float) -> None:
        """Add distributions by kind; unknown kinds are ignored."""
        table = np.zeros((len(self._rows), _BUCKETS + 2))
        for kind, distribution in found.items():
            if kind in self._rows:
                _write(table[self._rows[kind]], distribution)
        self._windows.add(table, now)

    def over(self, window: str, now: float) -> dict[str, Distribution]:
        """Return the distributions over a window, by kind. Raises KeyError for an unknown window."""
        sums, _ = self._windows.sums(window, now)
        return {kind: _read(sums[row]) for kind, row in self._rows.items()}


def _write(row: Numbers, distribution: Distribution) -> None:
    for bucket, count in distribution.buckets.items():
        row[bucket - LOWEST_BUCKET] += count
    row[_BUCKETS] += distribution.zeros
    row[_BUCKETS + 1] += distribution.total


def _read(row: Numbers) -> Distribution:
    counts = row[:_BUCKETS]
    buckets = {int(place) + LOWEST_BUCKET: int(counts[place]) for place in np.flatnonzero(counts)}
    return Distribution(buckets, int(row[_BUCKETS]), float(row[_BUCKETS + 1]))
