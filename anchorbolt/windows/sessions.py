"""Session windows by key, in a bolt's state: all open sessions of a key are one entry, with one timer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.timed.timers import Timer, TimerClock, Timers
from anchorbolt.windows.kinds import Aggregate, Session, Window, index_of

_MOST_OPEN = 100_000

_Kept = tuple[int, int, bool, bool, Any]
"""A session: its start, its end, whether it was closed before, whether it is open, and its value."""


class SessionWindows:
    """The sessions of one task."""

    def __init__(
        self,
        window: Session,
        aggregate: Aggregate,
        state: KeyValueState[Any, Any],
        timers: Timers[Any],
        clock: TimerClock,
        lateness_ms: int,
    ) -> None:
        self.part_ms = self._gap_ms = window.gap_ms  # tuples of one part of this length are in one session
        self._aggregate = aggregate
        self._state = state
        self._timers = timers
        self._clock = clock
        self._lateness_ms = lateness_ms
        # The sessions that this wave has used, ordered by start, and their key; by the index of the key.
        self._open: dict[Any, tuple[Any, list[_Kept]]] = {}

    def add(self, key: Any, at: int, tup: Any, last: int | None = None) -> None:
        """Add a tuple to the session that it belongs to, or begin one; it may join several.

        With `last`, add what the aggregate takes for several tuples at once: up to that time, without a gap.
        """
        index = index_of(key)
        if index not in self._open:
            self._open[index] = key, self._load(key)
        _, sessions = self._open[index]
        start, end = at, (at if last is None else last) + self._gap_ms
        first = last = 0  # the sessions from `first` up to, but not including, `last` are joined
        while last < len(sessions) and sessions[last][0] < end:
            last += 1
            if sessions[last - 1][1] <= start:
                first = last
        joined, was_closed = sessions[first:last], False
        value = joined[0][4] if joined else self._aggregate.create()
        for number, (from_, to, closed, _, part) in enumerate(joined):
            start, end, was_closed = min(start, from_), max(end, to), was_closed or closed
            if number:
                value = self._aggregate.merge(value, part)
        sessions[first:last] = [(start, end, was_closed, True, self._aggregate.add(value, tup))]
        present = self._timers.present(self._clock)
        if present is not None and end <= present:  # it was closed, and is closed again in this wave
            self._timers.set(key, at=end, clock=self._clock)
        if len(self._open) >= _MOST_OPEN:
            self.flush()

    def flush(self) -> None:
        """Put the sessions that have changed into the state."""
        for key, sessions in self._open.values():
            self._state.put(key, sessions)
            self._timers.set(key, at=self._next(sessions), clock=self._clock)
        self._open.clear()

    def close(self, timer: Timer) -> Iterator[tuple[Any, Window, Any]]:
        """Close the sessions of a key that have ended; yield the key, each window and its value.

        Call `flush` before.
        """
        key, present = timer.key, self._timers.present(self._clock)
        assert present is not None, "without a watermark no timer fires by it"
        kept: list[_Kept] = []
        for session in self._load(key):
            start, end, was_closed, is_open, value = session
            if is_open and end <= present:
                yield key, Window(start, end, was_closed), value
                session = start, end, True, False, value
            if session[3] or end + self._lateness_ms > present:
                kept.append(session)
        if kept:
            self._state.put(key, kept)
            self._timers.set(key, at=self._next(kept), clock=self._clock)
        else:
            self._state.delete(key)

    def prefetch(self, keys: Sequence[Any], times: Iterable[int]) -> None:
        """Read the sessions of these keys, in few round trips."""
        self._state.prefetch(keys)

    def keys_of_timer(self, timer: Timer) -> Iterator[Any]:
        """Yield the keys of the state that closing the sessions of a timer needs."""
        yield timer.key

    def _load(self, key: Any) -> list[_Kept]:
        return [tuple(session) for session in self._state.get(key, ())]

    def _next(self, sessions: list[_Kept]) -> int:
        """Return when the next session ends or can be forgotten."""
        return min(end if is_open else end + self._lateness_ms for _, end, _, is_open, _ in sessions)
