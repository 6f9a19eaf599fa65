"""Tumbling and sliding windows by key, in a bolt's state.

The value of a window is an entry under (key, start), and its end is a timer. If two values can be merged, a sliding
window has no value of its own: a tuple is added once, to its pane, and the window's panes are merged when it closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.timed.timers import Timer, TimerClock, Timers
from anchorbolt.windows.kinds import Aggregate, Tumbling, Window

if TYPE_CHECKING:
    from anchorbolt.streams.tuple import Tuple

_ABSENT: Any = object()
_MOST_OPEN = 100_000
_DROP = "drop"
_PANES, _CLOSED = "panes", "closed"


class AlignedWindows:
    """The windows of one task."""

    def __init__(
        self,
        window: Tumbling,
        aggregate: Aggregate,
        state: KeyValueState[Any, Any],
        timers: Timers[Any],
        clock: TimerClock,
        lateness_ms: int,
    ) -> None:
        self._window = window
        self._aggregate = aggregate
        self._state = state
        self._timers = timers
        self._clock = clock
        self._lateness_ms = lateness_ms
        self._has_panes = window.length_ms > window.every_ms and aggregate.can_merge
        self._pane_ms = window.pane_ms if self._has_panes else window.every_ms
        # The values that this wave has used, so that the state encodes each once. By (key, start).
        self._open: dict[tuple[Any, int], Any] = {}

    def add(self, key: Any, at: int, tup: Tuple) -> None:
        """Add a tuple to the windows that contain a point in time."""
        if self._has_panes or self._window.length_ms == self._pane_ms:
            starts: Iterable[int] = (at - at % self._pane_ms,)
        else:
            starts = self._window.starts(at)
        for start in starts:
            place = key, start
            value = self._open.get(place, _ABSENT)
            if value is _ABSENT:
                value = self._opened(place, at)
            self._open[place] = self._aggregate.add(value, tup)
        if len(self._open) >= _MOST_OPEN:
            self.flush()

    def flush(self) -> None:
        """Put the values that have changed into the state."""
        self._state.put_many(self._open)
        self._open.clear()

    def close(self, timer: Timer) -> Iterator[tuple[Any, Window, Any]]:
        """Close the window of a timer; yield its key, the window and its value. Call `flush` before."""
        place = key, start = timer.key
        window = self._window
        if timer.name == _DROP:
            self._drop(key, start)
            return
        if self._has_panes:
            panes = [value for pane in self._panes_of(start) if (value := self._value(key, pane)) is not _ABSENT]
            value = reduce(self._aggregate.merge, panes) if panes else _ABSENT
        else:
            value = self._value(key, start)
        if value is not _ABSENT:
            is_update = self._lateness_ms > 0 and self._state.get((key, start, _CLOSED)) is not None
            yield key, Window(start, start + window.length_ms, is_update), value
        if not self._lateness_ms:
            self._drop(key, start)
        else:
            self._state.put((key, start, _CLOSED), True)
            self._timers.set(place, at=start + window.length_ms + self._lateness_ms, name=_DROP, clock=self._clock)

    def keys_of(self, keys: Iterable[Any], times: Iterable[int]) -> Iterator[Any]:
        """Yield the keys of the state that tuples of these keys and times need."""
        pane = self._pane_ms
        if self._has_panes or self._window.length_ms == pane:
            for place in {(key, at - at % pane): None for key, at in zip(keys, times, strict=True)}:
                yield place
                if self._has_panes:
                    yield place[0], _PANES
        else:
            starts = self._window.starts
            yield from {(key, start): None for key, at in zip(keys, times, strict=True) for start in starts(at)}

    def keys_of_timer(self, timer: Timer) -> Iterator[Any]:
        """Yield the keys of the state that closing the window of a timer needs."""
        key, start = timer.key
        if self._lateness_ms:
            yield key, start, _CLOSED
        if self._has_panes:
            yield key, _PANES
            for pane in self._panes_of(start):
                yield key, pane
        else:
            yield key, start

    def _opened(self, place: tuple[Any, int], at: int) -> Any:
        """Return the value of a window or pane, which this wave has not used yet. Set the timers of its windows."""
        key, start = place
        value = self._state.get(place, _ABSENT)
        is_new = value is _ABSENT
        starts: Iterable[int] = (start,)
        if self._has_panes:
            starts = self._window.starts(start)
            if is_new:
                panes = self._state.get((key, _PANES), [])
                self._state.put((key, _PANES), [*panes, start])
                covered = {each for pane in panes for each in self._window.starts(pane)}
                self._set_timers(key, (each for each in starts if each not in covered))
        elif is_new:
            self._set_timers(key, starts)
        present = self._timers.watermark if self._clock == "event" else None
        if present is not None and at < present:  # late: windows that were closed are closed again
            self._set_timers(key, (each for each in starts if each + self._window.length_ms <= present))
        return self._aggregate.create() if is_new else value

    def _set_timers(self, key: Any, starts: Iterable[int]) -> None:
        for start in starts:
            self._timers.set((key, start), at=start + self._window.length_ms, clock=self._clock)

    def _value(self, key: Any, start: int) -> Any:
        return self._state.get((key, start), _ABSENT)

    def _panes_of(self, start: int) -> range:
        return range(start, start + self._window.length_ms, self._pane_ms)

    def _drop(self, key: Any, start: int) -> None:
        """Delete a closed window, and the panes that no later window has."""
        state = self._state
        if self._lateness_ms:
            state.delete((key, start, _CLOSED))
        if not self._has_panes:
            state.delete((key, start))
            return
        gone = range(start, start + self._window.every_ms, self._pane_ms)
        panes = state.get((key, _PANES), [])
        kept = [pane for pane in panes if pane not in gone]
        if len(kept) < len(panes):
            state.delete_many([(key, pane) for pane in panes if pane in gone])
            if kept:
                state.put((key, _PANES), kept)
            else:
                state.delete((key, _PANES))
