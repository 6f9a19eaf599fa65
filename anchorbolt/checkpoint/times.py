"""What the driver knows of the time of a bolt: its watermark, and when something is due next. Pure.

It is part of the decision record, so it is the same in a repeated round and after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from anchorbolt.state_backends.timed.entries import NOTHING_DUE, NextDue

InputStream = tuple[str, str]
"""A component and one of its streams."""


class EventTime(NamedTuple):
    """How a bolt's watermark follows the event times of its input."""

    streams: tuple[InputStream, ...]
    lag_ms: int
    idle_ms: int | None  # a stream without data for so long does not hold the watermark back; None for never
    # The bolts with timers whose tuples reach this one, also through others. While one of their tasks is behind with
    # its timers, the tuples that it has not emitted yet are older than those of the other tasks.
    upstream: frozenset[str] = frozenset()


class Latest(NamedTuple):
    """The largest event time of a stream."""

    event_time: int | None  # ms since 1970; None before the first
    clock: int  # of the wave that had data of the stream last, or of the first wave


@dataclass(frozen=True)
class BoltTimes:
    """The time of a bolt after a wave."""

    watermark: int | None = None  # ms since 1970
    due: NextDue = NOTHING_DUE
    waiting: int = 0  # about how many timers are set
    latest: Mapping[InputStream, Latest] = field(default_factory=dict)

    def after(self, clock: int, wave: TimesOfWave, event_time: EventTime | None, *, is_held: bool = False) -> BoltTimes:
        """Return the times after the next wave.

        Args:
            clock: The wave's.
            wave: What the bolt's tasks report of it.
            event_time: None for a bolt without event time.
            is_held: Whether the watermark stays where it is, because a bolt upstream is behind.
        """
        if event_time is None:
            return replace(self, due=wave.due, waiting=wave.waiting)
        seen = wave.seen
        latest = {}
        for stream in event_time.streams:
            before = self.latest.get(stream, Latest(None, clock))
            if stream in seen:
                known = seen[stream] if before.event_time is None else before.event_time
                before = Latest(max(seen[stream], known), clock)
            latest[stream] = before
        idle_ms = event_time.idle_ms
        active = [each.event_time for each in latest.values() if idle_ms is None or clock - each.clock < idle_ms]
        reached = None
        if not active:  # as if the last one that held the watermark back had become idle a little earlier
            reached = max((each.event_time for each in latest.values() if each.event_time is not None), default=None)
        elif None not in active:
            reached = min(each for each in active if each is not None)
        watermark = self.watermark
        if reached is not None and not is_held:
            reached -= event_time.lag_ms
            watermark = reached if watermark is None else max(watermark, reached)
        return BoltTimes(watermark, wave.due, wave.waiting, latest)

    @property
    def has_more_than_ttls(self) -> bool:
        """Whether the bolt has had timers or event time."""
        return replace(self, due=self.due._replace(expiry=None)) != BoltTimes()

    def is_due(self, clock: int, event_time: EventTime | None = None) -> bool:
        """Return whether a timer is due at this time of the wave's clock.

        With `event_time`, also whether a wave without tuples would make one due: if a stream has become idle.
        """
        if event_time is not None and event_time.idle_ms is not None:
            return self.after(clock, TimesOfWave(self.due), event_time).is_due(clock)
        return self.is_behind(TimesOfWave(self.due), clock)

    def is_behind(self, wave: TimesOfWave, clock: int) -> bool:
        """Return whether a wave after these times has left timers that were due in it."""
        at, by_event = wave.due.processing, wave.due.event
        return (at is not None and at <= clock) or (
            by_event is not None and self.watermark is not None and by_event <= self.watermark
        )

    def encode(self) -> list[Any]:
        latest = [[*stream, *each] for stream, each in self.latest.items()]
        return [self.watermark, list(self.due), self.waiting, latest]

    @classmethod
    def decode(cls, stored: Any) -> BoltTimes:
        """Decode the result of `encode`. Raises `ValueError` or `TypeError` if it is damaged."""
        watermark, due, waiting, latest = stored
        return cls(
            _number(watermark),
            NextDue(*map(_number, due)),
            int(waiting),
            {(str(name), str(stream)): Latest(_number(at), int(clock)) for name, stream, at, clock in latest},
        )


@dataclass(frozen=True)
class TimesOfWave:
    """What the tasks of a bolt report of one wave."""

    due: NextDue = NOTHING_DUE
    seen: Mapping[InputStream, int] = field(default_factory=dict)  # the largest event times
    waiting: int = 0  # about how many timers are set

    @classmethod
    def of_tasks(cls, tasks: Iterable[TimesOfWave]) -> TimesOfWave:
        """Return the report of all tasks together."""
        several = list(tasks)
        seen: dict[InputStream, int] = {}
        for each in several:
            for stream, latest in each.seen.items():
                seen[stream] = max(latest, seen.get(stream, latest))
        return cls(NextDue.earliest(each.due for each in several), seen, sum(each.waiting for each in several))


NO_TIMES = TimesOfWave()


def _number(stored: Any) -> int | None:
    return None if stored is None else int(stored)
