"""`BulkAccess`: the methods of a state that take whole columns, Arrow arrays or sequences.

They leave the same entries, byte for byte, as `get`, `put`, `add` and `delete` called row by row. What can be refused
is refused before the first change. Arrow's dictionary encoding finds the distinct keys of a column; the state then
looks up each of them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from anchorbolt.errors import AnchorboltError, UnsupportedValue
from anchorbolt.state_backends.distinct_keys import DistinctKeys, arrow_of, decoded, listed
from anchorbolt.state_backends.encoding import ABSENT, CacheKey, EncodedValue
from anchorbolt.state_backends.entry_cache import EntryCache
from anchorbolt.state_backends.sums import arrow_of_totals, can_use_numpy, int_totals_of, totals_of

if TYPE_CHECKING:
    import pyarrow

    from anchorbolt.state_backends.number_column import NumberColumn, Numbers, Slots

K = TypeVar("K")
V = TypeVar("V")


class BulkAccess(EntryCache, Generic[K, V]):
    """The part of `KeyValueState` that takes columns."""

    def get_array(
        self,
        keys: pyarrow.Array | pyarrow.ChunkedArray | Sequence[K],
        default: Any = None,
        type: pyarrow.DataType | None = None,
    ) -> pyarrow.Array:
        """Return the values of `keys` as an Arrow array, by position, in a few round trips at most.

        Args:
            keys: An Arrow array or a sequence. Keys may repeat; a null is the key None.
            default: The value for a key that has none.
            type: The type of the result; by default Arrow infers it from the values.

        Raises:
            UnsupportedValue: A key is not supported, or the values do not fit one Arrow type.
        """
        import pyarrow

        distinct = self._distinct(keys)
        values = self._values_of(distinct, default)
        array = arrow_of(self._encoding.namespace, values if type is None else listed(values), type)
        return array if distinct.codes is None else array.take(pyarrow.array(distinct.codes))

    def put_array(
        self,
        keys: pyarrow.Array | pyarrow.ChunkedArray | Sequence[K],
        values: pyarrow.Array | pyarrow.ChunkedArray | Sequence[V],
    ) -> None:
        """Put the values of `values` under the keys of `keys`, by position. The last value of a repeated key counts.

        A null is the key, or the value, None.

        Raises:
            UnsupportedValue: A key or a value is not supported. The state is as before.
        """
        import numpy

        distinct = self._distinct(keys)
        self._check_lengths(distinct, values)
        numbers = self._as_numbers(distinct, values)
        given: Any = listed(values) if numbers is None or distinct.codes is not None else numbers
        if distinct.codes is not None:
            last = dict(zip(distinct.codes.tolist(), given, strict=True))
            given = [last[place] for place in range(len(distinct.keys))]
        if numbers is None:
            self._update(distinct.cache_keys, self._encoding.values_to_cache(distinct.keys, given))
        else:
            slots = self._made_column().slots_of(distinct.keys)
            self._update_column(distinct.keys, slots, numpy.asarray(given, numbers.dtype))

    def add_array(
        self,
        keys: pyarrow.Array | pyarrow.ChunkedArray | Sequence[K],
        deltas: pyarrow.Array | pyarrow.ChunkedArray | Sequence[V],
    ) -> pyarrow.Array:
        """Add numbers to the values of `keys`, by position, and return the new values as an Arrow array.

        A key without a value counts as 0. If a key is repeated, each of its positions gets the total so far. The result
        is `int64` if all values are ints, `float64` if they are floats.

        Raises:
            UnsupportedValue: A key is not supported, a delta or a stored value is not a number, or a total does not fit
                64 bits. The state is as before.
        """
        distinct = self._distinct(keys)
        self._check_lengths(distinct, deltas)
        numbers = self._as_numbers(distinct, deltas)
        if numbers is not None and (before := self._numbers_of(distinct.keys, numbers)) is not None:
            return self._add_numbers(distinct, *before, numbers)
        namespace, stored = self._encoding.namespace, listed(self._values_of(distinct, 0))
        rows, totals = totals_of(namespace, distinct, stored, listed(deltas))
        array = arrow_of_totals(namespace, distinct, rows, deltas)
        self._update(distinct.cache_keys, self._encoding.values_to_cache(distinct.keys, totals))
        return array

    def delete_array(self, keys: pyarrow.Array | pyarrow.ChunkedArray | Sequence[K]) -> None:
        """Remove several keys, given as an Arrow array or a sequence, in a few round trips at most."""
        cache_keys = self._distinct(keys).cache_keys
        cached = zip(cache_keys, self._cached(cache_keys), strict=True)
        present = [key for key, value in cached if value is not ABSENT]
        self._update(present, [ABSENT] * len(present))

    def open_entries(self, keys: list[Any], default: Any) -> tuple[list[CacheKey], list[Any]]:
        """Return the cache keys and the values of distinct keys, for `put_entries`. For Anchorbolt's own bolts."""
        cache_keys = list(map(self._cache_key, keys))
        return cache_keys, listed(self._values_of(DistinctKeys(keys, cache_keys, None), default))

    def put_entries(self, keys: list[Any], cache_keys: list[CacheKey], values: list[Any]) -> None:
        """Put values under distinct keys. Raises `UnsupportedValue`. For Anchorbolt's own bolts."""
        self._update(cache_keys, self._encoding.values_to_cache(keys, values))

    def _distinct(self, keys: Any) -> DistinctKeys:
        """Return the keys of a column, each once. Raises `UnsupportedValue` for a key that is not supported."""
        values, codes, are_distinct = decoded(keys)
        are_cache_keys = self._encoding.are_cache_keys(values)
        cache_keys = values if are_cache_keys else list(map(self._cache_key, values))
        if are_distinct and are_cache_keys:
            return DistinctKeys(values, cache_keys, codes)
        distinct = dict.fromkeys(cache_keys)
        if len(distinct) == len(cache_keys):
            return DistinctKeys(values, cache_keys, codes)
        import numpy

        places = {key: place for place, key in enumerate(distinct)}
        place_of = numpy.fromiter(map(places.__getitem__, cache_keys), numpy.int64, len(cache_keys))
        spelled = dict(zip(reversed(cache_keys), reversed(values), strict=True))
        cache_keys, codes = list(distinct), place_of if codes is None else place_of[codes]
        return DistinctKeys(cache_keys if are_cache_keys else [spelled[key] for key in distinct], cache_keys, codes)

    def _values_of(self, distinct: DistinctKeys, default: Any) -> list[Any] | Numbers:
        """Return the value of each distinct key."""
        cached = self._cached(distinct.cache_keys)
        if not isinstance(cached, list):
            return cached
        kinds = set(map(type, cached))
        if type(ABSENT) in kinds:
            cached = [default if value is ABSENT else value for value in cached]
        if EncodedValue in kinds:
            value_from = self._encoding.value_from
            try:
                return [value_from(*entry) for entry in zip(distinct.keys, cached, strict=True)]
            except AnchorboltError as error:
                self._first_error = self._first_error or error
                raise
        return cached

    def _cached(self, cache_keys: list[CacheKey]) -> list[Any] | Numbers:
        """Return the cached form of the entries of keys, which are fetched if they are not cached."""
        if self._column is None or not cache_keys:
            return self._fetched_all(cache_keys)
        import numpy

        slots = self._column.slots_of(cache_keys)
        places = (slots < 0).nonzero()[0].tolist()
        if not places:
            self.counters.keys_cached += len(cache_keys)
            for kind in (numpy.int64, numpy.float64):
                if (numbers := self._column.numbers_at(slots, kind)) is not None:
                    return numbers
        found: list[Any] = self._column.values_at(slots)
        for place, value in zip(places, self._fetched_all([cache_keys[place] for place in places]), strict=True):
            found[place] = value
        return found

    def _as_numbers(self, distinct: DistinctKeys, values: Any) -> Numbers | None:
        """Return values as an array, if they are numbers that the column can hold for these keys, else None."""
        if distinct.cache_keys is not distinct.keys or not distinct.keys or self.timed.expiry is not None:
            return None
        import numpy
        import pyarrow

        kept = self._encoding.kept_as_they_are
        try:
            if isinstance(values, numpy.ndarray) and values.dtype.kind in "iuf":
                values = pyarrow.array(values)
            if isinstance(values, pyarrow.Array | pyarrow.ChunkedArray):
                is_int, is_float = pyarrow.types.is_integer(values.type), pyarrow.types.is_floating(values.type)
                if values.null_count or not ((is_int and int in kept) or (is_float and float in kept)):
                    return None
                return values.cast(pyarrow.int64() if is_int else pyarrow.float64()).to_numpy()  # type: ignore[no-any-return]
            kinds = set(map(type, values))
            if kinds <= kept and kinds in ({int}, {float}):
                return numpy.array(values, numpy.int64 if kinds == {int} else numpy.float64)
        except (pyarrow.ArrowException, OverflowError):  # ints beyond 64 bits, or a type that Arrow does not know
            pass
        return None

    def _made_column(self) -> NumberColumn:
        if self._column is None:
            from anchorbolt.state_backends.number_column import NumberColumn

            self._column = NumberColumn()
        return self._column

    def _numbers_of(self, keys: list[CacheKey], deltas: Numbers) -> tuple[Numbers, Slots] | None:
        """Return the values of keys, 0 without one, and the keys' slots; None if a value is not of the deltas' type."""
        import numpy

        kind, zero = (numpy.int64, 0) if deltas.dtype == numpy.int64 else (numpy.float64, 0.0)
        column = self._made_column()
        slots = column.slots_of(keys)
        numbers, before = column.numbers_at(slots, kind), column.renumbered
        places = (slots < 0).nonzero()[0]
        if numbers is None or not len(places):
            self.counters.keys_cached += 0 if numbers is None else len(keys)
            return None if numbers is None else (numbers, slots)
        found = self._fetched_all([keys[place] for place in places.tolist()], keys)
        if self._column is None:  # an entry that was read has a TTL
            return None
        found = [zero if value is ABSENT else value for value in found]
        if set(map(type, found)) != {type(zero)}:
            return None
        try:
            numbers[places] = numpy.array(found, kind)
        except OverflowError:
            return None
        # A full cache has been shortened, but it keeps these keys.
        return numbers, slots if column.renumbered == before else column.slots_of(keys)

    def _add_numbers(self, distinct: DistinctKeys, before: Numbers, slots: Slots, deltas: Numbers) -> pyarrow.Array:
        import numpy
        import pyarrow

        if can_use_numpy(before, deltas, distinct.codes):
            if distinct.codes is None:
                with numpy.errstate(all="ignore"):  # infinities and NaNs, as in Python
                    rows = totals = before + deltas
            else:
                rows, totals = int_totals_of(before, distinct.codes, deltas)
            array = pyarrow.array(rows)
        else:
            namespace = self._encoding.namespace
            of_rows, of_keys = totals_of(namespace, distinct, before.tolist(), deltas.tolist())
            array = arrow_of_totals(namespace, distinct, of_rows, deltas)
            totals = numpy.array(of_keys, deltas.dtype)
        self._update_column(distinct.keys, slots, totals)
        return array

    def _update_column(self, keys: list[CacheKey], slots: Slots, numbers: Numbers) -> None:
        """Set the values of keys in their slots; keys without a slot get one. Stage updates early if they are many."""
        column = self._made_column()
        is_new = slots < 0
        if is_new.any():
            new = [keys[place] for place in is_new.nonzero()[0].tolist()]
            for key in new:
                self._note_size(key, ABSENT)
                self._cache.pop(key, None)
                self._dirty.pop(key, None)
            column.update(slots[~is_new], numbers[~is_new])
            column.append(new, numbers[is_new])
        else:
            column.update(slots, numbers)
        self._stage_if_many()

    def _check_lengths(self, distinct: DistinctKeys, values: Any) -> None:
        if distinct.rows != len(values):
            raise UnsupportedValue(
                f"state {self._encoding.namespace!r}: {distinct.rows} keys came with {len(values)} values. Give one "
                "value for each key."
            )
