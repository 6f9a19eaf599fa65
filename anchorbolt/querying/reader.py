"""Reads the committed entries of a topology's stateful bolts.

A key is read in the task to which the hash of its grouping value sends it. The number of tasks is in the decision
record. It changes only while the topology is stopped, and then a key that has moved is no longer in its old task. So
the record is read again only if a key is absent, at most once a second.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, NamedTuple

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import DecisionLog, record_namespace
from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.errors import SerializationError, StaleAttempt, StateCorrupted, StateError, UnsupportedValue
from anchorbolt.migration_tools.entries import Codecs, Entry, EntryDecoder
from anchorbolt.querying.storages import StoragePool
from anchorbolt.state_backends.contract import ALL_KEYS, START_OVER, KeyRange, ReadPosition, StateProvider, StateStorage
from anchorbolt.state_backends.rules import task_namespace
from anchorbolt.state_backends.timed.expiry import Live, live_columns, live_entry
from anchorbolt.streams.hashing import destination_of, stable_hash
from anchorbolt.util.messages import did_you_mean, shortened

REFRESH_S = 1.0
"""The record is not read again for an absent key before it is this old."""

_ITSELF: Final = object()
_PAGE = 10_000
_LARGE_BYTES = 16 << 20


class Part(NamedTuple):
    """One task of a stateful bolt, or a range of its keys."""

    component: str
    task: int
    namespace: str
    keys: KeyRange = ALL_KEYS


class Entries(NamedTuple):
    """Entries of one task, column by column."""

    keys: Sequence[Any]
    values: Sequence[Any]
    expires_at: Sequence[int | None] | None  # ms since 1970, None for an entry that stays; None if no entry expires


class StateReader:
    """The committed state of a topology, as `open_state` returns it. Any number of threads may use it.

    Entries that have expired by this machine's clock are not shown. A value is decoded with the codec that its
    namespace names, and `upcast` is not applied. In a forked process, open the state again.
    """

    def __init__(self, provider: StateProvider, topology: str, prefix: str, codecs: Codecs) -> None:
        """Called by `open_state`. Raises `StateError` if the store has no state of the topology."""
        self._store = provider.describe()
        self._topology = topology
        self._prefix = prefix
        self._codecs = codecs
        self._pool = StoragePool(provider)
        self._lock = threading.Lock()  # of the record and its time
        self._decoders: dict[str, EntryDecoder] = {}
        self._loaded_at = 0.0
        self._record = self._loaded()

    @property
    def components(self) -> tuple[str, ...]:
        """The ids of the stateful bolts, as of the last time that the decision record was read."""
        return tuple(_bolts(self._record))

    def get(self, component: str, key: Any, default: Any = None, *, group: Any = _ITSELF) -> Any:
        """Return the committed value of a key, or `default` if the key is absent.

        The call reads the store once. If the key is absent, it may also read the decision record, at most once a
        second: so a key may be absent for up to a second after the topology was started with another parallelism.

        Args:
            component: Id of the stateful bolt.
            key: The key in the bolt's state.
            default: The result for an absent key.
            group: The value by which the bolt's input is grouped, if it is not the key: windows by key have the keys
                (value, start).

        Raises:
            StateError: The topology has no such stateful bolt, its state is a custom one, the value cannot be decoded,
                or the store failed.
            UnsupportedValue: The key is of a type that cannot be a key.
        """
        return self._found(component, [key], group).get(0, default)

    def get_many(self, component: str, keys: Iterable[Any], *, group: Any = _ITSELF) -> dict[Any, Any]:
        """Return the committed values of the keys that are there, by key.

        The call reads each task that has one of the keys once. While the topology runs, values from two tasks may be
        those of two successive waves.

        Args:
            component: Id of the stateful bolt.
            keys: The keys.
            group: The value by which the bolt's input is grouped, the same for all keys; see `get`.

        Raises:
            StateError, UnsupportedValue: As for `get`.
        """
        wanted = list(keys)
        found = self._found(component, wanted, group)
        return {wanted[place]: value for place, value in found.items()}

    def items(self, component: str) -> Iterator[tuple[Any, Any]]:
        """Yield all entries of a stateful bolt, in any order, as they were after one wave.

        Raises:
            StateError: As for `get`. Or a wave that changes the bolt's state was committed meanwhile: drop what was
                yielded, and call it again, or stop the topology first.
        """
        record = self._loaded()
        namespaces = self._namespaces(record, component)
        open_now = sorted(set(namespaces).intersection(record.winners)) if _is_committing(record) else []
        if open_now:
            raise StateError(
                f"txid {record.txid} is being committed in {', '.join(open_now)}. Try again; if the topology does not "
                "run, start it once: this finishes the commit.",
                namespace=open_now[0],
            )
        return self._scanned(component, record, [name for name in namespaces if name in record.namespaces])

    def parts(self, components: Sequence[str] = ()) -> tuple[DecisionRecord, list[Part]]:
        """Return the decision record, and a part for each task with entries, of these bolts or of all.

        For `state_frame`.
        """
        record = self._loaded()
        found = [
            Part(component, task, name)
            for component in components or _bolts(record)
            for task, name in enumerate(self._namespaces(record, component))
        ]
        if _is_committing(record):
            raise _moved(found[0].component if found else "", record_namespace(self._prefix))
        return record, [part for part in found if part.namespace in record.namespaces]

    def divided(self, part: Part, parts: int) -> list[Part]:
        """Divide the part of a task into about `parts`, if it is large and the store can. For `state_frame`."""
        with self._pool.borrowed(part.namespace) as storage:
            size = storage.size()
            small = size is not None and size < _LARGE_BYTES
            return [part] if small else [part._replace(keys=each) for each in storage.ranges(parts)]

    def pages(self, part: Part, record: DecisionRecord, keys: Sequence[Any] | None = None) -> Iterator[Entries]:
        """Yield the entries of a task as of a decision record; with `keys`, only theirs. For `state_frame`.

        Raises as `items`.
        """
        name, committed = part.namespace, record.namespaces[part.namespace]
        at = ReadPosition(committed.txid, committed.attempt)
        with self._pool.borrowed(name) as storage:
            decoder = self._decoder(storage)
            if decoder is None:
                raise _moved(part.component, name)
            if keys is None:
                pages = storage.scan_range(part.keys, _PAGE, at)
            else:
                pages = _looked_up(storage, _encoded(decoder, keys), at)
            while True:
                try:
                    page = next(pages, None)
                except StaleAttempt as error:
                    raise _moved(part.component, name) from error
                # Some stores apply a commit in steps, and `at` is the old position until the last of them. A commit
                # begins after its decision: without a new decision, what was read is whole.
                if self._loaded().namespaces.get(name) != committed:
                    raise _moved(part.component, name)
                if page is None:
                    return
                yield self._entries(name, decoder, page)

    def close(self) -> None:
        """Close the connections and files. May be called twice."""
        self._pool.close()

    def __enter__(self) -> StateReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _found(self, component: str, keys: Sequence[Any], group: Any) -> dict[int, Any]:
        """Return the values of the keys that are there, by the keys' places."""
        record = self._record
        if component not in _bolts(record):
            record = self._loaded()
        found = self._looked_up(self._namespaces(record, component), keys, group)
        if len(found) < len(keys) and time.monotonic() - self._loaded_at >= REFRESH_S:
            newer = self._loaded()
            namespaces = self._namespaces(newer, component)
            if len(namespaces) != record.parallelism[component]:
                found = self._looked_up(namespaces, keys, group)
        return found

    def _looked_up(self, namespaces: Sequence[str], keys: Sequence[Any], group: Any) -> dict[int, Any]:
        places: defaultdict[int, list[int]] = defaultdict(list)
        for place, key in enumerate(keys):
            value = key if group is _ITSELF else group
            task = destination_of(stable_hash(value), len(namespaces)) if len(namespaces) > 1 else 0
            places[task].append(place)
        found: dict[int, Any] = {}
        for task, of_task in places.items():
            with self._pool.borrowed(namespaces[task]) as storage:
                decoder = self._decoder(storage)
                if decoder is None:
                    continue
                data = [decoder.key_bytes(keys[place]) for place in of_task]
                stored = storage.get_many(data)
            for place, key, value in zip(of_task, data, stored, strict=True):
                if (entry := _live(storage.namespace, key, value)) is not None:
                    found[place] = self._value(storage.namespace, decoder.entry(key, entry))
        return found

    def _scanned(self, component: str, record: DecisionRecord, namespaces: Sequence[str]) -> Iterator[tuple[Any, Any]]:
        for task, name in enumerate(namespaces):
            for page in self.pages(Part(component, task, name), record):
                yield from zip(page.keys, page.values, strict=True)

    def _loaded(self) -> DecisionRecord:
        """Read the decision record."""
        name = record_namespace(self._prefix)
        with self._pool.borrowed(name) as storage:
            record, _ = DecisionLog(storage).load()
        if record is None or record.topology not in ("", self._topology):
            found = "has no decision record" if record is None else f"is that of {record.topology!r}"
            raise StateError(
                f"{self._store} has no state of topology {self._topology!r}: {name} {found}. Give the configuration of "
                "the runs, or start the topology first.",
                namespace=name,
            )
        with self._lock:
            self._record, self._loaded_at = record, time.monotonic()
        return record

    def _namespaces(self, record: DecisionRecord, component: str) -> list[str]:
        bolts = _bolts(record)
        if component not in bolts:
            raise StateError(
                f"there is no stateful bolt {component!r} of topology {self._topology!r} in {self._store}. Its "
                f"stateful bolts: {', '.join(bolts) or 'none'}.{did_you_mean(component, bolts)}",
                namespace=record_namespace(self._prefix),
            )
        return [task_namespace(self._prefix, component, index) for index in range(record.parallelism[component])]

    def _decoder(self, storage: StateStorage) -> EntryDecoder | None:
        """Return the decoder of a namespace; None if nothing has been written there."""
        name = storage.namespace
        if name in self._decoders:
            return self._decoders[name]
        header = storage.head().codec
        if not header:
            return None
        if header == CUSTOM_HEADER:
            raise StateError(
                f"{name} belongs to a custom state and has no entries. Read it with its own class.", namespace=name
            )
        decoder = EntryDecoder(name, header, self._codecs)
        for note in decoder.notes:
            raise StateError(
                f"{name}: {note}. Give open_state({self._topology!r}, conf) the configuration of the runs.",
                namespace=name,
            )
        self._decoders[name] = decoder
        return decoder

    def _entries(self, namespace: str, decoder: EntryDecoder, page: Sequence[tuple[bytes, bytes]]) -> Entries:
        try:
            keys, values, expires_at = live_columns(page, _now())
        except SerializationError as error:
            raise StateCorrupted(f"state {namespace!r}: {error}. {START_OVER}.", namespace=namespace) from error
        try:
            return Entries(*decoder.columns(keys, values), expires_at)
        except SerializationError:
            for key, value in zip(keys, values, strict=True):
                entry = decoder.entry(key, Live(key, value))
                if entry.key.problem:
                    raise StateError(
                        f"{namespace}: a key cannot be decoded: {entry.key.problem}", namespace=namespace
                    ) from None
                self._value(namespace, entry)
            raise

    def _value(self, namespace: str, entry: Entry) -> Any:
        assert entry.value is not None, "an absent entry is not decoded"
        if entry.value.problem:
            raise StateError(
                f"{namespace}: the value of {shortened(entry.key.shown)} cannot be decoded: {entry.value.problem}. "
                f"anchorbolt state get {namespace} shows its bytes.",
                namespace=namespace,
            )
        return entry.value.value


def _bolts(record: DecisionRecord) -> list[str]:
    return [name for name in record.parallelism if not name.startswith("__")]


def _is_committing(record: DecisionRecord) -> bool:
    return record.state.phase is Phase.COMMITTING


def _live(namespace: str, key: bytes, stored: bytes | None) -> Live | None:
    try:
        return live_entry(key, stored, _now())
    except SerializationError as error:
        raise StateCorrupted(f"state {namespace!r}: {error}. {START_OVER}.", namespace=namespace) from error


def _encoded(decoder: EntryDecoder, keys: Sequence[Any]) -> list[bytes]:
    encoded = []
    for key in keys:
        with suppress(UnsupportedValue):  # then the namespace has no such key
            encoded.append(decoder.key_bytes(key))
    return list(dict.fromkeys(encoded))


def _looked_up(storage: StateStorage, keys: Sequence[bytes], at: ReadPosition) -> Iterator[list[tuple[bytes, bytes]]]:
    found = zip(keys, storage.get_many(keys, at=at), strict=True)
    yield [(key, value) for key, value in found if value is not None]


def _moved(component: str, namespace: str) -> StateError:
    return StateError(
        f"a wave has changed the state of {component!r} while it was read. Drop the entries that were read, and call "
        "items again, or stop the topology first.",
        namespace=namespace,
    )


def _now() -> int:
    return int(time.time() * 1000)
