"""`Timers`, which a stateful bolt sets by key, and `Timer`, one that is due. They are kept in the bolt's state."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from anchorbolt.errors import StateCorrupted, UnsupportedValue
from anchorbolt.serialization.codecs import INDEX_TAG
from anchorbolt.state_backends.contract import START_OVER
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.timed.index import IndexClock, Item, TimeIndex
from anchorbolt.util.times import LATEST_MS, Duration, instant_ms, to_datetime, to_ms

K = TypeVar("K")

TimerClock = Literal["processing", "event"]
"""The wave's clock, or the bolt's watermark."""

_RECORD_TAG = INDEX_TAG + b"t"
_RECORD = struct.Struct(">cqq")
_NOT_INDEXED = 1 << 62  # later than any time: the index needs an item
_INDEX_CLOCKS: dict[TimerClock, IndexClock] = {"processing": IndexClock.PROCESSING, "event": IndexClock.EVENT}
_CLOCKS: dict[bytes, TimerClock] = {index.value: clock for clock, index in _INDEX_CLOCKS.items()}

Read = Callable[[Sequence[bytes]], list[bytes | None]]


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer that is due. Pass it as the anchor of what `on_timer` emits: `anchors=timer`."""

    key: Any
    name: str
    at: int  # ms since 1970: when it was due
    clock: TimerClock
    record: bytes = field(default=b"", repr=False, compare=False)  # where it is stored; for the engine

    @property
    def at_time(self) -> datetime:
        """When it was due, in UTC."""
        return to_datetime(self.at)


class _Record(NamedTuple):
    """A timer as it is stored, under its name and key."""

    clock: TimerClock
    at: int
    indexed: int  # the due time of its item in the index


class Timers(Generic[K]):
    """The timers of one task: at most one for each key and name. They are checkpointed like the entries of the state.

    A timer that is due fires after the tuples of a wave: the engine calls the bolt's `on_timer`. If the wave is rolled
    back, the timer fires again; if it commits, never again. Timers fire in the order of their times, and of their keys
    as encoded. If nothing else causes a wave, a due timer does, except in a transactional topology, whose waves are its
    batches. Use it in `execute`, `on_timer`, `pre_prepare` and `finish_batch` only.
    """

    def __init__(self, encoding: EntryEncoding, index: TimeIndex, read: Read) -> None:
        """Made by the engine; a bolt gets it in `init_timers`."""
        self._encoding = encoding
        self._index = index
        self._read = read
        self._changed: dict[bytes, tuple[TimerClock, int] | None] = {}  # by record key; None for a cancelled one
        self._known: dict[bytes, _Record | None] = {}  # of this wave: as stored
        self._updates: dict[bytes, bytes | None] = {}  # for the next `flush`
        self._firing: dict[bytes, Timer] = {}  # taken, and not fired yet
        self.clocks: Sequence[TimerClock] = ("processing", "event")  # of the bolt; set by the engine
        self.now = 0
        self.watermark: int | None = None
        self.fired = 0  # in this wave

    def set(
        self,
        key: K,
        *,
        after: Duration | None = None,
        at: int | datetime | None = None,
        name: str = "",
        clock: TimerClock = "processing",
    ) -> None:
        """Set the timer of a key and a name; replaces one that is set, by whichever clock.

        Args:
            key: Any key that the state takes; it need not have an entry.
            after: The time from this wave's clock, as a timedelta or text ("30 min"). Not by event time.
            at: The time itself, in ms since 1970 or as an aware datetime. If it has passed, the timer fires at the end
                of this wave; if it is set in `on_timer`, of the next one.
            name: Tells several timers of a key apart.
            clock: `processing`, the wave's clock, or `event`: the bolt's watermark, if the bolt has an `event_time`.

        Raises:
            UnsupportedValue: Neither or both of `after` and `at` are given, one of them is not a time, the bolt has no
                such clock, or the key is not supported. Nothing is changed.
        """
        if clock not in self.clocks or (after is None) == (at is None) or (clock == "event" and at is None):
            advice = "pass after=… or at=…; by event time, at=…"
            if clock not in _INDEX_CLOCKS:
                advice = "a clock is 'processing' or 'event'"
            elif clock not in self.clocks:
                advice = "the bolt has no watermark. Set its attribute event_time, or use the clock 'processing'"
            raise self._unsupported(key, f"set(after={after!r}, at={at!r}, clock={clock!r})", advice)
        try:
            due = instant_ms(at, LATEST_MS) if after is None else self.now + to_ms(after)
        except ValueError as error:
            raise self._unsupported(key, "its time", str(error)) from None
        record = self._record_key(key, name)
        self._firing.pop(record, None)
        self._changed[record] = clock, due

    def cancel(self, key: K, name: str = "") -> None:
        """Cancel the timer of a key and a name, if one is set."""
        record = self._record_key(key, name)
        self._firing.pop(record, None)
        self._changed[record] = None

    def get(self, key: K, name: str = "") -> int | None:
        """Return when the timer of a key and a name is due, in ms since 1970; None if none is set. Reads the store."""
        record = self._record_key(key, name)
        if record in self._firing:
            return self._firing[record].at
        if record in self._changed:
            changed = self._changed[record]
            return None if changed is None else changed[1]
        stored = self._stored([record])[0]
        return None if stored is None else stored.at

    def present(self, clock: TimerClock) -> int | None:
        """Return the time of a clock in this wave, in ms since 1970; None for a bolt that has no watermark yet."""
        return self.now if clock == "processing" else self.watermark

    @property
    def waiting(self) -> int:
        """About how many timers are set."""
        return self._index.size(IndexClock.PROCESSING) + self._index.size(IndexClock.EVENT)

    @property
    def has_changes(self) -> bool:
        """Whether `flush` has something to return."""
        return bool(self._changed or self._updates)

    def begin(self, now: int, watermark: int | None) -> None:
        """Start a wave. Called by the engine, never by a job."""
        self.now, self.watermark, self.fired = now, watermark, 0
        for each in (self._changed, self._known, self._firing, self._updates):
            each.clear()

    def take_due(self, most: int) -> list[Timer]:
        """Return the timers that fire in this wave, at most `most`; `fire` each.

        Called by the engine, after `flush`.
        """
        taken: list[tuple[int, bytes, str, bytes]] = []
        for clock, until in (("processing", self.now), ("event", self.watermark)):
            if until is not None:
                taken += self._take(clock, until, most - len(taken))  # type: ignore[arg-type]
        return [self._firing[record] for *_, record in sorted(taken)]

    def fire(self, timer: Timer) -> bool:
        """Return whether a taken timer still fires: an earlier one may have cancelled it. Called by the engine."""
        fires = self._firing.pop(timer.record or self._record_key(timer.key, timer.name), None) is not None
        self.fired += fires
        return fires

    def flush(self) -> dict[bytes, bytes | None]:
        """Return the entries that have changed since the last call, without those of the index."""
        updates, self._updates = self._updates, {}
        items: dict[TimerClock, list[Item]] = {"processing": [], "event": []}
        for (record, changed), old in zip(self._changed.items(), self._stored(list(self._changed)), strict=True):
            if changed is None:
                if old is not None:
                    updates[record] = self._known[record] = None
                continue
            clock, due = changed
            indexed = due
            if old is not None and old.clock == clock and old.indexed <= due:
                indexed = old.indexed
            else:
                items[clock].append(_item(due, record))
            new = _Record(clock, due, indexed)
            if new != old:
                updates[record] = _encoded(new)
            self._known[record] = new
        self._changed.clear()
        for of, some in items.items():
            self._index.add(_INDEX_CLOCKS[of], some, self.present(of))
        return updates

    def _take(self, clock: TimerClock, until: int, most: int) -> list[tuple[int, bytes, str, bytes]]:
        """Return the time, the encoded key, the name and the record's key of each timer that fires."""
        taken: list[tuple[int, bytes, str, bytes]] = []
        # Timers that were set to a later time are indexed again first, so that those which are due keep their order.
        while items := self._index.take(_INDEX_CLOCKS[clock], until, most - len(taken)) if len(taken) < most else ():
            records = [_RECORD_TAG + key for _, key in items]
            for record, (item_due, item_key), stored in zip(records, items, self._stored(records), strict=True):
                if stored is None or (stored.clock, stored.indexed) != (clock, item_due) or record in self._firing:
                    continue  # it was cancelled, or is in the index again
                self._known[record] = _Record(clock, stored.at, _NOT_INDEXED)
                if stored.at == item_due:
                    name, key = _name_and_key(item_key)
                    taken.append((stored.at, key, name, record))
                    self._firing[record] = Timer(self._encoding.key_from(key), name, stored.at, clock, record)
                    self._changed[record] = None
                else:
                    self._changed[record] = clock, stored.at
            self._updates = self.flush()
        return taken

    def _record_key(self, key: Any, name: str) -> bytes:
        try:
            named = name.encode()
        except (AttributeError, UnicodeEncodeError):
            named = b"\0" * 256
        if len(named) > 255:
            raise self._unsupported(key, f"the name {name!r}", "a name is text of at most 255 bytes")
        [data] = self._encoding.key_bytes([self._encoding.cache_key(key)])
        return b"".join((_RECORD_TAG, bytes([len(named)]), named, data))

    def _stored(self, records: Sequence[bytes]) -> list[_Record | None]:
        unknown = [record for record in records if record not in self._known]
        for start in range(0, len(unknown), 4096):
            part = unknown[start : start + 4096]
            namespace = self._encoding.namespace
            stored = (None if data is None else _decoded(data, namespace) for data in self._read(part))
            self._known.update(zip(part, stored, strict=True))
        return [self._known[record] for record in records]

    def _unsupported(self, key: Any, what: str, advice: str) -> UnsupportedValue:
        return UnsupportedValue(
            f"state {self._encoding.namespace!r}, timer of key {key!r}: {what} is not valid: {advice}."
        )


def timer_key(record: bytes) -> bytes | None:
    """Return the encoded key of the timer that is stored under `record`; None if that is no key of a timer."""
    return _name_and_key(record[len(_RECORD_TAG) :])[1] if record.startswith(_RECORD_TAG) else None


def timer_indexed_anew(record: bytes, data: bytes, namespace: str) -> tuple[IndexClock, Item, bytes]:
    """Return what moves a stored timer: its clock, its item for another index, and its data there.

    Raises `StateCorrupted` if `data` is not a timer.
    """
    stored = _decoded(data, namespace)
    moved = stored._replace(indexed=stored.at)
    return _INDEX_CLOCKS[stored.clock], _item(stored.at, record), _encoded(moved)


def _item(due: int, record: bytes) -> Item:
    return due, record[len(_RECORD_TAG) :]


def _decoded(data: bytes, namespace: str) -> _Record:
    try:
        letter, at, indexed = _RECORD.unpack(data)
        return _Record(_CLOCKS[letter], at, indexed)
    except (struct.error, KeyError) as error:
        raise StateCorrupted(
            f"state {namespace!r}: a timer of {len(data)} bytes cannot be decoded. {START_OVER}.", namespace=namespace
        ) from error


def _encoded(record: _Record) -> bytes:
    return _RECORD.pack(_INDEX_CLOCKS[record.clock].value, record.at, record.indexed)


def _name_and_key(data: bytes) -> tuple[str, bytes]:
    size = data[0]
    return data[1 : 1 + size].decode(), data[1 + size :]
