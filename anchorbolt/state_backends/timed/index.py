"""The index of a namespace by time: which keys are due next. Pure, except that it reads through a function.

No store orders its keys, so the index is entries of the same namespace, under keys that no user's key equals. They are
staged and committed with the wave. There are three kinds of entries, for each clock:

- a **chunk** holds some thousand items: how long after the bucket's time they are due, and their keys;
- a **bucket** lists its chunks, each with its number, its earliest due time and its number of items;
- the **directory** lists the buckets that are not empty, each with its earliest due time and its number of items.

A bucket's width is at most 1/64 of the time until it is due, so there are few buckets, however far ahead the times are.
Items that are taken before they are due go into a narrower bucket. The index never searches for an item: a caller that
adds a key again must itself know which of its items counts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from anchorbolt.errors import SerializationError, StateCorrupted
from anchorbolt.serialization import pack, unpack
from anchorbolt.serialization.codecs import INDEX_TAG
from anchorbolt.state_backends.contract import START_OVER
from anchorbolt.util.times import bucket_width

FIRST_INDEX_KEY, INDEX_KEYS_END = INDEX_TAG + b"b", INDEX_TAG + b"e"
"""No key of an index is below the first, and none at or above the second. Keys of timers are not between them."""

_CHUNK_TAG = INDEX_TAG + b"c"
_CHUNK_ITEMS = 1024
_CHUNK_BYTES = 1 << 18
_TAIL_ITEMS = 256  # a bucket's last chunk is written again, with more items, while it has fewer
_TAILS_KEPT = 64
_CHUNKS_AT_ONCE = 16
_SHIFT = 6  # a bucket is 2^6 times as near as it is wide
_UNKNOWN_WIDTH = 1024  # ms, if the present is not known


class IndexClock(Enum):
    """The clocks that have an index of their own, by their letter in its keys."""

    EXPIRY = b"x"
    PROCESSING = b"p"
    EVENT = b"e"


Item = tuple[int, bytes]
"""The time under which a key is in the index, in ms, and the key."""


class _Chunk(NamedTuple):
    first: int  # its earliest due time
    number: int
    size: int


class TimeIndex:
    """The items of one namespace. Not thread-safe."""

    def __init__(self, namespace: str, read: Callable[[Sequence[bytes]], list[bytes | None]]) -> None:
        """Create it; `read` returns the values of keys, with this wave's updates."""
        self._namespace = namespace
        self._read = read
        self._directories: dict[IndexClock, dict[int, tuple[int, int]]] = {}  # by bucket: earliest due time, items
        self._buckets: dict[tuple[IndexClock, int], list[_Chunk]] = {}  # of this wave
        self._tails: dict[tuple[IndexClock, int], list[Item]] = {}  # the items of a last chunk
        self._new: defaultdict[tuple[IndexClock, int], list[Item]] = defaultdict(list)
        self._deleted: list[bytes] = []

    @staticmethod
    def is_list(key: bytes) -> bool:
        """Return whether a key of an index is that of its directory or of a bucket."""
        return not key.startswith(_CHUNK_TAG)

    def add(self, clock: IndexClock, items: Iterable[Item], now: int | None) -> None:
        """Add items; `now` is the present by their clock, None if it is not known."""
        last, into = None, list[Item]()
        for item in items:
            if item[0] != last:
                last = item[0]
                into = self._new[clock, _bucket_of(last, now)]
            into.append(item)

    def next_due(self, clock: IndexClock) -> int | None:
        """Return the earliest time of an item that was flushed; None without items."""
        return min((first for first, _ in self._directory(clock).values()), default=None)

    def size(self, clock: IndexClock) -> int:
        """Return the number of items that were flushed."""
        return sum(size for _, size in self._directory(clock).values())

    def take(self, clock: IndexClock, until: int, most: int) -> list[Item]:
        """Remove and return the earliest items that are due at `until`, at most `most`, in their order.

        Of more that are due at the very same time, any are taken; of more than four times as many, perhaps not the
        earliest.
        """
        due = self._take_new(clock, until)
        ripe = [bucket for bucket, (first, _) in self._directory(clock).items() if first <= until]
        chunks = sorted(
            (chunk.first, bucket, chunk.number)
            for bucket, listed in zip(ripe, self._listed(clock, ripe), strict=True)
            for chunk in listed
            if chunk.first <= until
        )
        early: list[Item] = []
        read = 0
        while read < len(chunks) and not (
            len(due) >= most and (len(due) >= 4 * most or chunks[read][0] >= sorted(map(itemgetter(0), due))[most - 1])
        ):
            some = chunks[read : read + _CHUNKS_AT_ONCE]
            read += len(some)
            for item in self._items(clock, [(bucket, number) for _, bucket, number in some]):
                (due if item[0] <= until else early).append(item)
        self._remove(clock, [(bucket, number) for _, bucket, number in chunks[:read]])
        due.sort()
        self.add(clock, early, until)
        self.add(clock, due[most:], until)
        return due[:most]

    def _take_new(self, clock: IndexClock, until: int) -> list[Item]:
        """Remove and return the items that are due and have not been flushed."""
        due: list[Item] = []
        for place, items in list(self._new.items()):
            if place[0] is clock and min(items)[0] <= until:
                due += (item for item in items if item[0] <= until)
                self._new[place] = [item for item in items if item[0] > until]
                if not self._new[place]:
                    del self._new[place]
        return due

    def forget(self) -> None:
        """Forget everything that was read or added."""
        for known in (self._directories, self._buckets, self._tails, self._new, self._deleted):
            known.clear()

    @property
    def has_changes(self) -> bool:
        """Whether `flush` has something to return."""
        return bool(self._new or self._deleted)

    def flush(self) -> dict[bytes, bytes | None]:
        """Return the entries that have changed since the last call, None for a deleted one."""
        if not self.has_changes:
            return {}
        updates: dict[bytes, bytes | None] = dict.fromkeys(self._deleted)
        wanted: defaultdict[IndexClock, list[int]] = defaultdict(list)
        for clock, bucket in self._new:
            wanted[clock].append(bucket)
        for clock, buckets in wanted.items():
            self._listed(clock, buckets)
        for (clock, bucket), items in self._new.items():
            updates |= self._written(clock, bucket, items)
        for (clock, bucket), chunks in self._buckets.items():
            directory = self._directory(clock)
            if chunks:
                directory[bucket] = min(chunks).first, sum(chunk.size for chunk in chunks)
                updates[_bucket_key(clock, bucket)] = pack([list(chunk) for chunk in chunks])
            else:
                directory.pop(bucket, None)
                updates[_bucket_key(clock, bucket)] = None
        for clock in {clock for clock, _ in self._buckets}:
            listed = [[bucket, *each] for bucket, each in self._directory(clock).items()]
            updates[_directory_key(clock)] = pack(listed) if listed else None
        self._new.clear()
        self._buckets.clear()
        self._deleted.clear()
        while len(self._tails) > _TAILS_KEPT:
            del self._tails[next(iter(self._tails))]
        return updates

    def _written(self, clock: IndexClock, bucket: int, items: list[Item]) -> dict[bytes, bytes | None]:
        """Return the chunks with a bucket's new items, and list them."""
        listed = self._buckets[clock, bucket]
        tail = self._tails.pop((clock, bucket), None)
        number = max((chunk.number for chunk in listed), default=-1) + 1
        if tail is not None and listed and len(tail) == listed[-1].size:
            number = listed.pop().number
            items = [*tail, *items]
        most = min(_CHUNK_ITEMS, max(1, _CHUNK_BYTES // max(len(key) for _, key in items)))
        if len(items) > most:
            items.sort()
        updates: dict[bytes, bytes | None] = {}
        remaining = iter(items)
        while part := list(islice(remaining, most)):
            listed.append(_Chunk(min(part)[0], number, len(part)))
            distances, keys = [due - bucket for due, _ in part], [key for _, key in part]
            updates[_chunk_key(clock, bucket, number)] = pack([distances, keys])
            number += 1
            if len(part) < _TAIL_ITEMS:
                self._tails[clock, bucket] = part
        return updates

    def _directory(self, clock: IndexClock) -> dict[int, tuple[int, int]]:
        if clock not in self._directories:
            key = _directory_key(clock)
            listed = self._decoded(key, self._read([key])[0])
            self._directories[clock] = {bucket: (first, size) for bucket, first, size in listed}
        return self._directories[clock]

    def _listed(self, clock: IndexClock, buckets: Sequence[int]) -> list[list[_Chunk]]:
        """Return the chunks of buckets. Reads the buckets that this wave has not used yet in one call."""
        directory = self._directory(clock)
        for bucket in buckets:
            if bucket not in directory:
                self._buckets.setdefault((clock, bucket), [])
        unknown = [bucket for bucket in buckets if (clock, bucket) not in self._buckets]
        keys = [_bucket_key(clock, bucket) for bucket in unknown]
        for bucket, key, data in zip(unknown, keys, self._read(keys) if keys else (), strict=True):
            self._buckets[clock, bucket] = [_Chunk(*chunk) for chunk in self._decoded(key, data)]
        return [self._buckets[clock, bucket] for bucket in buckets]

    def _items(self, clock: IndexClock, chunks: Sequence[tuple[int, int]]) -> list[Item]:
        keys = [_chunk_key(clock, *chunk) for chunk in chunks]
        items: list[Item] = []
        for (bucket, _), key, data in zip(chunks, keys, self._read(keys), strict=True):
            distances, of = self._decoded(key, data) or ((), ())
            items += [(bucket + distance, item) for distance, item in zip(distances, of, strict=True)]
        return items

    def _remove(self, clock: IndexClock, chunks: Iterable[tuple[int, int]]) -> None:
        removed: defaultdict[int, set[int]] = defaultdict(set)
        for bucket, number in chunks:
            removed[bucket].add(number)
            self._deleted.append(_chunk_key(clock, bucket, number))
        for bucket, numbers in removed.items():
            self._tails.pop((clock, bucket), None)
            kept = [chunk for chunk in self._buckets[clock, bucket] if chunk.number not in numbers]
            self._buckets[clock, bucket] = kept

    def _decoded(self, key: bytes, data: bytes | None) -> Any:
        if data is None:
            return ()
        try:
            return unpack(data)
        except SerializationError as error:
            raise StateCorrupted(
                f"state {self._namespace!r}: the entry {key!r} of the index by time cannot be decoded: {error}. "
                f"{START_OVER}.",
                namespace=self._namespace,
            ) from error


def _bucket_of(due: int, now: int | None) -> int:
    """Return the first ms of the bucket for a due time."""
    width = _UNKNOWN_WIDTH
    if now is not None and due > now:
        width = bucket_width(due - now, _SHIFT)
    return due - due % width


def _directory_key(clock: IndexClock) -> bytes:
    return INDEX_TAG + b"d" + clock.value


def _bucket_key(clock: IndexClock, bucket: int) -> bytes:
    return INDEX_TAG + b"b" + clock.value + bucket.to_bytes(8, "big", signed=True)


def _chunk_key(clock: IndexClock, bucket: int, number: int) -> bytes:
    return _CHUNK_TAG + clock.value + bucket.to_bytes(8, "big", signed=True) + number.to_bytes(4, "big")
