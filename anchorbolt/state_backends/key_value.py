"""`KeyValueState`: the state that a stateful bolt works with, over any `StateStorage`.

A read is served from this wave's updates, then from the cache of committed entries, then from the store in batches.
The state writes nothing that another reader could see: `prepare_commit` stages updates, and the driver's commit of the
winning attempt makes them visible.
"""

import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Generic, TypeVar, cast, overload

from anchorbolt.errors import AnchorboltError, StateError, UnsupportedValue
from anchorbolt.serialization.codecs import SINGLE_SCHEMA, Codec, MsgpackCodec, MsgpackKeyCodec, Schema
from anchorbolt.state_backends.attempt import SLICE_UPDATES, AttemptView, TaskNamespace
from anchorbolt.state_backends.cache_budget import CacheBudget
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, StateStorage
from anchorbolt.state_backends.encoding import ABSENT, CacheKey, EncodedValue, EntryEncoding
from anchorbolt.state_backends.state import AttemptScope, State
from anchorbolt.util.keys import has_one_spelling
from anchorbolt.util.messages import shortened

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_NOT_A_KEY = (b"",)  # the cache key of no key: no codec encodes anything as zero bytes
_READ_CHUNK = 4096
_PENDING_BYTES = 64 << 20
_SMALL_INT = 1 << 62


class KeyValueState(AttemptView, State, Generic[K, V]):
    """Durable entries of one task, checkpointed once a wave.

    Keys are immutable plain values (str, int, bytes, float, bool, None, tuples and frozensets of these, dates,
    Decimal, UUID). Spellings of one key, such as one instant in two time zones, are one entry; `1`, `True` and `1.0`
    are three different keys: see docs/concepts_reference.md. A key is read back in its canonical form. Values are
    whatever the codec supports. A value read from the state and changed in place does not change the state: put it
    back.
    """

    def __init__(
        self,
        storage: StateStorage,
        *,
        key_codec: Codec | None = None,
        value_codec: Codec | None = None,
        schema: Schema = SINGLE_SCHEMA,
        cache_entries: int = 200_000,
        pending_entries: int = 100_000,
        budget: CacheBudget | None = None,
    ) -> None:
        """Make a state over a namespace. Job authors never call this; `init_state` receives a state.

        Args:
            storage: The namespace.
            key_codec: Codec of the keys, msgpack by default.
            value_codec: Codec of the values, msgpack by default.
            schema: The schema of the values, and the conversion from older schemas.
            cache_entries: Number of committed entries to keep in memory between waves, at most.
            pending_entries: Number of updated entries to keep before they are staged.
            budget: The limit on the cached entries of all states of this process; by default `cache_entries` for this
                state only.
        """
        self._encoding = EntryEncoding(
            storage.namespace, key_codec or MsgpackKeyCodec(), value_codec or MsgpackCodec(), schema, storage.limits
        )
        self._small_int = _SMALL_INT if self._encoding.keeps_ints else -_SMALL_INT  # negative: no int is small
        self._attempt = TaskNamespace(storage, self._encoding.header)
        self._cache_entries = cache_entries
        self._budget = CacheBudget(cache_entries) if budget is None else budget
        self._pending_entries = pending_entries
        self._cache: dict[CacheKey, Any] = {}  # committed and updated entries, ABSENT included
        self._cache_position = (NOTHING_COMMITTED, "")  # the committed txid and winner of `_cache`
        self._cache_bytes = 0
        self._dirty: dict[CacheKey, None] = {}  # keys with updates that are not staged yet, in order
        self._dirty_bytes = 0
        # Of this wave; `prepare_commit` raises it again if the bolt swallowed it.
        self._first_error: AnchorboltError | None = None

    def begin(self, scope: AttemptScope) -> None:
        """Start a wave: forget uncommitted updates, keep cached committed entries. Reads and writes nothing."""
        unfinished = self._dirty or self._attempt.is_unsealed
        if unfinished or self._cache_position != (scope.committed, scope.winner):
            self._forget(scope)
        self._dirty.clear()
        self._dirty_bytes = 0
        self._first_error = None
        self._attempt.begin(scope)

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: V) -> V: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        """Return the value of `key`, or `default` if it has none."""
        kind = type(key)
        cache_key = key if kind is int or kind is str else self._cache_key(key)
        try:
            value = self._cache[cache_key]
        except KeyError:
            if kind is int or kind is str:
                cache_key = self._encoding.cache_key(key)
            if cache_key not in self._cache:
                self._load([cache_key])
            value = self._cache[cache_key]
        kind = type(value)
        if kind is int or kind is str:
            return value
        if value is ABSENT:
            return default
        try:
            return self._encoding.value_from(key, value)
        except AnchorboltError as error:
            self._first_error = self._first_error or error
            raise

    def put(self, key: K, value: V) -> None:
        """Set the value of `key`.

        Raises:
            UnsupportedValue: The key is mutable, or the key or value cannot be encoded. The state is as before.
        """
        # Every counter takes this path. A key in the cache was checked before.
        kind = type(key)
        cache, dirty = self._cache, self._dirty
        if kind is str or kind is int:
            cache_key = key if key in cache else self._encoding.cache_key(key)
        else:
            cache_key = self._cache_key(key)
        if type(value) is int and -_SMALL_INT < value < self._small_int:  # type: ignore[operator]
            cache[cache_key] = value
            if cache_key in dirty:
                return
        else:
            large = self._large_value_to_cache(key, cache_key, value)
            self._cache[cache_key] = large  # staging may have replaced the dict
        dirty[cache_key] = None
        if len(dirty) >= self._pending_entries:
            self._stage_updates()

    def _large_value_to_cache(self, key: K, cache_key: CacheKey, value: V) -> Any:
        """Return the cached form of a value that is not a small int; stage updates early if they are large."""
        cached = self._encoding.value_to_cache(key, value)
        size, replaced = _size_of(cached), _size_of(self._cache.get(cache_key, ABSENT))
        self._cache_bytes += size - replaced
        self._dirty_bytes += size - (replaced if cache_key in self._dirty else 0)
        if self._dirty_bytes >= _PENDING_BYTES:
            self._stage_updates()
        return cached

    def delete(self, key: K) -> V | None:
        """Remove `key` and return the value that it had, or None."""
        value = self.get(key)
        cache_key = self._cache_key(key)
        if self._cache[cache_key] is not ABSENT:
            self._cache[cache_key] = ABSENT
            self._dirty[cache_key] = None
            if len(self._dirty) >= self._pending_entries:
                self._stage_updates()
        return value

    def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        """Return the entries of those `keys` that have a value, in a few round trips at most.

        Raises `UnsupportedValue` if two different keys are equal in a dict, such as `1` and `True`: call `get` for
        each.
        """
        wanted = list(keys)
        self.prefetch(wanted)
        absent = cast(V, ABSENT)
        values = [self.get(key, absent) for key in wanted]
        present = [(key, value) for key, value in zip(wanted, values, strict=True) if value is not absent]
        found = dict(present)
        if len(found) < len(present) and len(found) < len({self._cache_key(key) for key, _ in present}):
            raise UnsupportedValue(
                "get_many cannot return different keys that are equal in a dict, as 1 and True are. Asked for "
                f"{shortened(wanted)}: call get for each."
            )
        return found

    def put_many(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Put several entries. Raises `UnsupportedValue` for the first unsupported entry; earlier ones are put."""
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        for key, value in pairs:
            self.put(key, value)

    def delete_many(self, keys: Iterable[K]) -> None:
        """Remove several keys in a few round trips at most."""
        wanted = list(keys)
        self.prefetch(wanted)
        for key in wanted:
            self.delete(key)

    def prefetch(self, keys: Iterable[Any]) -> None:
        """Fetch the entries of `keys` that are not cached, so that reading them costs no round trip.

        They are fetched in the order of `keys`, so that the evictions of a full cache do not depend on Python's hashes.
        """
        cache = self._cache
        distinct = keys if isinstance(keys, (dict, set)) else None
        unknown = keys if distinct is None else [key for key in distinct if key not in cache]
        cache_keys = dict.fromkeys(map(self._cache_key_or_none, unknown))
        missing = [key for key in cache_keys if key not in cache and key != _NOT_A_KEY]
        self.counters.keys_cached += (len(cache_keys) if distinct is None else len(distinct)) - len(missing)
        if missing:
            self._load(missing, cache_keys if distinct is None else distinct)

    def _cache_key_or_none(self, key: Any) -> CacheKey:
        """Return the cache key, or `_NOT_A_KEY`: a value of a grouping need not be a valid key."""
        try:
            return self._encoding.cache_key(key)
        except UnsupportedValue:
            return _NOT_A_KEY

    def _cache_key(self, key: Any) -> CacheKey:
        """Return the cache key of a key that the bolt uses. Raises `CodecMismatch` if it may have old spellings."""
        cache_key = self._encoding.cache_key(key)
        if type(cache_key) is tuple and self._attempt.is_older is not False and not has_one_spelling(key):
            try:
                self._attempt.refuse_older()
            except StateError as error:
                self._first_error = self._first_error or error
                raise
        return cache_key

    def items(self) -> Iterator[tuple[K, V]]:
        """Yield all entries in any order, as of the first step, by a scan of the store page by page.

        An iterator is valid in one wave only: in a later wave it raises `StateError`.
        """
        keys = list(self._dirty)
        encoding = self._encoding
        updated = dict(zip(encoding.key_bytes(keys), [self._cache[key] for key in keys], strict=True))
        try:
            for page in self._attempt.scan():
                for key_data, data in page:
                    if key_data not in updated:
                        yield encoding.entry_from(key_data, data)
            for key_data, cached in updated.items():
                if cached is not ABSENT:
                    key = encoding.key_from(key_data)
                    yield key, encoding.value_from(key, cached)
        except StateError as error:
            self._first_error = self._first_error or error
            raise

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
        """Stage and seal this wave's updates under this attempt; write nothing without updates.

        Raises:
            Fenced: A newer driver or round has taken over.
            StateRegressed: The store is not in the state that the driver expects.
        """
        if self._first_error is not None:
            raise self._first_error
        self._stage_updates()
        self._attempt.seal_staged(txid)
        if self._attempt.seal is not None:
            self._cache_position = (txid, self._attempt.scope.attempt)
        self._shrink()

    def commit(self, txid: int | None = None) -> None:
        """Commit this attempt's updates for `txid`; without a txid, stage and commit all updates at once."""
        if txid is None:
            txid = self._attempt.scope.txid
            self.prepare_commit(txid)
        self._attempt.commit(txid)

    def stop_checking_reads(self) -> None:
        """Stop checking reads against the head: the wave failed or has ended. Job authors never call this."""
        self._attempt.stop_checking_reads()

    def rollback(self) -> None:
        """Forget this wave's updates, and drop the staged updates from the store."""
        self._attempt.roll_back()
        self._forget(self._attempt.scope)
        self._dirty.clear()
        self._dirty_bytes = 0

    def close(self) -> None:
        """Close the namespace; the state is not used again."""
        self._budget.forget(self)
        self._attempt.close()

    def evict(self, entries: int) -> tuple[int, int]:
        """Forget the oldest cached entries; if some updates were never staged, forget all other entries.

        Called by the budget while another task of the process runs.
        """
        if self._dirty:
            self._cache = {key: self._cache[key] for key in self._dirty}
            self._cache_bytes = self._dirty_bytes
        else:
            self._drop_oldest(entries)
        return len(self._cache) - len(self._dirty), self._cache_bytes - self._dirty_bytes

    def _load(self, cache_keys: list[CacheKey], wanted: Container[CacheKey] = ()) -> None:
        """Read entries into the cache; if it is full, keep only updated and `wanted` entries."""
        try:
            self._attempt.check_head()
            if self._surplus(len(cache_keys)) > 0:
                self._cache = {key: value for key, value in self._cache.items() if key in self._dirty or key in wanted}
                kept = sum(_size_of(value) for key, value in self._cache.items() if key not in self._dirty)
                self._cache_bytes = self._dirty_bytes + kept
                self._budget.note(self, len(self._cache) - len(self._dirty) + len(cache_keys), kept)
            cached_value = self._encoding.cached_value
            cache = self._cache
            for start in range(0, len(cache_keys), _READ_CHUNK):
                chunk = cache_keys[start : start + _READ_CHUNK]
                stored = self._attempt.read(self._encoding.key_bytes(chunk))
                self._cache_bytes += sum(map(len, filter(None, stored)))
                for key, data in zip(chunk, stored, strict=True):
                    cache[key] = cached_value(key, data)
        except StateError as error:
            self._first_error = self._first_error or error
            raise

    def _stage_updates(self) -> None:
        if not self._dirty:
            return
        cache = self._cache
        dirty = iter(list(self._dirty))
        try:
            while chunk := list(islice(dirty, SLICE_UPDATES)):
                keys = self._encoding.key_bytes(chunk)
                values = self._encoding.value_bytes(cache[key] for key in chunk)
                self._attempt.stage(dict(zip(keys, values, strict=True)))
        except StateError as error:
            self._first_error = self._first_error or error
            raise
        self._dirty.clear()
        self._dirty_bytes = 0
        self._shrink()

    def _forget(self, scope: AttemptScope) -> None:
        self._cache.clear()
        self._cache_bytes = 0
        self._cache_position = (scope.committed, scope.winner)
        self._budget.note(self, 0)

    def _surplus(self, more: int = 0) -> int:
        """Return how many entries exceed the limit after adding `more`. Other states of the process make room first."""
        entries = len(self._cache) - len(self._dirty) + more
        surplus = self._budget.claim(self, entries, max(0, self._cache_bytes - self._dirty_bytes))
        return max(surplus, entries - self._cache_entries)

    def _shrink(self) -> None:
        """Shorten the cache. All updates are staged, so every entry can be read again."""
        surplus = self._surplus()
        if surplus > 0:
            self._drop_oldest(surplus)
            self._budget.note(self, len(self._cache), self._cache_bytes)

    def _drop_oldest(self, entries: int) -> None:
        before = len(self._cache)
        self._cache = dict(islice(self._cache.items(), entries, None))
        self._cache_bytes = self._cache_bytes * len(self._cache) // before if before else 0


def _size_of(cached: Any) -> int:
    """Return the bytes of a cached value; 0 if it is absent or a small int."""
    if type(cached) is EncodedValue:
        return len(cached.data)
    return 0 if cached is ABSENT or type(cached) is int else sys.getsizeof(cached)
