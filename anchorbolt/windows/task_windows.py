"""`TaskWindows`: the windows over all tuples of a task, and where each begins and ends. The state holds all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from anchorbolt.bolts.collector import Untracked
from anchorbolt.errors import StateError
from anchorbolt.streams.tuple import StreamHeader, Tuple
from anchorbolt.util.times import LATEST_MS, to_datetime
from anchorbolt.windows.pages import FINEST_MS, Kept, PageStore, Source, TupleLog, WaitingTuples

_WINDOWS_PER_CALL = 1000
_PROGRESS = "progress"


@dataclass(frozen=True)
class WindowSize:
    """The length of windows and the interval between them, each by count or by time."""

    length_count: int | None = None
    length_ms: int | None = None
    every_count: int | None = None
    every_ms: int | None = None


class WindowTuples:
    """Some tuples of a window: `len`, and iteration, which reads the state page by page.

    Each iteration begins again. Valid only in the call of `execute` that got the window.
    """

    def __init__(self, window: TupleWindow, log: TupleLog, start: int, end: int) -> None:
        """Made by the engine."""
        self._window = window
        self._log = log
        self._start = start
        self._end = max(start, end)

    def __len__(self) -> int:
        return self._end - self._start

    def __iter__(self) -> Iterator[Tuple]:
        for tup in self._log.tuples(self._start, self._end):
            if self._window.is_over:
                raise StateError(
                    "the tuples of a window were read after `execute` had returned. Read them in `execute`, or keep a "
                    "list of those that you need."
                )
            yield tup


class TupleWindow(Untracked):
    """The tuples of one window of a task. A window bolt gets it in `execute`; pass it as `anchors=window` of an emit.

    Attributes:
        start_timestamp: Where it begins, in ms since 1970; None for a window whose length is a count.
        end_timestamp: Where it ends, in ms since 1970; for a window every so many tuples, the time of the last one.
    """

    def __init__(
        self, log: TupleLog, positions: tuple[int, int, int, int], start_timestamp: int | None, end_timestamp: int
    ) -> None:
        """Made by the engine."""
        expired, start, new, end = positions
        self._tuples = WindowTuples(self, log, start, end)
        self._new = WindowTuples(self, log, max(start, new), end)
        self._expired = WindowTuples(self, log, expired, start)
        self.start_timestamp = start_timestamp
        self.end_timestamp = end_timestamp
        self.is_over = False  # set by the engine after `execute`

    def get(self) -> WindowTuples:
        """Return the tuples of the window, in the order of their times, those of one time in the order of arrival."""
        return self._tuples

    def get_new(self) -> WindowTuples:
        """Return the tuples of this window that the last window did not have."""
        return self._new

    def get_expired(self) -> WindowTuples:
        """Return the tuples before this window that have left since the last one, also those that were in none."""
        return self._expired

    @property
    def start_time(self) -> datetime | None:
        """`start_timestamp` as a datetime in UTC."""
        return None if self.start_timestamp is None else to_datetime(self.start_timestamp)

    @property
    def end_time(self) -> datetime:
        """`end_timestamp` as a datetime in UTC."""
        return to_datetime(self.end_timestamp)

    def __repr__(self) -> str:
        return f"TupleWindow({len(self._tuples)} tuples, {self.start_timestamp} to {self.end_timestamp})"


class TaskWindows:
    """The tuples of one task and its windows.

    The log orders the tuples by time, so each window is a range of positions, and both ends only move forward. By
    event time, tuples wait until the watermark has passed them; without, they are in order when they arrive.

    Times in here are such that a window has the times in [start, end). Storm's windows by event time have those in
    (start, end], so for these all times are one less.
    """

    def __init__(self, size: WindowSize, store: PageStore, *, by_event_time: bool) -> None:
        self._size = size
        self._store = store
        self._shift = 1 if by_event_time else 0
        self._by_event_time = by_event_time
        self._start: int
        self._end: int
        self._next_end: int | None  # the end of the next window by time; None if there are no tuples for one
        self._saved: Any = store.load(_PROGRESS)
        was_by_event_time, first, size_of_log, number, self._start, self._end, self._next_end, reference, waiting = (
            self._saved or [by_event_time, 0, 0, 0, 0, 0, None, None, []]
        )
        if was_by_event_time != by_event_time:
            kept, now = ("by event time", "no") if was_by_event_time else ("by the time of their arrival", "a")
            raise StateError(
                f"the tuples in the state were kept {kept}, and the bolt has {now} timestamp field now. Change it "
                "back, or give the bolt another id: its windows then begin without these tuples."
            )
        self._log = TupleLog(store, first, size_of_log)
        self._number = number
        self._header: StreamHeader | None = None  # of the last tuple
        self._source: Source = "", 0, "", ()
        self._waiting = WaitingTuples(store, waiting, reference)
        self._released: int | None = None
        if size.every_ms is not None and self._saved is not None:
            self._align(size.every_ms)

    @property
    def next_due(self) -> int | None:
        """When something must be done next: a time of the clock, or of the watermark. None for nothing."""
        if self._size.every_ms is not None:
            return None if self._next_end is None else self._next_end + self._shift
        earliest = self._waiting.earliest
        return None if earliest is None else earliest + self._shift + 1

    def add(self, time: int, tup: Tuple) -> None:
        """Keep a tuple; `time` is its event time, or the clock."""
        if tup._header is not self._header:  # most tuples come from the source of the tuple before
            self._header = tup._header
            self._source = tup.source_component, tup.source_task, tup.source_stream, tup.fields
        kept = Kept(time - self._shift, self._number, self._source, tup.values)
        self._number += 1
        if self._by_event_time:
            self._waiting.add(kept)
        else:
            self._log.append(kept)
        if self._size.every_ms is not None:
            self._note_end(kept.at)

    def release(self, watermark: int, *, exactly: bool = True) -> None:
        """Put the tuples that the watermark has passed in order; unless `exactly`, those of whole buckets only."""
        until = watermark - self._shift
        if not exactly:
            until -= until % FINEST_MS
        if self._released is None or until > self._released:
            self._released = until
            for kept in self._waiting.release(until):
                self._log.append(kept)

    def fire_counted(self, execute: Callable[[TupleWindow], None]) -> int:
        """Call `execute` for each window that ends at a number of tuples. Return how many there were."""
        every, fired = self._size.every_count, 0
        while every is not None and self._end + every <= self._log.size:
            end = self._end + every
            last = self._log.at(end - 1)
            self._fire(self._start_of(end, last + 1), end, last + self._shift, execute)
            fired += 1
        return fired

    def fire_timed(self, until: int, execute: Callable[[TupleWindow], None]) -> int:
        """Call `execute` for each window that ends up to a time of the clock or of the watermark, at most 1,000.

        Windows without tuples are left out. Returns how many windows there were.
        """
        every, fired, log = self._size.every_ms, 0, self._log
        if every is None:
            return 0
        while self._next_end is not None and self._next_end <= until - self._shift and fired < _WINDOWS_PER_CALL:
            time = self._next_end
            end = log.first_from(self._end, time)
            start = self._start_of(end, time)
            if start < end:
                self._fire(start, end, time, execute)
                fired += 1
            else:
                self._start, self._end = start, end
            self._next_end = None
            has_next = start < end
            if self._size.length_ms is not None:
                has_next = has_next and log.at(end - 1) >= time + every - self._size.length_ms
            elif until >= LATEST_MS:  # the windows are closed: a count of tuples never leaves its window by itself
                has_next = False
            if has_next:
                self._next_end = time + every
            elif end < log.size:
                self._note_end(log.at(end))
            elif (earliest := self._waiting.earliest) is not None:
                self._note_end(earliest)
        return fired

    def save(self) -> None:
        """Put what has changed into the state."""
        self._log.save()
        self._waiting.save()
        log, waiting = self._log, self._waiting
        positions = [log.first, log.size, self._number, self._start, self._end]
        progress = [self._by_event_time, *positions, self._next_end, waiting.reference, waiting.encode()]
        if progress != self._saved:
            self._store.save(progress, _PROGRESS)
            self._saved = progress

    def _align(self, every: int) -> None:
        """Note the end of the next window, which a bolt with another window may have left."""
        if self._next_end is not None:
            self._next_end += -self._next_end % every
        elif self._end < self._log.size:
            self._note_end(self._log.at(self._end))
        elif (earliest := self._waiting.earliest) is not None:
            self._note_end(earliest)

    def _note_end(self, at: int) -> None:
        """Note the end of the first window that may have a tuple."""
        every = self._size.every_ms
        assert every is not None
        end = at - at % every + every
        if self._next_end is None or end < self._next_end:
            self._next_end = end

    def _start_of(self, end: int, time: int) -> int:
        """Return the position at which a window begins that ends at a position and a time."""
        if self._size.length_count is not None:
            return max(self._start, end - self._size.length_count)
        assert self._size.length_ms is not None
        return min(end, self._log.first_from(self._start, time - self._size.length_ms))

    def _fire(self, start: int, end: int, time: int, execute: Callable[[TupleWindow], None]) -> None:
        length_ms = self._size.length_ms
        positions = self._log.first, start, self._end, end
        window = TupleWindow(self._log, positions, None if length_ms is None else time - length_ms, time)
        execute(window)
        window.is_over = True
        self._log.drop_before(start)
        self._start, self._end = start, end
