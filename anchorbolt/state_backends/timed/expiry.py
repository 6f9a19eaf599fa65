"""When the entries of a state expire: the header of a stored value, the due times of cached entries, and the sweep.

The header has an entry's due time, and the time under which the index has its key. A later put changes the due time
only: an entry that is written in every wave has one item in the index, not one for each wave. When that item is due,
the sweep reads the header, and deletes the entry or indexes it again.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, repeat
from typing import Any, NamedTuple

from anchorbolt.errors import SerializationError, StateCorrupted
from anchorbolt.serialization.codecs import DUE_TAG, INDEX_TAG
from anchorbolt.state_backends.contract import START_OVER
from anchorbolt.state_backends.timed.index import IndexClock, Item, TimeIndex
from anchorbolt.util.times import bucket_width

# The tag; the due time, and in its last six bits the logarithm of a width; the difference of the index's time from the
# due time, in that width. Short, as it is before every value that expires.
_HEADER = struct.Struct(">2sqb")
_WIDTH_BITS = 6
_MOST_WIDTHS = 127
_SPARE = 1024
_LOOK_SHIFT = 6  # the next look is at most 1/64 of the remaining time before an entry expires
_READ_TOGETHER = 4096
_WIDTH_SHIFT = 3  # due times are rounded up to an eighth of the TTL in the index

SWEPT_PER_WAVE = 100_000
"""The most items of the index that a task sweeps in one wave."""


Due = tuple[int, int]
"""A header, in ms: when the entry expires by the wave's clock, and the due time of its item in the index."""


def has_header(stored: Collection[bytes | None]) -> bool:
    """Return whether one of these values has a header."""
    # Few values have the bytes of the tag anywhere.
    return DUE_TAG in b"".join(filter(None, stored)) and any(each.startswith(DUE_TAG) for each in stored if each)


def split(data: bytes) -> tuple[Due | None, bytes]:
    """Return the header and the rest of a stored value. Raises `SerializationError` if the header is damaged."""
    if not data.startswith(DUE_TAG):
        return None, data
    if len(data) < _HEADER.size:
        raise SerializationError(f"{len(data)} bytes have the tag of a due time, but none follows")
    _, at_and_shift, widths = _HEADER.unpack_from(data)
    at, shift = at_and_shift >> _WIDTH_BITS, at_and_shift & (1 << _WIDTH_BITS) - 1
    return (at, ((at >> shift) + widths) << shift), data[_HEADER.size :]


@lru_cache(maxsize=16_384)
def _due_in(header: bytes) -> Due | None:
    """Return the due times of a header: those of a wave are in many entries, and in many waves."""
    return split(header)[0]


def joined(due: Due, value: bytes) -> bytes:
    """Return a stored value with its header: the reverse of `split`."""
    return _header(*due) + value


def with_headers(headers: Iterable[bytes], values: Iterable[bytes | None]) -> list[bytes | None]:
    """Return values with their headers, see `Expiry.headers`; None stays None."""
    return [data if data is None else header + data for header, data in zip(headers, values, strict=True)]


def _header(at: int, indexed: int) -> bytes:
    """Return the header for a due time, and a time of the index, at most 127 of its widths from it."""
    shift = _shift_of(indexed)
    return _HEADER.pack(DUE_TAG, at << _WIDTH_BITS | shift, (indexed >> shift) - (at >> shift))


def keeps_item(old: Due, at: int, latest: int, now: int) -> bool:
    """Return whether an entry that is due at `at` now keeps its item in the index, and needs none at `latest`.

    It does if that item has not been swept and is early enough, and if a header can hold both times.
    """
    if not now < old[1] <= latest:
        return False
    shift = _shift_of(old[1])
    return abs((at >> shift) - (old[1] >> shift)) <= _MOST_WIDTHS


def _shift_of(indexed: int) -> int:
    """Return the logarithm of the largest power of two that divides a time of the index."""
    return (indexed & -indexed).bit_length() - 1 if indexed else 0


class Live(NamedTuple):
    """An entry as a user sees it."""

    key: bytes
    value: bytes  # without a header
    expires_at: int | None = None  # ms since 1970


def live_entry(key: bytes, stored: bytes | None, now: int) -> Live | None:
    """Return an entry as it is at `now`, in ms; None if the key has no value or its entry has expired.

    Raises `SerializationError` if its header is damaged.
    """
    if stored is None:
        return None
    due, value = split(stored)
    if due is None:
        return Live(key, value)
    return Live(key, value, due[0]) if due[0] > now else None


def live(page: Iterable[tuple[bytes, bytes]], now: int) -> Iterator[Live]:
    """Yield the entries of a page that a user sees: none of the index, and none that has expired."""
    for key, data in page:
        if not key.startswith(INDEX_TAG) and (entry := live_entry(key, data, now)) is not None:
            yield entry


def live_columns(
    page: Sequence[tuple[bytes, bytes]], now: int
) -> tuple[Sequence[bytes], Sequence[bytes], Sequence[int | None] | None]:
    """Return the keys, the values and the due times of the entries of a page that a user sees, see `live`.

    There are no due times if no entry has one.
    """
    if not page:
        return (), (), None
    keys, values = zip(*page, strict=True)
    has_index_keys = INDEX_TAG in b"".join(keys) and any(key.startswith(INDEX_TAG) for key in keys)
    if not has_index_keys and not has_header(values):
        return keys, values, None
    entries = list(live(page, now))
    return tuple(zip(*entries, strict=True)) if entries else ((), (), None)  # type: ignore[return-value]


class Expiry:
    """The due times of a state's cached entries, by cache key."""

    def __init__(self, namespace: str, index: TimeIndex, ttl_ms: int | None) -> None:
        """Create it; `ttl_ms` is for entries that are put without a TTL, None for entries that stay."""
        self._namespace = namespace
        self._index = index
        self._ttl_ms = ttl_ms
        # Those of this wave are apart: a large dict is not in the processor's caches, and is used once a wave.
        self._dues: dict[Any, Due] = {}
        self._recent: dict[Any, Due] = {}
        # Keys by the time at which to look whether they have expired. A key may expire later than that.
        self._looks: defaultdict[int, list[Any]] = defaultdict(list)
        self._own: dict[Any, int | None] = {}  # of updates that are not staged: due times other than the default
        self.now = 0
        self.swept = 0  # entries, in this wave

    def begin(self, now: int) -> list[Any]:
        """Start a wave at this time; return the keys of the entries that have expired since the last one."""
        self._merge()
        self.now, self.swept = now, 0
        self._own.clear()
        expired = []
        for at in [at for at in self._looks if at <= now]:
            later: defaultdict[int, list[Any]] = defaultdict(list)
            for key in self._looks.pop(at):
                due = self._dues.get(key)
                if due is not None and due[0] > now:
                    later[due[0]].append(key)
                elif due is not None:
                    expired.append(key)
            for due_at, keys in later.items():
                self._look_at(due_at, keys)
        return expired

    def forget(self) -> None:
        """Forget all entries."""
        self._dues.clear()
        self._recent.clear()
        self._looks.clear()
        self._own.clear()

    def keep(self, *kept: Mapping[Any, object]) -> None:
        """Forget entries that are in none of these, if they are many."""
        if len(self._dues) + len(self._recent) > 2 * sum(map(len, kept)) + _SPARE:
            self._merge()
            dues, self._dues = self._dues, {}
            for each in kept:
                self._dues.update((key, dues[key]) for key in dues.keys() & each.keys())
            self._looks.clear()
            by_time: defaultdict[int, list[Any]] = defaultdict(list)
            for key, (at, _) in self._dues.items():
                if at > self.now:
                    by_time[at].append(key)
            for at, keys in by_time.items():
                self._look_at(at, keys)

    def set_ttl(self, key: Any, ttl_ms: int | None) -> None:
        """Give an update a TTL of its own, None for none. An update without one has the default."""
        self._own[key] = None if ttl_ms is None else self.now + ttl_ms

    def clear_ttl(self, *keys: Any) -> None:
        """Let updates have the default again."""
        if self._own:
            for key in keys:
                self._own.pop(key, None)

    def unknown(self, keys: Iterable[Any]) -> list[Any]:
        """Return the keys whose headers are not known."""
        return [key for key in keys if key not in self._recent and key not in self._dues]

    def opened(self, keys: Sequence[Any], stored: Sequence[bytes | None]) -> Sequence[bytes | None]:
        """Return stored values without their headers, None for an entry that has expired; note their due times."""
        now, size = self.now, _HEADER.size
        headers = [b"" if data is None else data[:size] for data in stored]
        parsed = {header: self._parsed(header) for header in set(headers) if header.startswith(DUE_TAG)}
        if not parsed:
            return stored
        found = list(map(parsed.get, headers))  # many entries have the same header
        if None not in found:
            self._recent.update(zip(keys, found, strict=True))  # type: ignore[arg-type]
            if min(parsed.values())[0] > now:
                return [data[size:] for data in stored]  # type: ignore[index]
        else:
            self._recent.update((key, due) for key, due in zip(keys, found, strict=True) if due is not None)
        return [
            data if due is None or data is None else data[size:] if due[0] > now else None
            for data, due in zip(stored, found, strict=True)
        ]

    def headers(self, keys: Sequence[Any], key_bytes: Sequence[bytes], deleted: Sequence[bool]) -> list[bytes]:
        """Return the header of each update, empty for an update without a due time, and index the keys.

        Call it when the old headers of all keys are known, see `unknown`.
        """
        own, default = self._own, None if self._ttl_ms is None else self.now + self._ttl_ms
        if default is not None and not own and True not in deleted:
            headers = self._due_at(default, keys, key_bytes)
        else:
            headers = [b""] * len(keys)
            by_time: defaultdict[int | None, list[int]] = defaultdict(list)  # the places of updates, by due time
            for place, key in enumerate(keys):
                at = own.pop(key, default)
                by_time[None if deleted[place] else at].append(place)
            for place in by_time.pop(None, ()):
                self._recent.pop(keys[place], None)
                self._dues.pop(keys[place], None)
            for at, places in by_time.items():
                assert at is not None
                some = [keys[place] for place in places]
                made = self._due_at(at, some, [key_bytes[place] for place in places])
                for place, header in zip(places, made, strict=True):
                    headers[place] = header
        self._merge()  # here, where the keys are still in the processor's caches
        return headers

    def _due_at(self, at: int, keys: Sequence[Any], key_bytes: Sequence[bytes]) -> list[bytes]:
        """Let updates be due at a time; return their headers."""
        now, latest = self.now, indexed_at(at, self.now)
        before = list(map(self._recent.get, keys))
        if None in before:
            before = [self._dues.get(key) if old is None else old for key, old in zip(keys, before, strict=True)]
        # By the old due times: many entries have the same.
        headers, dues = dict[Due | None, bytes](), dict[Due | None, Due]()
        is_new, unseen = set[Due | None](), set[Due | None]()  # likewise: whether they need an item, or another look
        for old in set(before):
            indexed = latest
            if old is not None and keeps_item(old, at, latest, now):
                indexed = old[1]  # its item in the index has not been swept yet
            else:
                is_new.add(old)
            if old is not None and not now < old[0] <= at:  # else a look is early enough, or `_merge` adds one
                unseen.add(old)
            headers[old], dues[old] = _header(at, indexed), (at, indexed)
        self._recent.update(zip(keys, map(dues.__getitem__, before), strict=True))
        if is_new:
            new = [key for key, old in zip(key_bytes, before, strict=True) if old in is_new]
            self._index.add(IndexClock.EXPIRY, zip(repeat(latest), new), now)
        if unseen:
            self._look_at(at, [key for key, old in zip(keys, before, strict=True) if old in unseen])
        return list(map(headers.__getitem__, before))

    def sweep(self, read: Callable[[Sequence[bytes]], list[bytes | None]]) -> dict[bytes, bytes | None]:
        """Return the updates that remove expired entries; of at most 100,000 items in a wave.

        Call it when all updates are staged; `read` returns the stored values of keys. The cache is not concerned: its
        entries that have expired were marked when the wave began.
        """
        now, size = self.now, _HEADER.size
        items = self._index.take(IndexClock.EXPIRY, now, SWEPT_PER_WAVE)
        updates: dict[bytes, bytes | None] = {}
        again: list[Item] = []
        for start in range(0, len(items), _READ_TOGETHER):
            part = items[start : start + _READ_TOGETHER]
            parsed: dict[bytes, Due] = {}  # by header: many entries have the same
            for (item_due, key), data in zip(part, read([key for _, key in part]), strict=True):
                if data is None or data[:2] != DUE_TAG or key in updates:
                    continue  # it was deleted, or put without a TTL
                header = data[:size]
                at, indexed = parsed.get(header) or parsed.setdefault(header, self._parsed(header))
                if indexed != item_due:
                    continue  # it was indexed again
                if at <= now:
                    updates[key] = None
                    self.swept += 1
                else:
                    moved = at, indexed_at(at, now)
                    again.append((moved[1], key))
                    updates[key] = joined(moved, data[size:])
        self._index.add(IndexClock.EXPIRY, again, now)
        return updates

    def _parsed(self, header: bytes) -> Due:
        """Parse a header. Raises `StateCorrupted` if it is damaged."""
        try:
            due = _due_in(header)
        except SerializationError as error:
            raise StateCorrupted(
                f"state {self._namespace!r}: {error}. {START_OVER}.", namespace=self._namespace
            ) from error
        assert due is not None, "it begins with the tag"
        return due

    def _merge(self) -> None:
        """Note the due times of this wave with all others, and look at keys that were not among these."""
        before = len(self._dues)
        self._dues.update(self._recent)
        new = list(islice(reversed(self._dues), len(self._dues) - before))  # a dict has its newest keys last
        by_due: Mapping[Due, list[Any]]
        if len(dues := set(self._recent.values())) == 1:
            by_due = dict.fromkeys(dues, new)
        else:
            by_due = defaultdict(list)
            for key in new:
                by_due[self._recent[key]].append(key)
        for due, keys in by_due.items():
            self._look_at(due[0], keys)
        self._recent.clear()

    def _look_at(self, at: int, keys: list[Any]) -> None:
        """Look at about this time, and never later, whether these keys have expired."""
        self._looks[at - at % bucket_width(at - self.now, _LOOK_SHIFT)] += keys


def indexed_at(at: int, now: int) -> int:
    """Return a due time for the index, rounded up, so that entries of about one time are swept together."""
    width = bucket_width(at - now, _WIDTH_SHIFT)
    return -(-at // width) * width
