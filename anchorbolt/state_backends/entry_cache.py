"""The cached entries of a task's state: reads them from the store in batches, stages updates, and limits the cache.

`KeyValueState` is this and the methods for the job's author. An entry is in the cache in the form of
`EntryEncoding.value_to_cache`. An update is apart from the cache until it is staged, so that a counter has one look-up
for each read or write; the cache may have the value before it.
"""

import sys
from collections.abc import Container, Iterable, Sequence
from itertools import filterfalse, islice
from typing import TYPE_CHECKING, Any

from anchorbolt.errors import AnchorboltError, StateError, UnsupportedValue
from anchorbolt.serialization.codecs import SINGLE_SCHEMA, Codec, MsgpackCodec, MsgpackKeyCodec, Schema
from anchorbolt.state_backends.attempt import SLICE_UPDATES, AttemptView, TaskNamespace
from anchorbolt.state_backends.cache_budget import CacheBudget
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, StateStorage
from anchorbolt.state_backends.encoding import ABSENT, CacheKey, EncodedValue, EntryEncoding
from anchorbolt.state_backends.state import AttemptScope, State
from anchorbolt.state_backends.timed.entries import TimedEntries
from anchorbolt.state_backends.timed.expiry import Expiry, has_header, with_headers
from anchorbolt.util.keys import has_one_spelling

if TYPE_CHECKING:
    from anchorbolt.state_backends.number_column import NumberColumn

SMALL_INT = 1 << 62
"""The cache holds an int between this and its negative as it is, whatever the codec's limits are."""

LEAST_SHORT = -(1 << 30)
"""Python 3.11 compares ints of up to 30 bits four times as fast as longer ones."""

_SMALL = frozenset({int, float, bool, type(None), type(ABSENT)})  # types of cached values whose bytes are not counted
_NOT_A_KEY = (b"",)  # the cache key of no key: no codec encodes anything as zero bytes
_READ_CHUNK = 4096
_PENDING_BYTES = 64 << 20


class EntryCache(AttemptView, State):
    """The entries that a task's state has in memory. Its methods run in the task's thread only."""

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
        ttl_ms: int | None = None,
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
            ttl_ms: How long an entry lives that is put without a TTL; None for entries that stay.
        """
        self._encoding = EntryEncoding(
            storage.namespace, key_codec or MsgpackKeyCodec(), value_codec or MsgpackCodec(), schema, storage.limits
        )
        self._small_int = SMALL_INT if self._encoding.keeps_ints else -SMALL_INT  # negative: no int is small
        self._short_int = -LEAST_SHORT if self._encoding.keeps_ints else LEAST_SHORT  # likewise
        # Types of values that are put without a check. An int may have too many bits. None may replace a large value.
        self._kept = frozenset({float, bool}) & self._encoding.kept_as_they_are
        self._attempt = TaskNamespace(storage, self._encoding.header)
        self._cache_entries = cache_entries
        self._budget = CacheBudget(cache_entries) if budget is None else budget
        self._pending_entries = pending_entries
        self._cache: dict[CacheKey, Any] = {}  # entries that are committed or staged, ABSENT included
        self._cache_position = (NOTHING_COMMITTED, "")  # the committed txid and winner of `_cache`
        self._cache_bytes = 0
        self._dirty: dict[CacheKey, Any] = {}  # updates that are not staged yet, by key
        self._dirty_bytes = 0
        # Entries of the bulk methods. A key that is in the column is neither in `_cache` nor in `_dirty`.
        self._column: NumberColumn | None = None
        # Of this wave; `prepare_commit` raises it again if the bolt swallowed it.
        self._first_error: AnchorboltError | None = None
        self.timed = TimedEntries(self._encoding, self._attempt, self._read, ttl_ms)  # for the engine, never for a job

    def begin(self, scope: AttemptScope) -> None:
        """Start a wave: forget uncommitted updates, keep cached committed entries. Reads and writes nothing."""
        unfinished = self._updates > 0 or self._attempt.is_unsealed or self.timed.has_changes
        if unfinished or self._cache_position != (scope.committed, scope.winner):
            self._forget(scope)
        self._dirty.clear()
        self._dirty_bytes = 0
        self._first_error = None
        self._attempt.begin(scope)
        for key in self.timed.begin(scope):
            if key in self._cache:
                self._cache[key] = ABSENT

    def prefetch(self, keys: Iterable[Any], *, are_distinct: bool = False) -> None:
        """Fetch the entries of `keys` that are not cached, so that reading them costs no round trip.

        They are fetched in the order of `keys`, so that the evictions of a full cache do not depend on Python's hashes.
        If `keys` is a list that has no key twice, say that they `are_distinct`: it is faster.
        """
        cache, dirty, column = self._cache, self._dirty, self._column or ()
        distinct: Any = keys if are_distinct or isinstance(keys, (dict, set)) else None
        unknown = keys if distinct is None else filterfalse(cache.__contains__, filterfalse(dirty.__contains__, keys))
        cache_keys = dict.fromkeys(map(self._cache_key_or_none, unknown))
        missing = [
            key
            for key in cache_keys
            if key not in cache and key not in dirty and key not in column and key != _NOT_A_KEY
        ]
        self.counters.keys_cached += (len(cache_keys) if distinct is None else len(distinct)) - len(missing)
        if missing:
            self._load(missing, set(cache_keys if distinct is None else distinct))

    def prepare_commit(self, txid: int) -> None:
        """Stage and seal this wave's updates under this attempt; write nothing without updates.

        Raises:
            Fenced: A newer driver or round has taken over.
            StateRegressed: The store is not in the state that the driver expects.
        """
        if self._first_error is not None:
            raise self._first_error
        self._stage_updates()
        self.timed.sweep()
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
        """Forget the oldest cached entries; if the column has updates, all except these.

        Called by the budget while another task of the process runs.
        """
        if self._column is not None and self._column.updates:
            self._cache, self._cache_bytes = {}, 0
            self._column.keep_updates()  # a state with a column has no headers
        else:
            self._drop_oldest(entries)
        return self.clean_entries, self._cache_bytes

    @property
    def clean_entries(self) -> int:
        """The number of cached entries that are not updates."""
        return len(self._cache) + (0 if self._column is None else len(self._column) - self._column.updates)

    @property
    def _updates(self) -> int:
        """The number of updates that are not staged."""
        return len(self._dirty) + (0 if self._column is None else self._column.updates)

    def _updated(self) -> tuple[list[CacheKey], list[Any]]:
        """Return the keys and the cached values of the updates that are not staged."""
        keys, cached = list(self._dirty), list(self._dirty.values())
        if self._column is not None:
            more, numbers = self._column.updated()
            keys += more
            cached += numbers
        return keys, cached

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

    def _put_large(self, key: Any, cache_key: CacheKey, value: Any) -> None:
        """Set a value that is not a small int; stage the updates early if they are large."""
        cached = self._encoding.value_to_cache(key, value)
        self._note_size(cache_key, cached)
        self._dirty[cache_key] = cached
        if self.timed.expiry is not None:
            self.timed.expiry.clear_ttl(cache_key)
        if self._dirty_bytes >= _PENDING_BYTES:
            self._stage_updates()

    def _note_size(self, cache_key: CacheKey, cached: Any) -> None:
        """Count the bytes of an update before it is put."""
        self._dirty_bytes += _size_of(cached) - _size_of(self._dirty.get(cache_key, ABSENT))

    def _take_out(self, cache_keys: Iterable[CacheKey]) -> None:
        """Move keys from the column to the dicts, for a method that works there."""
        column = self._column
        if column is None or not len(column):
            return
        for key in cache_keys:
            if (removed := column.pop(key)) is not None:
                number, is_update = removed
                (self._dirty if is_update else self._cache)[key] = number

    def _fetched(self, cache_key: CacheKey) -> Any:
        """Return the cached form of an entry, which is read from the store if it is not cached."""
        if self._column is not None and (number := self._column.get(cache_key)) is not None:
            return number
        if cache_key in self._dirty:
            return self._dirty[cache_key]
        if cache_key not in self._cache:
            self._load([cache_key])
        return self._cache[cache_key]

    def _fetched_all(self, cache_keys: list[CacheKey], wanted: Iterable[CacheKey] = ()) -> list[Any]:
        """Return the cached form of entries outside the column. If the cache is full, keep `wanted` entries too."""
        dirty = self._dirty
        clean = [key for key in cache_keys if key not in dirty] if dirty else cache_keys
        missing = list(filterfalse(self._cache.__contains__, clean))
        if missing:
            self._load(missing, {*cache_keys, *wanted})
        self.counters.keys_cached += len(cache_keys) - len(missing)
        cache = self._cache
        if not dirty:
            return list(map(cache.__getitem__, cache_keys))
        return [dirty[key] if key in dirty else cache[key] for key in cache_keys]

    def _update(self, cache_keys: list[CacheKey], cached: list[Any]) -> None:
        """Set the cached form of entries; stage updates early if they are many or large."""
        if self._column is not None:
            self._column.remove(cache_keys)
        if self._dirty_bytes or not _SMALL.issuperset(map(type, cached)):
            for key, value in zip(cache_keys, cached, strict=True):
                self._note_size(key, value)
        self._dirty.update(zip(cache_keys, cached, strict=True))
        if self.timed.expiry is not None:
            self.timed.expiry.clear_ttl(*cache_keys)
        self._stage_if_many()

    def _stage_if_many(self) -> None:
        if self._updates >= self._pending_entries or self._dirty_bytes >= _PENDING_BYTES:
            self._stage_updates()

    def _load(self, cache_keys: list[CacheKey], wanted: Container[CacheKey] = ()) -> None:
        """Read entries into the cache; if it is full, keep only `wanted` entries there."""
        try:
            self._attempt.check_head()
            if self._surplus(len(cache_keys)) > 0:
                self._cache = {key: value for key, value in self._cache.items() if key in wanted}
                self._cache_bytes = kept = sum(map(_size_of, self._cache.values()))
                if self._column is not None:
                    self._column.keep_updates(wanted)
                self._keep_headers()
                self._budget.note(self, self.clean_entries + len(cache_keys), kept)
            cached_value = self._encoding.cached_value
            cache = self._cache
            for start in range(0, len(cache_keys), _READ_CHUNK):
                chunk = cache_keys[start : start + _READ_CHUNK]
                stored: Sequence[bytes | None] = self._attempt.read(self._encoding.key_bytes(chunk))
                if self.timed.expiry is not None or has_header(stored):
                    stored = self._made_expiry().opened(chunk, stored)
                self._cache_bytes += sum(map(len, filter(None, stored)))
                for key, data in zip(chunk, stored, strict=True):
                    cache[key] = cached_value(key, data)
        except StateError as error:
            self._first_error = self._first_error or error
            raise

    def _read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Read stored values for timers and the index by time."""
        try:
            return self._attempt.read(keys)
        except StateError as error:
            self._first_error = self._first_error or error
            raise

    def _made_expiry(self) -> Expiry:
        """Return the due times of entries. The column has none, so its entries move to the dicts at the first call."""
        if self.timed.expiry is None and self._column is not None:
            self._take_out(self._column.keys())
            self._column = None
        return self.timed.made_expiry()

    def _keep_headers(self) -> None:
        """Forget the headers of entries that are no longer cached."""
        if self.timed.expiry is not None:
            self.timed.expiry.keep(self._cache, self._dirty)

    def _stage_updates(self) -> None:
        if not self._updates and not self.timed.has_changes:
            return
        keys, cached = self._updated()
        expiry, key_bytes, headers = self.timed.expiry, list[bytes](), list[bytes]()
        try:
            if expiry is not None:  # an update must know the header of the entry that it replaces
                unknown = [key for key in expiry.unknown(keys) if key not in self._cache]
                if unknown:
                    self._load(unknown, set(keys))
                key_bytes = self._encoding.key_bytes(keys)
                headers = expiry.headers(keys, key_bytes, [each is ABSENT for each in cached])
            for start in range(0, len(keys), SLICE_UPDATES):
                part = slice(start, start + SLICE_UPDATES)
                values = self._encoding.value_bytes(cached[part])
                if expiry is None:
                    self._attempt.stage(self._encoding.key_bytes(keys[part]), values)
                else:
                    self._attempt.stage(key_bytes[part], with_headers(headers[part], values))
            self.timed.stage()
        except StateError as error:
            self._first_error = self._first_error or error
            raise
        if self._cache_bytes:
            self._cache_bytes -= sum(_size_of(self._cache.get(key, ABSENT)) for key in self._dirty)
        self._cache_bytes += self._dirty_bytes
        self._cache.update(self._dirty)
        self._dirty.clear()
        self._dirty_bytes = 0
        if self._column is not None:
            self._column.note_staged()
        self._shrink()

    def _forget(self, scope: AttemptScope) -> None:
        self._cache.clear()
        self.timed.forget()
        self._column = None
        self._cache_bytes = 0
        self._cache_position = (scope.committed, scope.winner)
        self._budget.note(self, 0)

    def _surplus(self, more: int = 0) -> int:
        """Return how many entries exceed the limit after adding `more`. Other states of the process make room first."""
        entries = self.clean_entries + more
        surplus = self._budget.claim(self, entries, max(0, self._cache_bytes))
        return max(surplus, entries - self._cache_entries)

    def _shrink(self) -> None:
        """Shorten the cache. All updates are staged, so every entry can be read again."""
        surplus = self._surplus()
        if surplus > 0:
            self._drop_oldest(surplus)
            self._budget.note(self, self.clean_entries, self._cache_bytes)

    def _drop_oldest(self, entries: int) -> None:
        before = len(self._cache)
        self._cache = dict(islice(self._cache.items(), entries, None))
        self._cache_bytes = self._cache_bytes * len(self._cache) // before if before else 0
        self._keep_headers()
        if self._column is not None and entries > before:
            self._column.drop_oldest(entries - before)


def _size_of(cached: Any) -> int:
    """Return the bytes of a cached value; 0 if it is absent or a number."""
    if type(cached) is EncodedValue:
        return len(cached.data)
    return 0 if type(cached) in _SMALL else sys.getsizeof(cached)
