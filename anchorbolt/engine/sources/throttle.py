"""What holds the rich spouts back: since when, why, and for how much of the last ten minutes."""

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
    most: int | None  # that `topology.max.spout.pending` allows all its tasks; None without a limit
    held: int  # tasks that have as many messages in flight as the limit allows one


def loads_of(pending: Iterable[tuple[str, int]], most: int | None) -> list[SpoutLoad]:
    """Return the load of each spout; `pending` has for each task its spout and the messages that are in flight."""
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
    """What holds the rich spouts back at a moment."""

    reason: str  # of back pressure; empty if it does not hold the spouts
    by: TaskKey | None  # the bolt's task for which it does; None if no wave had shown yet how fast the bolts are
    seconds: float  # for how long it has held the spouts without a break; 0 if it does not
    window_seconds: float  # of the last ten minutes: for how long it held them
    total_seconds: float  # of the whole run
    spouts: Sequence[SpoutLoad]


class ThrottleTimes:
    """When the spouts were throttled. Not thread-safe; times are given, in seconds of a clock."""

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
        """Return for how long they have been throttled without a break; 0 if they are not."""
        return 0.0 if self._since is None else now - self._since

    def total(self, now: float) -> float:
        """Return for how long they were throttled altogether."""
        return self._ended_s + self.current(now)

    def in_window(self, now: float) -> float:
        """Return for how much of the last ten minutes they were throttled."""
        begin = now - WINDOW_S
        ended = sum(end - max(start, begin) for start, end in self._ended if end > begin)
        return ended + min(self.current(now), WINDOW_S)
