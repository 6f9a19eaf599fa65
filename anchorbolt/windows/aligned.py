"""Tumbling and sliding windows by key, in a bolt's state.

The value of a window is an entry under (key, start), and its end is a timer. If two values can be merged, a sliding
window has no value of its own: a tuple is added once, to its pane, and the window's panes are merged when it closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.timed.timers import Timer, TimerClock, Timers
from anchorbolt.windows.kinds import Aggregate, Tumbling, Window, index_of

_Place = tuple[Any, int]
"""A key, and the start of a window or a pane: the key in the state."""

_Index = tuple[Any, int]
"""The same with the `index_of` the key."""

_ABSENT: Any = object()
_NEW: Any = object()
"""In place of a value that the state does not have."""

_MOST_OPEN = 100_000
_DROP = "drop"
_CLOSED = "closed"


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
        # Tuples of one part of this length are in the same windows.
        self.part_ms = window.pane_ms if self._has_panes else window.every_ms
        self._is_single = self._has_panes or window.length_ms == window.every_ms  # a tuple has one value to change
        # The values that this wave has used, and their keys in the state and in its cache, so that each is encoded
        # once. By the index of the key and the start.
        self._open: dict[_Index, Any] = {}
        self._entries: dict[_Index, tuple[_Place, Any]] = {}

    def prefetch(self, keys: Sequence[Any], times: Iterable[int]) -> None:
        """Read the values of the windows or panes of tuples with these keys and times, in few round trips."""
        if len(self._open) >= _MOST_OPEN:
            self.flush()
        pane, opened, starts = self.part_ms, self._open, self._window.starts
        indices = keys if set(map(type, keys)) == {str} else list(map(index_of, keys))
        tuples = zip(indices, keys, times, strict=True)
        if self._is_single:
            needed = {(index, at - at % pane): key for index, key, at in tuples}
        else:
            needed = {(index, start): key for index, key, at in tuples for start in starts(at)}
        new = [index for index in needed if index not in opened]
        self._read(new, [(needed[index], index[1]) for index in new])
        if self._has_panes:  # to know which windows have timers, see `_begin`
            before = [(needed[index], index[1] - pane) for index in new if opened[index] is _NEW]
            self._state.open_entries(before, None)

    def add(self, key: Any, at: int, tup: Any) -> None:
        """Add a tuple, or what else the aggregate takes, to the windows that contain a point in time."""
        opened, add, present = self._open, self._aggregate.add, self._timers.watermark
        index_of_key = key if type(key) is str else index_of(key)
        for start in (at - at % self.part_ms,) if self._is_single else self._window.starts(at):
            index = index_of_key, start
            value = opened.get(index, _ABSENT)
            if value is _ABSENT:
                self._read([index], [(key, start)])
                value = opened[index]
            opened[index] = add(self._begin(key, start) if value is _NEW else value, tup)
            if present is not None and start + self.part_ms <= present:
                self._reopen(key, start, present)

    def flush(self) -> None:
        """Put the values that have changed into the state."""
        changed = [index for index, value in self._open.items() if value is not _NEW]
        if changed:
            places, cache_keys = zip(*map(self._entries.__getitem__, changed), strict=True)
            self._state.put_entries(list(places), list(cache_keys), list(map(self._open.__getitem__, changed)))
        self._open.clear()
        self._entries.clear()

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

    def keys_of_timer(self, timer: Timer) -> Iterator[Any]:
        """Yield the keys of the state that closing the window of a timer needs."""
        key, start = timer.key
        if self._lateness_ms:
            yield key, start, _CLOSED
        if self._has_panes:
            for pane in self._panes_of(start):
                yield key, pane
        else:
            yield key, start

    def _read(self, indices: list[_Index], places: list[_Place]) -> None:
        cache_keys, values = self._state.open_entries(places, _NEW)
        self._entries.update(zip(indices, zip(places, cache_keys, strict=True), strict=True))
        self._open.update(zip(indices, values, strict=True))

    def _begin(self, key: Any, start: int) -> Any:
        """Return the value of a new window or pane; set the timers of its windows."""
        starts: Iterable[int] = (start,)
        if self._has_panes:
            starts = self._window.starts(start)
            if self._value(key, start - self.part_ms) is not _ABSENT:  # its windows have their timers
                known = self._window.starts(start - self.part_ms)
                starts = [each for each in starts if each not in known]
        self._set_timers(key, starts)
        return self._aggregate.create()

    def _reopen(self, key: Any, start: int, present: int) -> None:
        """Let windows that were closed be closed again, because of a late tuple."""
        starts: Iterable[int] = self._window.starts(start) if self._has_panes else (start,)
        self._set_timers(key, (each for each in starts if each + self._window.length_ms <= present))

    def _set_timers(self, key: Any, starts: Iterable[int]) -> None:
        for start in starts:
            self._timers.set((key, start), at=start + self._window.length_ms, clock=self._clock)

    def _value(self, key: Any, start: int) -> Any:
        return self._state.get((key, start), _ABSENT)

    def _panes_of(self, start: int) -> range:
        return range(start, start + self._window.length_ms, self.part_ms)

    def _drop(self, key: Any, start: int) -> None:
        """Delete a closed window, and the panes that no later window has."""
        state = self._state
        if self._lateness_ms:
            state.delete((key, start, _CLOSED))
        if not self._has_panes:
            state.delete((key, start))
            return
        for pane in range(start, start + self._window.every_ms, self.part_ms):
            state.delete((key, pane))
