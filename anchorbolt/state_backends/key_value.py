"""`KeyValueState`: the state that a stateful bolt works with, over any `StateStorage`.

Reads go to the updates of this wave, then to what this process knows to be committed, then to the store, in batches.
It writes nothing that another reader could see: `prepare_commit` stages, and only a commit by the winning attempt
makes it the state.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar, cast, overload

from anchorbolt.errors import (
    CodecMismatch,
    Fenced,
    StaleAttempt,
    StateError,
    StateRegressed,
    UnsupportedValue,
)
from anchorbolt.serialization import Codec, MsgpackCodec
from anchorbolt.state_backends.base import NOTHING_COMMITTED, Fence, NamespaceHead, Seal, StateStorage
from anchorbolt.state_backends.encoding import ABSENT, EncodedValue, EntryEncoding, HeldKey
from anchorbolt.state_backends.state import State

__all__ = ["AttemptScope", "KeyValueState", "StateCounters"]

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_NO_KEY = (b"",)  # encodes no key at all: no codec encodes anything as zero bytes
_READ_CHUNK = 4096
_SLICE_ITEMS = 4096
_SLICE_BYTES = 4 << 20
_PENDING_BYTES = 64 << 20
_SMALL_INT = 1 << 62


@dataclass(frozen=True)
class AttemptScope:
    """On whose behalf a state is used during one wave.

    Attributes:
        fence: The wave's fence.
        txid: The wave's transaction.
        attempt: Id of this attempt of the task, 32 hexadecimal digits.
        committed: The txid that the driver knows to be committed in this namespace.
        winner: The attempt which that came from; empty if nothing is committed.
    """

    fence: Fence
    txid: int
    attempt: str
    committed: int = NOTHING_COMMITTED
    winner: str = ""


@dataclass
class StateCounters:
    """What a state did in one wave.

    Attributes:
        keys_read: Keys asked of the store.
        keys_staged: Updates staged, deletes included.
        read_ms: Time waiting for reads, in ms.
        stage_ms: Time encoding and staging updates, in ms.
    """

    keys_read: int = 0
    keys_staged: int = 0
    read_ms: float = 0.0
    stage_ms: float = 0.0


class KeyValueState(State, Generic[K, V]):
    """Durable entries of one task, checkpointed once a wave.

    Keys are immutable plain values (str, int, bytes, float, bool, None, tuples of these, dates, Decimal, UUID);
    `1`, `True` and `1.0` are three different keys. Values are whatever the codec supports. A value read from the
    state and changed in place does not change the state: put it back.
    """

    def __init__(
        self,
        storage: StateStorage,
        *,
        key_codec: Codec | None = None,
        value_codec: Codec | None = None,
        cache_entries: int = 200_000,
        pending_entries: int = 100_000,
    ) -> None:
        """Make a state over a namespace. Job authors never call this; `init_state` is handed one.

        Args:
            storage: The namespace.
            key_codec: Codec of the keys, msgpack by default.
            value_codec: Codec of the values, msgpack by default.
            cache_entries: How many committed entries are kept in memory between waves.
            pending_entries: How many updated entries are held before a slice of them is staged.
        """
        self._storage = storage
        self._namespace = storage.namespace
        self._encoding = EntryEncoding(
            storage.namespace, key_codec or MsgpackCodec(), value_codec or MsgpackCodec()
        )
        self._cache_entries = cache_entries
        self._pending_entries = pending_entries
        self._known: dict[HeldKey, Any] = {}  # committed and updated entries, ABSENT included
        self._known_at = (NOTHING_COMMITTED, "")  # the committed txid and winner that _known belongs to
        self._updated: dict[HeldKey, None] = {}  # keys updated and not staged yet, in order
        self._updated_bytes = 0
        self._trouble: StateError | None = None  # the first one of this wave: it must not be swallowed
        self._slices = 0
        self._running: Seal | None = None
        self._seal: Seal | None = None
        self._scope: AttemptScope | None = None
        self._checked = False
        self.counters = StateCounters()

    def begin(self, scope: AttemptScope) -> None:
        """Start a wave: forget what was not committed, keep what is known to be. Reads and writes nothing."""
        unfinished = self._updated or (self._slices and self._seal is None)
        if unfinished or self._known_at != (scope.committed, scope.winner):
            self._known.clear()
            self._known_at = (scope.committed, scope.winner)
        self._updated.clear()
        self._updated_bytes = 0
        self._trouble = None
        self._slices = 0
        self._seal = None
        self._scope = scope
        self._checked = False
        self.counters = StateCounters()

    @property
    def seal(self) -> Seal | None:
        """What `prepare_commit` staged and sealed in this wave; None where there was no update."""
        return self._seal

    @property
    def committed(self) -> int:
        """The committed txid that this wave's updates are based on."""
        return self._in_scope().committed

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: V) -> V: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        """Return the value of `key`, or `default` where it has none."""
        kind = type(key)
        held = key if kind is int or kind is str else self._encoding.hold_key(key)
        try:
            value = self._known[held]
        except KeyError:
            held = self._encoding.hold_key(key)
            if held not in self._known:
                self._load([held])
            value = self._known[held]
        kind = type(value)
        if kind is int or kind is str:
            return value
        if value is ABSENT:
            return default
        return self._encoding.value_from(key, value)

    def put(self, key: K, value: V) -> None:
        """Set the value of `key`.

        Raises:
            UnsupportedValue: The key is mutable, or the key or value cannot be encoded. The state is as before.
        """
        # The path of every counter: a key that was read before, or put, has been checked.
        kind = type(key)
        known, updated = self._known, self._updated
        held = key if (kind is str or kind is int) and key in known else self._encoding.hold_key(key)
        if type(value) is int and -_SMALL_INT < value < _SMALL_INT:  # type: ignore[operator]
            known[held] = value
            if held in updated:
                return
        else:
            known[held] = self._hold_large(key, value)
        updated[held] = None
        if len(updated) >= self._pending_entries:
            self._stage_updates()

    def _hold_large(self, key: K, value: V) -> Any:
        """Hold a value of another type than a counter's; many large ones are staged before there are many of them."""
        held = self._encoding.hold_value(key, value)
        self._updated_bytes += len(held.data) if type(held) is EncodedValue else sys.getsizeof(held)
        if self._updated_bytes >= _PENDING_BYTES:
            self._stage_updates()
        return held

    def delete(self, key: K) -> V | None:
        """Remove `key` and return the value that it had, or None."""
        value = self.get(key)
        held = self._encoding.hold_key(key)
        if self._known[held] is not ABSENT:
            self._known[held] = ABSENT
            self._updated[held] = None
            if len(self._updated) >= self._pending_entries:
                self._stage_updates()
        return value

    def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        """Return the entries of those `keys` that have a value; a few round trips at most."""
        wanted = list(keys)
        self.prefetch(wanted)
        found: dict[K, V] = {}
        for key in wanted:
            value = self.get(key, ABSENT)
            if value is not ABSENT:
                found[key] = value  # type: ignore[assignment]
        return found

    def put_many(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Put several entries. Raises `UnsupportedValue` at the first that is refused; those before it are put."""
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        for key, value in pairs:
            self.put(key, value)

    def delete_many(self, keys: Iterable[K]) -> None:
        """Remove several keys; a few round trips at most."""
        wanted = list(keys)
        self.prefetch(wanted)
        for key in wanted:
            self.delete(key)

    def prefetch(self, keys: Iterable[Any]) -> None:
        """Fetch the entries of `keys` that are not known yet, so that reading them costs no round trip."""
        known = self._known
        unknown = keys - known.keys() if isinstance(keys, set) else keys
        held = dict.fromkeys(map(self._hold_if_possible, unknown))
        missing = [key for key in held if key not in known and key != _NO_KEY]
        if missing:
            self._load(missing, keys if isinstance(keys, set) else held)

    def _hold_if_possible(self, key: Any) -> HeldKey:
        """Only a key that is put or read has to be one; what a tuple happens to be grouped by need not."""
        try:
            return self._encoding.hold_key(key)
        except UnsupportedValue:
            return _NO_KEY

    def items(self) -> Iterator[tuple[K, V]]:
        """Yield all entries, in any order, as they are at the first step; a scan of the store, page by page."""
        self._check_head()
        keys = list(self._updated)
        updated = dict(
            zip(self._encoding.key_bytes(keys), [(key, self._known[key]) for key in keys], strict=True)
        )
        encoding = self._encoding
        for page in self._storage.scan(self._overlay()):
            for key_data, data in page:
                if key_data not in updated:
                    key = encoding.key_from(key_data)
                    yield key, encoding.value_from(key, encoding.held_from(key, data))
        for key_data, (_, held) in updated.items():
            if held is not ABSENT:
                key = encoding.key_from(key_data)
                yield key, encoding.value_from(key, held)

    def keys(self) -> Iterator[K]:
        """Yield all keys, see `items`."""
        return (key for key, _ in self.items())

    def values(self) -> Iterator[V]:
        """Yield all values, see `items`."""
        return (value for _, value in self.items())

    def __iter__(self) -> Iterator[K]:
        return self.keys()

    def __len__(self) -> int:
        """Count the entries: a scan of the whole namespace."""
        return sum(1 for _ in self.items())

    def __bool__(self) -> bool:
        return next(iter(self.items()), None) is not None

    def __contains__(self, key: object) -> bool:
        return self.get(cast(K, key), cast(V, ABSENT)) is not ABSENT

    def __getitem__(self, key: K) -> V:
        value = self.get(key, ABSENT)
        if value is ABSENT:
            raise KeyError(key)
        return value  # type: ignore[return-value]

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self.delete(key)

    def prepare_commit(self, txid: int) -> None:
        """Stage and seal this wave's updates under this attempt. Without updates nothing is written.

        Raises:
            Fenced: A newer driver or round has taken over.
            StateRegressed: The store is not where the driver knows it to be.
        """
        scope = self._in_scope()
        if txid != scope.txid:
            raise StaleAttempt(
                f"state {self._namespace!r}: asked to prepare txid {txid} in the wave of txid "
                f"{scope.txid}. This is a fault of Anchorbolt; please report it.",
                namespace=self._namespace,
            )
        if self._trouble is not None:
            raise self._trouble
        if self._seal is not None and not self._updated:
            return
        self._stage_updates()
        if self._slices:
            assert self._running is not None
            started = time.perf_counter()
            self._storage.seal(scope.fence, scope.attempt, self._running)
            self._seal = self._running
            self._known_at = (txid, scope.attempt)
            self.counters.stage_ms += (time.perf_counter() - started) * 1000
        self._shrink()

    def commit(self, txid: int | None = None) -> None:
        """Commit what this attempt staged for `txid`; without a txid, stage and commit all updates at once."""
        scope = self._in_scope()
        if txid is None:
            self.prepare_commit(scope.txid)
            txid = scope.txid
        if self._seal is not None:
            self._storage.commit(scope.fence, txid, scope.attempt)

    def rollback(self) -> None:
        """Forget this wave's updates; what was staged of them is dropped in the store too."""
        scope = self._in_scope()
        if self._slices:
            self._storage.rollback(scope.fence)
        self._known.clear()
        self._updated.clear()
        self._slices = 0
        self._seal = None
        self._known_at = (scope.committed, scope.winner)

    def close(self) -> None:
        """Close the namespace; the state is not used again."""
        self._storage.close()

    def _in_scope(self) -> AttemptScope:
        if self._scope is None:
            raise StateError(
                f"state {self._namespace!r} is used outside a wave. Read and write it in "
                "init_state, execute and the hooks; not on threads of your own, and not after the run.",
                namespace=self._namespace,
            )
        return self._scope

    def _overlay(self) -> str | None:
        return self._in_scope().attempt if self._slices else None

    def _load(self, held: list[HeldKey], wanted: Container[HeldKey] = ()) -> None:
        """Read entries that are not known; where memory is short, forget all but updated and `wanted` ones."""
        try:
            self._check_head()
            started = time.perf_counter()
            if len(self._known) + len(held) > self._cache_entries + len(self._updated):
                self._known = {
                    key: value for key, value in self._known.items() if key in self._updated or key in wanted
                }
            overlay = self._overlay()
            held_from = self._encoding.held_from
            known = self._known
            for start in range(0, len(held), _READ_CHUNK):
                chunk = held[start : start + _READ_CHUNK]
                stored = self._storage.get_many(self._encoding.key_bytes(chunk), overlay)
                for key, data in zip(chunk, stored, strict=True):
                    known[key] = held_from(key, data)
        except StateError as error:
            self._trouble = self._trouble or error
            raise
        self.counters.keys_read += len(held)
        self.counters.read_ms += (time.perf_counter() - started) * 1000

    def _stage_updates(self) -> None:
        if not self._updated:
            return
        started = time.perf_counter()
        known = self._known
        updated = iter(list(self._updated))
        try:
            while chunk := list(islice(updated, _SLICE_ITEMS)):
                keys = self._encoding.key_bytes(chunk)
                values = self._encoding.value_bytes(known[key] for key in chunk)
                for items in _slices(zip(keys, values, strict=True)):
                    self._stage(items)
        except StateError as error:
            self._trouble = self._trouble or error
            raise
        self.counters.keys_staged += len(self._updated)
        self._updated.clear()
        self._updated_bytes = 0
        self._seal = None
        self._shrink()
        self.counters.stage_ms += (time.perf_counter() - started) * 1000

    def _stage(self, items: list[tuple[bytes, bytes | None]]) -> None:
        scope = self._in_scope()
        try:
            self._running = self._storage.stage(
                scope.fence,
                scope.txid,
                scope.attempt,
                scope.committed,
                self._slices,
                items,
                self._encoding.header,
            )
        except StaleAttempt as error:
            self._raise_if_regressed(self._storage.head(), error)
            raise
        self._slices += 1

    def _shrink(self) -> None:
        surplus = len(self._known) - self._cache_entries
        if surplus > 0:
            self._known = dict(islice(self._known.items(), surplus, None))

    def _check_head(self) -> None:
        """Once a wave, before the first read: the namespace must be where the driver knows it to be."""
        if self._checked:
            return
        scope = self._in_scope()
        head = self._storage.head()
        if head.fence > scope.fence:
            raise Fenced(
                f"state {self._namespace!r} is fenced at {tuple(head.fence)}; this attempt has "
                f"{tuple(scope.fence)}: a newer driver or round has taken over.",
                namespace=self._namespace,
            )
        self._raise_if_regressed(head, None)
        if head.codec and head.codec != self._encoding.header:
            raise CodecMismatch(
                f"state {self._namespace!r} was written as {head.codec!r}, but the configuration says "
                f"{self._encoding.header!r}. Set keySerializerClass and valueSerializerClass back to "
                "what wrote it.",
                namespace=self._namespace,
            )
        self._checked = True

    def _raise_if_regressed(self, head: NamespaceHead, cause: Exception | None) -> None:
        scope = self._in_scope()
        if (head.committed, head.winner) != (scope.committed, scope.winner) and head.fence <= scope.fence:
            expected = f"txid {scope.committed} from attempt {scope.winner or '(none)'}"
            found = f"txid {head.committed} from attempt {head.winner or '(none)'}"
            raise StateRegressed(
                f"state {self._namespace!r} must be at {expected}, but the store has {found}. It was restored from "
                "an older copy, or lost data. Nothing was written. Restore the whole store, all namespaces of one "
                "moment, then start again.",
                namespace=self._namespace,
                expected=expected,
                found=found,
            ) from cause


def _slices(
    items: Iterable[tuple[bytes, bytes | None]],
) -> Iterator[list[tuple[bytes, bytes | None]]]:
    """Cut updates into slices of some MiB."""
    waiting: list[tuple[bytes, bytes | None]] = []
    size = 0
    for item in items:
        waiting.append(item)
        size += len(item[0]) + len(item[1] or b"")
        if size >= _SLICE_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting
