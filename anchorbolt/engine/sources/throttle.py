"""The throttling of rich spouts: since when, why, and for how much of the last ten minutes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from anchorbolt.checkpoint.ports import TaskKey

WINDOW_S = 600.0
_MOST_TIMES = 10_000


class SpoutLoad(NamedTuple):
    """The messages of one rich spout."""

    spout: str  # its id
    in_flight: int  # messages of all its tasks
    most: int | None  # messages that `topology.max.spout.pending` allows all its tasks; None without a limit
    held: int  # number of tasks at the limit for one task


def loads_of(pending: Iterable[tuple[str, int]], most: int | None) -> list[SpoutLoad]:
    """Return the load of each spout; `pending` is (spout, number of messages in flight) for each task."""
    by_spout: dict[str, list[int]] = {}
    for spout, number in pending:
        by_spout.setdefault(spout, []).append(number)
    if most is None:
        return [SpoutLoad(spout, sum(numbers), None, 0) for spout, numbers in by_spout.items()]
    return [
        SpoutLoad(spout, sum(numbers), most * len(numbers), sum(number >= most for number in numbers))
        for spout, numbers in by_spout.items()
    ]


@dataclass(frozen=True)
class Throttle:
    """The throttling of rich spouts at one moment."""

    reason: str  # of back pressure; empty if it does not throttle
    by: TaskKey | None  # the bolt's task that is too slow; None if no wave had measured the bolts yet
    seconds: float  # since the spouts are throttled without a break; 0 if they are not
    window_seconds: float  # throttled, of the last ten minutes
    total_seconds: float  # throttled, of the whole run
    spouts: Sequence[SpoutLoad]


class ThrottleTimes:
    """When the spouts were throttled. Not thread-safe; times are in seconds of the caller's clock."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._ended: deque[tuple[float, float]] = deque(maxlen=_MOST_TIMES)
        self._ended_s = 0.0

    def change(self, now: float, *, throttled: bool) -> None:
        """Note whether the spouts are throttled from now on."""
        if throttled and self._since is None:
            self._since = now
        elif not throttled and self._since is not None:
            self._ended.append((self._since, now))
            self._ended_s += now - self._since
            self._since = None
            while self._ended[0][1] < now - WINDOW_S:
                self._ended.popleft()

    def current(self, now: float) -> float:
        """Return the seconds since the spouts are throttled without a break; 0 if they are not."""
        return 0.0 if self._since is None else now - self._since

    def total(self, now: float) -> float:
        """Return the seconds for which they were throttled in total."""
        return self._ended_s + self.current(now)

    def in_window(self, now: float) -> float:
        """Return the seconds of the last ten minutes in which they were throttled."""
        begin = now - WINDOW_S
        ended = sum(end - max(start, begin) for start, end in self._ended if end > begin)
        return ended + min(self.current(now), WINDOW_S)
