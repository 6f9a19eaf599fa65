"""`KeyValueState`: the state that a stateful bolt works with, over any `StateStorage`.

A read is served from this wave's updates, then from the cache of entries, then from the store in batches.
The state writes nothing that another reader could see: `prepare_commit` stages updates, and the driver's commit of the
winning attempt makes them visible.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, cast, overload

from anchorbolt.errors import AnchorboltError, StateError, UnsupportedValue
from anchorbolt.state_backends.bulk import BulkAccess
from anchorbolt.state_backends.encoding import ABSENT, CacheKey
from anchorbolt.state_backends.entry_cache import LEAST_SHORT, SMALL_INT
from anchorbolt.state_backends.sums import sum_of
from anchorbolt.state_backends.timed.expiry import live
from anchorbolt.util.messages import shortened
from anchorbolt.util.times import NEVER, Duration, positive_ms

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_NOTHING: Any = object()


class KeyValueState(BulkAccess[K, V], Generic[K, V]):
    """Durable entries of one task, checkpointed once a wave.

    Keys are immutable plain values (str, int, bytes, float, bool, None, tuples and frozensets of these, dates,
    Decimal, UUID). Spellings of one key, such as one instant in two time zones, are one entry; `1`, `True` and `1.0`
    are three different keys: see docs/concepts_reference.md. A key is read back in its canonical form. Values are
    whatever the codec supports. A value read from the state and changed in place does not change the state: put it
    back.
    """

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: V) -> V: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        """Return the value of `key`, or `default` if it has none."""
        # First a counter's path. To call `type` again takes less than to keep its result.
        if type(key) is str:
            value = self._dirty.get(key, _NOTHING)
            if type(value) is int:
                return value
            cache_key: Any = key
        else:
            cache_key = key if type(key) is int else self._cache_key(key)
            value = self._dirty.get(cache_key, _NOTHING)
        if value is _NOTHING:
            try:
                value = self._cache[cache_key]
            except KeyError:
                if cache_key is key:
                    cache_key = self._encoding.cache_key(key)
                value = self._fetched(cache_key)
        if type(value) is int or type(value) is str:
            return value
        if value is ABSENT:
            return default
        try:
            return self._encoding.value_from(key, value)
        except AnchorboltError as error:
            self._first_error = self._first_error or error
            raise

    def put(self, key: K, value: V, ttl: Duration | None = None) -> None:
        """Set the value of `key`.

        Args:
            key: The key.
            value: The value.
            ttl: How long the entry lives, from this wave's clock: a timedelta, or text such as "30 min"; "never" for an
                entry that stays. By default the TTL of the bolt, `state_ttl`, or `topology.state.ttl.secs`. A TTL below
                the length of a wave ends with this wave. A later put sets it again.

        Raises:
            UnsupportedValue: The key is mutable, the key or value cannot be encoded, or `ttl` is not a duration above
                zero. The state is as before.
        """
        # `ttl` is not keyword-only: Python 3.11 calls a function that has such arguments 40 ns later.
        if ttl is not None:
            self._put_with_ttl(key, value, ttl)
            return
        # Every counter takes this path. A key of an update or in the cache was checked before.
        if type(key) is str or type(key) is int:
            if key in self._dirty:
                if type(value) is int and value < self._short_int and value > LEAST_SHORT:  # type: ignore[operator]
                    self._dirty[key] = value
                    return
                cache_key: Any = key
            else:
                cache_key = key if key in self._cache else self._key_outside_column(key)
        else:
            cache_key = self._cache_key(key)
        kind = type(value)
        if -SMALL_INT < value < self._small_int if kind is int else kind in self._kept:  # type: ignore[operator]
            self._dirty[cache_key] = value
        else:
            self._put_large(key, cache_key, value)
        if len(self._dirty) >= self._pending_entries:
            self._stage_updates()

    def _put_with_ttl(self, key: Any, value: Any, ttl: Duration) -> None:
        try:
            ttl_ms = None if ttl == NEVER else positive_ms(ttl)
        except ValueError as error:
            raise UnsupportedValue(
                f"state {self._encoding.namespace!r}, TTL for key {shortened(key)}: {error}."
            ) from None
        cache_key, cached = self._cache_key(key), self._encoding.value_to_cache(key, value)
        # From now on each put takes the slow path, which forgets the TTL of an update that it replaces.
        self._small_int, self._short_int, self._kept = -SMALL_INT, LEAST_SHORT, frozenset()
        expiry = self._made_expiry()
        self._note_size(cache_key, cached)
        self._dirty[cache_key] = cached
        expiry.set_ttl(cache_key, ttl_ms)
        self._stage_if_many()

    def _key_outside_column(self, key: Any) -> CacheKey:
        """Return the cache key of a key, which is moved out of the column of the bulk methods."""
        cache_key = self._encoding.cache_key(key)
        if self._column is not None:
            self._take_out((cache_key,))
        return cache_key

    def add(self, key: K, n: Any) -> V:
        """Add a number to the value of `key` and return the new value. A key without a value counts as 0.

        Raises:
            UnsupportedValue: The value or `n` is not a number, or the key is not supported. The state is as before.
        """
        # A counter takes this path.
        kind, number, dirty = type(key), type(n), self._dirty
        if (kind is str or kind is int) and (number is int or number is float):
            value = dirty.get(key, _NOTHING)
            is_update = value is not _NOTHING
            if type(value if is_update else (value := self._cache.get(key))) is number:
                total: Any = value + n
                is_short = total < self._short_int and total > LEAST_SHORT if number is int else float in self._kept
                if is_short:
                    dirty[key] = total
                    if not is_update and len(dirty) >= self._pending_entries:
                        self._stage_updates()
                    return total  # type: ignore[no-any-return]
        value = self.get(key, 0)
        total = sum_of(self._encoding.namespace, key, value, n)
        self.put(key, total)
        return total  # type: ignore[no-any-return]

    def update(self, key: K, f: Callable[[V | None], V]) -> V:
        """Put `f(value)` under `key` and return it; `f` gets None if the key has no value.

        Raises:
            UnsupportedValue: The key, or the result of `f`, is not supported. The state is as before.
        """
        value = f(self.get(key))
        self.put(key, value)
        return value

    def delete(self, key: K) -> V | None:
        """Remove `key` and return the value that it had, or None."""
        value = self.get(key)
        cache_key = self._cache_key(key)
        self._take_out((cache_key,))
        if self._fetched(cache_key) is not ABSENT:
            self._dirty[cache_key] = ABSENT
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

    def put_many(self, entries: Mapping[K, V] | Iterable[tuple[K, V]], *, ttl: Duration | None = None) -> None:
        """Put several entries. Raises `UnsupportedValue` for the first unsupported entry; earlier ones are put."""
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        for key, value in pairs:
            self.put(key, value, ttl=ttl)

    def delete_many(self, keys: Iterable[K]) -> None:
        """Remove several keys in a few round trips at most."""
        wanted = list(keys)
        self.prefetch(wanted)
        for key in wanted:
            self.delete(key)

    def items(self) -> Iterator[tuple[K, V]]:
        """Yield all entries in any order, as of the first step, by a scan of the store page by page.

        An iterator is valid in one wave only: in a later wave it raises `StateError`.
        """
        encoding = self._encoding
        keys, values = self._updated()
        updated = dict(zip(encoding.key_bytes(keys), values, strict=True))
        try:
            for page in self._attempt.scan():
                for key_data, value, _ in live(page, self._attempt.scope.clock):
                    if key_data not in updated:
                        yield encoding.entry_from(key_data, value)
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
