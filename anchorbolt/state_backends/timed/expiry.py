"""When the entries of a state expire: the header of a stored value, the due times of cached entries, and the sweep.

The header has an entry's due time, and the time under which the index has its key. A later put changes the due time
only: an entry that is written in every wave has one item in the index, not one for each wave. When that item is due,
the sweep reads the header, and deletes the entry or indexes it again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from anchorbolt.errors import SerializationError, StateCorrupted
from anchorbolt.serialization.codecs import DUE_TAG, INDEX_TAG
from anchorbolt.state_backends.contract import START_OVER
from anchorbolt.state_backends.timed.index import IndexClock, Item, TimeIndex

_HEADER = struct.Struct(">2sqq")
_SPARE = 1024
_WIDTH_SHIFT = 3  # due times are rounded up to an eighth of the TTL in the index
_NEVER = object()

SWEPT_PER_WAVE = 100_000
"""The most items of the index that a task sweeps in one wave."""


class Due(NamedTuple):
    """The header of a stored value."""

    at: int  # ms: the entry has expired if the wave's clock is not below
    indexed: int  # ms: the due time of its item in the index


def has_header(stored: Iterable[bytes | None]) -> bool:
    """Return False if none of these values has a header; True if one may have one."""
    return DUE_TAG in b"".join(filter(None, stored))


def split(data: bytes) -> tuple[Due | None, bytes]:
    """Return the header and the rest of a stored value. Raises `SerializationError` if the header is damaged."""
    if not data.startswith(DUE_TAG):
        return None, data
    if len(data) < _HEADER.size:
        raise SerializationError(f"{len(data)} bytes have the tag of a due time, but none follows")
    _, at, indexed = _HEADER.unpack_from(data)
    return Due(at, indexed), data[_HEADER.size :]


class Live(NamedTuple):
    """An entry as a user sees it."""

    key: bytes
    value: bytes  # without a header
    expires_at: int | None = None  # ms since 1970


def live_entry(key: bytes, stored: bytes | None, now: int) -> Live | None:
    """Return an entry at this time of the clock; None if there is none, or if it has expired.

    Raises `SerializationError` if its header is damaged.
    """
    if stored is None:
        return None
    due, value = split(stored)
    if due is None:
        return Live(key, value)
    return Live(key, value, due.at) if due.at > now else None


def live(page: Iterable[tuple[bytes, bytes]], now: int) -> Iterator[Live]:
    """Yield the entries of a page that a user sees: none of the index, and none that has expired."""
    for key, data in page:
        if not key.startswith(INDEX_TAG) and (entry := live_entry(key, data, now)) is not None:
            yield entry


class Expiry:
    """The due times of a state's cached entries, by cache key."""

    def __init__(self, namespace: str, index: TimeIndex, ttl_ms: int | None) -> None:
        """Create it; `ttl_ms` is for entries that are put without a TTL, None for entries that stay."""
        self._namespace = namespace
        self._index = index
        self._ttl_ms = ttl_ms
        self._dues: dict[Any, Due] = {}
        self._heap: list[tuple[int, int, Any]] = []  # a due time, a number, a key; the key may be due later now
        self._number = 0
        self._own: dict[Any, int | None] = {}  # of updates that are not staged: due times other than the default
        self.now = 0
        self.swept = 0  # entries, in this wave

    def begin(self, now: int) -> list[Any]:
        """Start a wave at this time; return the keys of the entries that have expired since the last one."""
        self.now, self.swept = now, 0
        self._own.clear()
        expired = []
        while self._heap and self._heap[0][0] <= now:
            _, _, key = heappop(self._heap)
            due = self._dues.get(key)
            if due is not None:
                if due.at > now:
                    self._push(key, due)
                else:
                    expired.append(key)
        return expired

    def forget(self) -> None:
        """Forget all entries."""
        self._dues.clear()
        self._heap.clear()
        self._own.clear()

    def keep(self, *kept: Container[Any]) -> None:
        """Forget the entries that are in none of these, if they are many."""
        self._dues = {key: due for key, due in self._dues.items() if any(key in each for each in kept)}
        if len(self._heap) > 2 * len(self._dues) + _SPARE:
            self._heap = [(due.at, n, key) for n, (key, due) in enumerate(self._dues.items()) if due.at > self.now]
            heapify(self._heap)

    def set_ttl(self, key: Any, ttl_ms: int | None) -> None:
        """Give an update a TTL of its own, None for none. An update without one has the default."""
        self._own[key] = None if ttl_ms is None else self.now + ttl_ms

    def clear_ttl(self, *keys: Any) -> None:
        """Let updates have the default again."""
        if self._own:
            for key in keys:
                self._own.pop(key, None)

    def knows(self, key: Any) -> bool:
        """Return whether the header of an entry is known."""
        return key in self._dues

    def opened(self, keys: Sequence[Any], stored: Sequence[bytes | None]) -> list[bytes | None]:
        """Return stored values without their headers, None for an entry that has expired; note their due times."""
        values: list[bytes | None] = []
        for key, data in zip(keys, stored, strict=True):
            due, value = (None, None) if data is None else self._split(data)
            if due is not None:
                if due.at <= self.now:
                    value = None
                else:
                    self._push(key, due)
                self._dues[key] = due
            values.append(value)
        return values

    def sealed(
        self, keys: Sequence[Any], key_bytes: Sequence[bytes], values: Sequence[bytes | None]
    ) -> list[bytes | None]:
        """Return the values of updates with their headers, and index them. The old headers must be known."""
        dues, own, now = self._dues, self._own, self.now
        default = None if self._ttl_ms is None else now + self._ttl_ms
        stored: list[bytes | None] = []
        items: list[Item] = []
        for key, data, value in zip(keys, key_bytes, values, strict=True):
            at = own.pop(key, default) if own else default
            if value is None or at is None:
                dues.pop(key, None)
                stored.append(value)
                continue
            old, indexed = dues.get(key), _indexed_at(at, now)
            if old is not None and old.indexed <= indexed:
                indexed = old.indexed
            else:
                items.append(Item(indexed, data))
            dues[key] = due = Due(at, indexed)
            if old is None or not now < old.at <= at:  # else the heap has a time that is early enough
                self._push(key, due)
            stored.append(_HEADER.pack(DUE_TAG, at, indexed) + value)
        self._index.add(IndexClock.EXPIRY, items, now)
        return stored

    def sweep(
        self, read: Callable[[Sequence[bytes]], list[bytes | None]], cache_key: Callable[[bytes], Any]
    ) -> tuple[dict[bytes, bytes | None], list[Any]]:
        """Return the updates that remove expired entries, and the cache keys of these; at most 100,000 in a wave.

        Call it when all updates are staged.

        Args:
            read: Returns the stored values of keys.
            cache_key: Returns the cache key of a stored key.
        """
        items = self._index.take(IndexClock.EXPIRY, self.now, SWEPT_PER_WAVE)
        updates: dict[bytes, bytes | None] = {}
        swept = []
        again: list[Item] = []
        for start in range(0, len(items), 4096):
            part = items[start : start + 4096]
            for item, data in zip(part, read([item.key for item in part]), strict=True):
                due, value = (None, b"") if data is None else self._split(data)
                if due is None or due.indexed != item.due or item.key in updates:
                    continue  # it was deleted, put without a TTL, or indexed again
                key = cache_key(item.key)
                if due.at <= self.now:
                    updates[item.key] = None
                    self._dues.pop(key, None)
                    swept.append(key)
                else:
                    moved = Due(due.at, _indexed_at(due.at, self.now))
                    again.append(Item(moved.indexed, item.key))
                    updates[item.key] = _HEADER.pack(DUE_TAG, *moved) + value
                    if key in self._dues:
                        self._dues[key] = moved
        self._index.add(IndexClock.EXPIRY, again, self.now)
        self.swept += len(swept)
        return updates, swept

    def _push(self, key: Any, due: Due) -> None:
        self._number += 1
        heappush(self._heap, (due.at, self._number, key))

    def _split(self, data: bytes) -> tuple[Due | None, bytes]:
        try:
            return split(data)
        except SerializationError as error:
            raise StateCorrupted(
                f"state {self._namespace!r}: {error}. {START_OVER}.", namespace=self._namespace
            ) from error


def _indexed_at(at: int, now: int) -> int:
    """Return a due time for the index, rounded up, so that entries of about one time are swept together."""
    width = 1 << max(0, ((at - now) >> _WIDTH_SHIFT).bit_length() - 1)
    return -(-at // width) * width
