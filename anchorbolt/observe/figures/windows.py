"""Sums over Storm's windows: the last 10 minutes, 3 hours and day, and the whole run. Pure; callers pass times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

ALL_TIME = ":all-time"
TEN_MINUTES = "600"
WINDOWS: Mapping[str, float] = {TEN_MINUTES: 600.0, "10800": 10_800.0, "86400": 86_400.0}
"""The seconds of each window, by Storm's name. `ALL_TIME` is one more window."""

_PARTS = 20  # per window: the sums cover 19 to 20 twentieths of its length


class Windows:
    """Sums of a table of numbers, such as one row for each task. Memory: 62 such tables, however long the run."""

    def __init__(self, shape: tuple[int, ...], now: float) -> None:
        """Begin at the time `now`, in seconds of any clock that does not go back."""
        self._began = now
        self.all_time: Numbers = np.zeros(shape)
        self._rings = {name: _Ring(shape, seconds, now) for name, seconds in WINDOWS.items()}

    def add(self, numbers: Numbers, now: float) -> None:
        """Add a table of numbers. `now` is never earlier than in the call before."""
        self.all_time += numbers
        for ring in self._rings.values():
            ring.add(numbers, now)

    def sums(self, window: str, now: float) -> tuple[Numbers, float]:
        """Return the sums over a window, and the seconds that they cover: fewer than the window's early in a run.

        Raises:
            KeyError: No window has this name.
        """
        since = max(now - self._began, 1e-9)
        if window == ALL_TIME:
            return self.all_time, since
        return self._rings[window].sums(now), min(since, WINDOWS[window])


class _Ring:
    """The parts of one window. A part older than the window is cleared when its slot is reused."""

    def __init__(self, shape: tuple[int, ...], seconds: float, now: float) -> None:
        self._part_s = seconds / _PARTS
        self._parts: Any = np.zeros((_PARTS, *shape))
        self._latest = int(now / self._part_s)

    def add(self, numbers: Numbers, now: float) -> None:
        self._move_to(now)
        self._parts[self._latest % _PARTS] += numbers

    def sums(self, now: float) -> Numbers:
        self._move_to(now)
        total: Numbers = self._parts.sum(axis=0)
        return total

    def _move_to(self, now: float) -> None:
        part = int(now / self._part_s)
        for passed in range(max(self._latest + 1, part - _PARTS + 1), part + 1):
            self._parts[passed % _PARTS] = 0
        self._latest = max(self._latest, part)
