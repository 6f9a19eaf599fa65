"""Automatic back pressure: stops the rich spouts while more tuples wait than the slowest bolt task can take.

As in Storm 1.0, it needs no acks. Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.config.settings import Settings
from anchorbolt.engine.sources.throttle import SpoutLoad, Throttle, ThrottleTimes

_FIRST_TUPLES = 1000
"""The limit of waiting tuples until a wave has measured the bolts: the first waves must not last for minutes."""

_WEIGHT = 0.5  # of the latest wave in the moving averages

_TIMES_OVERHEAD = 20
_LONGEST_MS = 3000.0
"""The interval is extended to 20 times a wave's overhead (its time without the slowest task), but to 3 s at most: in
waves of 100 ms with 80 ms of overhead in Spark, the slowest bolt would run at a fifth of its speed."""


@dataclass(frozen=True)
class WaveLoad:
    """The load of a committed wave."""

    taken_in: float  # tuples of all spouts
    slowest: TaskKey  # the bolt's task that executed longest
    execute_ms: float  # how long it executed
    wave_ms: float  # how long the wave took

    def shared(self, shares: int) -> WaveLoad:
        """Return the load of one of so many equal parts of the spouts."""
        return replace(self, taken_in=self.taken_in / shares)


class FlowControl:
    """Throttles the spouts from the high watermark until the low watermark.

    Compares the number of waiting tuples with the number that the slowest task processes in an interval, a moving
    average over the waves. So a bolt counts as slow as its slowest task.
    """

    def __init__(
        self, interval_ms: float, high: float, low: float, *, enabled: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._least_ms = self._interval_ms = interval_ms
        self._high, self._low = high, low
        self._enabled = enabled
        self._clock = clock
        self._times = ThrottleTimes()
        self._lock = threading.Lock()
        self._waiting = 0
        self._per_ms: float | None = None  # tuples; None before the first wave
        self._overhead_ms = 0.0  # of a wave
        self._slowest: TaskKey | None = None
        self.last: WaveLoad | None = None
        self.is_throttled = False
        self.reason = ""  # of the last throttling
        self.throttled_by: TaskKey | None = None  # at the last throttling; None if no wave had measured the bolts yet

    @classmethod
    def of(cls, settings: Settings) -> FlowControl:
        """Return the back pressure of a run."""
        return cls(
            settings.checkpoint_interval_ms,
            settings.backpressure_high,
            settings.backpressure_low,
            enabled=settings.backpressure,
        )

    def add(self, tuples: int) -> None:
        """Note that a spout has emitted these tuples for the next wave."""
        with self._lock:
            self._waiting += tuples
            self._judge()

    def take(self, tuples: int) -> None:
        """Note that a wave has taken in these tuples."""
        with self._lock:
            self._waiting -= tuples
            self._judge()

    def measure(self, load: WaveLoad) -> None:
        """Take the load of a wave."""
        self.last = load
        if load.taken_in and load.execute_ms > 0:
            with self._lock:
                per_ms, overhead_ms = load.taken_in / load.execute_ms, load.wave_ms - load.execute_ms
                is_first = self._per_ms is None
                self._per_ms = per_ms if self._per_ms is None else _averaged(self._per_ms, per_ms)
                self._overhead_ms = overhead_ms if is_first else _averaged(self._overhead_ms, overhead_ms)
                self._interval_ms = max(self._least_ms, min(self._overhead_ms * _TIMES_OVERHEAD, _LONGEST_MS))
                self._slowest = load.slowest
                self._judge()

    def throttle(self, spouts: Sequence[SpoutLoad]) -> Throttle:
        """Return the current throttling, with the load of each spout."""
        with self._lock:
            now, times = self._clock(), self._times
            return Throttle(
                reason=self.reason if self.is_throttled else "",
                by=self.throttled_by if self.is_throttled else None,
                seconds=times.current(now),
                window_seconds=times.in_window(now),
                total_seconds=times.total(now),
                spouts=spouts,
            )

    def _judge(self) -> None:
        was_throttled = self.is_throttled
        self._decide()
        if self.is_throttled != was_throttled:
            self._times.change(self._clock(), throttled=self.is_throttled)

    def _decide(self) -> None:
        capacity = None if self._per_ms is None else self._per_ms * self._interval_ms
        if not self._enabled or self._waiting <= 0:
            self.is_throttled = False  # while nothing waits, no wave would come to end the throttling
        elif self._waiting >= (_FIRST_TUPLES if capacity is None else self._high * capacity):
            if not self.is_throttled:
                self.throttled_by = self._slowest
                self.reason = f"{self._waiting:,} tuples waited, {self._compared(capacity)}"
            self.is_throttled = True
        elif capacity is not None and self._waiting <= self._low * capacity:
            self.is_throttled = False

    def _compared(self, capacity: float | None) -> str:
        if capacity is None or self._slowest is None:
            return "and no wave has shown yet how fast the bolts are"
        component, index = self._slowest
        return f"and {component!r}, task {index}, processes {capacity:,.0f} in {self._interval_ms:,.0f} ms"


def _averaged(before: float, now: float) -> float:
    return before + _WEIGHT * (now - before)
