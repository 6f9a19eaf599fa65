"""Pages of tuples in a task's state: `TupleLog`, in order, and `WaitingTuples`, until the watermark passes them."""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from anchorbolt.errors import SerializationError, StateCorrupted, StateError, UnsupportedValue
from anchorbolt.serialization.msgpack_values import pack, unpack
from anchorbolt.state_backends.contract import START_OVER
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.streams.tuple import StreamHeader, Tuple
from anchorbolt.util.times import NEVER, bucket_width

RESERVED = "anchorbolt.window/"
"""How the keys of a window's own entries begin. They are text, which each codec of keys takes."""

PAGE_TUPLES = 128

FINEST_MS = 1024
"""The width of the finest buckets of tuples that wait."""

PART_BYTES = 1 << 20
"""The most bytes of an entry. Some stores take no more than 2 MB, so a larger page is stored in parts."""

_LONGEST_NUMBER = 12  # of the number of parts, as text
_KEPT_PAGES = 4

Source = tuple[str, int, str, tuple[str, ...]]
"""Component, task, stream and fields of a tuple."""


class Kept(NamedTuple):
    """A tuple as it is stored."""

    at: int  # the time that decides on its window
    number: int  # in the order of arrival
    source: Source
    values: tuple[Any, ...]


class PageStore:
    """The reserved entries of a task's state."""

    def __init__(self, state: KeyValueState[Any, Any], *, has_ttl: bool) -> None:
        """Create it; `has_ttl` tells whether entries of the state expire by default. Those of windows never do."""
        self._state = state
        self._ttl = NEVER if has_ttl else None
        self.reads = 0  # pages read from the state, for tests

    def load(self, *name: Any) -> Any:
        """Return the value that was saved under a name, or None."""
        stored = self._state.get(_key(name))
        try:
            value = None if stored is None else unpack(_bytes(stored))
            if type(value) is not int:
                return value
            keys = _part_keys(name, value)
            self._state.prefetch(keys)
            return unpack(b"".join([_bytes(self._state.get(key)) for key in keys]))
        except (SerializationError, TypeError, ValueError) as error:
            raise StateCorrupted(f"the entry {name!r} of a window cannot be decoded: {error}. {START_OVER}.") from error

    def save(self, value: list[Any], *name: Any) -> None:
        """Save a value under a name. If it is large, the entry of that name has the number of parts instead."""
        data = pack(value)
        if len(data) > PART_BYTES:
            parts = [data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES)]
            for key, part in zip(_part_keys(name, len(parts)), parts, strict=True):
                self._put(key, part)
            data = pack(len(parts))
        self._put(_key(name), data)

    def delete(self, *name: Any) -> None:
        stored = self._state.get(_key(name))
        if stored is not None and len(stored) <= _LONGEST_NUMBER and type(parts := unpack(_bytes(stored))) is int:
            for key in _part_keys(name, parts):
                self._state.delete(key)
        self._state.delete(_key(name))

    def _put(self, key: str, data: bytes) -> None:
        try:
            self._state.put(key, data, ttl=self._ttl)
        except UnsupportedValue:  # the JSON codec has no bytes
            self._state.put(key, base64.b64encode(data).decode(), ttl=self._ttl)

    def load_page(self, *name: Any) -> list[Kept]:
        """Return the tuples of a page, or an empty list if the page does not exist."""
        self.reads += 1
        stored = self.load(*name)
        if stored is None:
            return []
        sources = [(component, task, stream, tuple(fields)) for component, task, stream, fields in stored[0]]
        return [
            Kept(at, number, sources[source], tuple(values))
            for at, number, source, values in zip(*stored[1:], strict=True)
        ]

    def save_page(self, page: list[Kept], *name: Any) -> None:
        sources = {source: place for place, source in enumerate(dict.fromkeys(kept.source for kept in page))}
        columns = [[kept.at for kept in page], [kept.number for kept in page], [sources[kept.source] for kept in page]]
        self.save([[list(source) for source in sources], *columns, [list(kept.values) for kept in page]], *name)


class TupleLog:
    """Tuples in pages, by position. Times never decrease with the position."""

    def __init__(self, store: PageStore, first: int, size: int) -> None:
        """Create it; `first` is the first position that is kept, `size` the position of the next tuple."""
        self._store = store
        self.first = first
        self.size = size
        self._headers: dict[Source, StreamHeader] = {}
        self._kept: OrderedDict[int, list[Kept]] = OrderedDict()  # the pages that were used last, but for the tail
        self._tail: list[Kept] | None = None  # None until it is read
        self._is_changed = False

    def append(self, kept: Kept) -> None:
        tail = self._tail_page()
        tail.append(kept)
        self.size += 1
        self._is_changed = True
        if len(tail) == PAGE_TUPLES:
            self.save()
            self._keep(self.size // PAGE_TUPLES - 1, tail)
            self._tail = []

    def save(self) -> None:
        """Put the tail into the state."""
        if self._is_changed and self._tail is not None:
            self._store.save_page(self._tail, "page", (self.size - 1) // PAGE_TUPLES)
        self._is_changed = False

    def at(self, position: int) -> int:
        """Return the time of the tuple at a position that is kept."""
        return self._page(position // PAGE_TUPLES)[position % PAGE_TUPLES].at

    def first_from(self, position: int, time: int) -> int:
        """Return the first position, from this one on, of a tuple that is not before a time; `size` if there is none.

        Reads the pages in between.
        """
        while position < self.size:
            page = self._page(position // PAGE_TUPLES)
            end = position - position % PAGE_TUPLES + len(page)
            if page[-1].at >= time:
                return next(each for each in range(position, end) if page[each % PAGE_TUPLES].at >= time)
            position = end
        return position

    def tuples(self, start: int, end: int) -> Iterator[Tuple]:
        """Yield the tuples between two positions, page by page."""
        while start < end:
            page = self._page(start // PAGE_TUPLES)
            offset = start % PAGE_TUPLES
            for kept in page[offset : offset + end - start]:
                yield Tuple(kept.values, self._header(kept.source))
            start += PAGE_TUPLES - offset

    def drop_before(self, position: int) -> None:
        """Delete the pages before a position."""
        for number in range(self.first // PAGE_TUPLES, position // PAGE_TUPLES):
            self._kept.pop(number, None)
            self._store.delete("page", number)
        self.first = max(self.first, position)

    def _page(self, number: int) -> list[Kept]:
        if number == self.size // PAGE_TUPLES:
            return self._tail_page()
        page = self._kept.get(number)
        if page is None:
            page = self._store.load_page("page", number)
            if len(page) != PAGE_TUPLES:
                raise _lost(f"page {number} has {len(page)} tuples, not {PAGE_TUPLES}")
            self._keep(number, page)
        else:
            self._kept.move_to_end(number)
        return page

    def _keep(self, number: int, page: list[Kept]) -> None:
        self._kept[number] = page
        if len(self._kept) > _KEPT_PAGES:
            self._kept.popitem(last=False)

    def _tail_page(self) -> list[Kept]:
        if self._tail is None:
            number, tuples = divmod(self.size, PAGE_TUPLES)
            self._tail = self._store.load_page("page", number) if tuples else []
            if len(self._tail) != tuples:
                raise _lost(f"page {number} has {len(self._tail)} tuples, not {tuples}")
        return self._tail

    def _header(self, source: Source) -> StreamHeader:
        header = self._headers.get(source)
        if header is None:
            header = self._headers[source] = StreamHeader(*source)
        return header


class _Bucket(NamedTuple):
    """Tuples whose times are in [start, start + width), in order of arrival."""

    start: int
    width: int


class _Listed(NamedTuple):
    tuples: int
    earliest: int


class WaitingTuples:
    """Tuples that the watermark has not passed, by time.

    They are in buckets, the finest of 1,024 ms; the further a bucket is ahead, the wider it is, so there are few. A
    wide bucket is cut into finer ones when the watermark reaches it. Only the tuples of a finest bucket are sorted, in
    memory.
    """

    def __init__(self, store: PageStore, stored: Iterable[Iterable[int]], reference: int | None) -> None:
        """Create it from the results of `encode` and of `reference`."""
        self._store = store
        self._listed = {_Bucket(start, width): _Listed(tuples, earliest) for start, width, tuples, earliest in stored}
        self.reference = reference  # about where the watermark is; None before the first tuple
        self._tails: dict[_Bucket, list[Kept]] = {}

    def encode(self) -> list[list[int]]:
        return [[*bucket, *listed] for bucket, listed in self._listed.items()]

    @property
    def earliest(self) -> int | None:
        """The earliest time of a tuple that waits; None if none does."""
        return min((listed.earliest for listed in self._listed.values()), default=None)

    def add(self, kept: Kept) -> None:
        if self.reference is None:
            self.reference = kept.at
        self._add(kept, bucket_width(abs(kept.at - self.reference), 3))

    def release(self, until: int) -> Iterator[Kept]:
        """Remove the tuples before a time, and yield them by time, those of one time in order of arrival."""
        self.reference = until if self.reference is None else max(self.reference, until)
        while self._listed:
            bucket = min(self._listed, key=lambda each: (each.start, -each.width))
            if bucket.start >= until:
                return
            if bucket.width > FINEST_MS:
                for kept in self._take(bucket):
                    self._add(kept, bucket.width >> 3)
                continue
            if self._listed[bucket].earliest >= until:
                return
            for kept in sorted(self._take(bucket)):
                if kept.at < until:
                    yield kept
                else:
                    self._add(kept, FINEST_MS)

    def save(self) -> None:
        """Put the last pages of the buckets that have changed into the state."""
        for bucket, tail in self._tails.items():
            if tail:
                self._store.save_page(tail, "wait", *bucket, (self._listed[bucket].tuples - 1) // PAGE_TUPLES)
        self._tails.clear()

    def _add(self, kept: Kept, width: int) -> None:
        width = max(width, FINEST_MS)
        bucket = _Bucket(kept.at - kept.at % width, width)
        listed = self._listed.get(bucket, _Listed(0, kept.at))
        page, rest = divmod(listed.tuples, PAGE_TUPLES)
        tail = self._tails.get(bucket)
        if tail is None:
            tail = self._tails[bucket] = self._store.load_page("wait", *bucket, page) if rest else []
        tail.append(kept)
        self._listed[bucket] = _Listed(listed.tuples + 1, min(listed.earliest, kept.at))
        if len(tail) == PAGE_TUPLES:
            self._store.save_page(tail, "wait", *bucket, page)
            self._tails[bucket] = []

    def _take(self, bucket: _Bucket) -> Iterator[Kept]:
        """Remove a bucket and yield its tuples."""
        listed, tail = self._listed.pop(bucket), self._tails.pop(bucket, None)
        full, rest = divmod(listed.tuples, PAGE_TUPLES)
        for page in range(full + bool(rest)):
            if page == full and tail is not None:
                yield from tail
            else:
                yield from self._store.load_page("wait", *bucket, page)
            self._store.delete("wait", *bucket, page)


def is_reserved(key: object) -> bool:
    return type(key) is str and key.startswith(RESERVED)


def _key(name: tuple[Any, ...]) -> str:
    return RESERVED + "/".join(map(str, name))


def _part_keys(name: tuple[Any, ...], parts: int) -> list[str]:
    return [_key((*name, "part", part)) for part in range(parts)]


def _bytes(stored: Any) -> bytes:
    return base64.b64decode(stored) if isinstance(stored, str) else stored


def _lost(problem: str) -> StateError:
    return StateCorrupted(f"the tuples of a window are damaged: {problem}. {START_OVER}.")
