"""Keys and bytes of each task's committed state, and their growth in the last hour. Callers pass the times."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from anchorbolt.checkpoint.ports import TaskKey

_KEPT_S = 3600.0
_MOST_POINTS = 300  # of a component


class Size(NamedTuple):
    """The size of a state; None if its store does not report it."""

    keys: int | None
    bytes: int | None  # roughly, in the store's memory or on disk


class Point(NamedTuple):
    """The size of all tasks of a component together, some time ago."""

    age_s: float
    size: Size


@dataclass(frozen=True)
class MeasuredSizes:
    """The sizes at one moment."""

    age_s: float | None  # of the latest measurement; None before the first one
    tasks: Mapping[TaskKey, Size]  # the latest
    history: Mapping[str, Sequence[Point]]  # by component, oldest first, of the last hour

    def grown(self, component: str, seconds: float) -> Point | None:
        """Return a component's growth, and over how many seconds: `seconds`, or fewer early in a run.

        None before the second measurement.
        """
        points = self.history.get(component, ())
        if len(points) < 2:
            return None
        latest = points[-1]
        before = next((each for each in reversed(points) if each.age_s - latest.age_s >= seconds), points[0])
        return Point(before.age_s - latest.age_s, Size(*map(_difference, latest.size, before.size)))


class StateSizes:
    """The sizes of one run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at: float | None = None
        self._tasks: Mapping[TaskKey, Size] = {}
        self._history: defaultdict[str, deque[tuple[float, Size]]] = defaultdict(lambda: deque(maxlen=_MOST_POINTS))

    def add(self, tasks: Mapping[TaskKey, Size], at: float) -> None:
        """Add a measurement of all tasks that ended at `at`."""
        by_component: defaultdict[str, list[Size]] = defaultdict(list)
        for (component, _), size in tasks.items():
            by_component[component].append(size)
        with self._lock:
            self._at, self._tasks = at, dict(tasks)
            for component, sizes in by_component.items():
                points = self._history[component]
                points.append((at, total(sizes)))
                while points[0][0] < at - _KEPT_S:
                    points.popleft()

    def measured(self, now: float) -> MeasuredSizes:
        """Return the latest sizes and the last hour's, with their ages at `now`."""
        with self._lock:
            history = {
                component: [Point(now - at, size) for at, size in points] for component, points in self._history.items()
            }
            return MeasuredSizes(None if self._at is None else now - self._at, self._tasks, history)


def total(sizes: Iterable[Size]) -> Size:
    """Return the sum; None if any of the numbers is None."""
    keys, size_bytes = zip(*sizes, strict=True)
    return Size(_sum(keys), _sum(size_bytes))


def _sum(numbers: Iterable[int | None]) -> int | None:
    found = list(numbers)
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None


def _difference(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before
