"""`BulkAccess`: the methods of a state that take whole columns, Arrow's or sequences, and `add`.

They leave the same entries, byte for byte, as `get`, `put`, `add` and `delete` called row by row. What can be refused
is refused before the first change. Arrow's dictionary encoding finds the distinct keys of a column; the state then
looks up each of them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from operator import add
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from anchorbolt.errors import AnchorboltError, UnsupportedValue
from anchorbolt.state_backends.encoding import ABSENT, CacheKey, EncodedValue
from anchorbolt.state_backends.entry_cache import EntryCache
from anchorbolt.util.messages import shortened
from anchorbolt.util.plain import plain

if TYPE_CHECKING:
    import numpy
    import pyarrow

K = TypeVar("K")
V = TypeVar("V")

NUMBERS = frozenset({int, float, Decimal, complex})
"""The types that `add` takes. A bool is not a number here, as it is not an int among keys."""

_INT64 = 1 << 63


class DistinctKeys(NamedTuple):
    """The keys of a column: each once."""

    keys: list[Any]  # one spelling of each
    cache_keys: dict[CacheKey, None]  # in the same order
    codes: numpy.ndarray[Any, Any] | None  # for each row, the place of its key; None if no key is repeated

    @property
    def rows(self) -> int:
        return len(self.keys) if self.codes is None else len(self.codes)

    def key_of(self, row: int) -> Any:
        return self.keys[row if self.codes is None else self.codes[row]]


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
        array = self._arrow(values, type)
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
        given, distinct = _listed(values), self._distinct(keys)
        self._check_lengths(distinct, given)
        if distinct.codes is not None:
            last = dict(zip(distinct.codes.tolist(), given, strict=True))
            given = [last[place] for place in range(len(distinct.keys))]
        self._update(distinct.cache_keys, self._encoding.values_to_cache(distinct.keys, given))

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
        given, distinct = _listed(deltas), self._distinct(keys)
        self._check_lengths(distinct, given)
        totals = self._values_of(distinct, 0)
        if not (_are_numbers(totals) and _are_numbers(given)):
            given = self._numbers(distinct, totals, given)
        rows, totals = self._totals(distinct, totals, given)
        array = self._arrow_of_totals(distinct, rows, deltas)
        self._update(distinct.cache_keys, self._encoding.values_to_cache(distinct.keys, totals))
        return array

    def delete_array(self, keys: pyarrow.Array | pyarrow.ChunkedArray | Sequence[K]) -> None:
        """Remove several keys, given as an Arrow array or a sequence, in a few round trips at most."""
        cache_keys = self._distinct(keys).cache_keys
        cached = zip(cache_keys, self._cached(cache_keys), strict=True)
        present = [key for key, value in cached if value is not ABSENT]
        self._update(dict.fromkeys(present), [ABSENT] * len(present))

    def _distinct(self, keys: Any) -> DistinctKeys:
        """Return the keys of a column, each once. Raises `UnsupportedValue` for a key that is not supported."""
        values, codes = _decoded(keys)
        are_cache_keys = self._encoding.are_cache_keys(values)
        cache_keys = values if are_cache_keys else list(map(self._cache_key, values))
        distinct = dict.fromkeys(cache_keys)
        if len(distinct) == len(cache_keys):
            return DistinctKeys(values, distinct, codes)
        import numpy

        places = {key: place for place, key in enumerate(distinct)}
        place_of = numpy.fromiter(map(places.__getitem__, cache_keys), numpy.int64, len(cache_keys))
        spelled = dict(zip(reversed(cache_keys), reversed(values), strict=True))
        return DistinctKeys(
            [spelled[key] for key in distinct], distinct, place_of if codes is None else place_of[codes]
        )

    def _totals(self, distinct: DistinctKeys, totals: list[Any], deltas: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the new value after each row, and the new value of each key, from their values before."""
        rows: list[Any] = []
        try:
            if distinct.codes is None:
                rows.extend(map(add, totals, deltas))
                return rows, rows
            # In Python, because a sum of floats depends on the order, and ints must not wrap.
            for place, delta in zip(distinct.codes.tolist(), deltas, strict=True):
                totals[place] = total = totals[place] + delta
                rows.append(total)
        except (TypeError, ArithmeticError) as error:
            row = len(rows)
            place = row if distinct.codes is None else distinct.codes[row]
            raise self._no_sum(distinct.keys[place], totals[place], deltas[row]) from error
        return rows, totals

    def _values_of(self, distinct: DistinctKeys, default: Any) -> list[Any]:
        """Return the value of each distinct key."""
        cached = self._cached(distinct.cache_keys)
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

    def _check_lengths(self, distinct: DistinctKeys, values: list[Any]) -> None:
        if distinct.rows != len(values):
            raise UnsupportedValue(
                f"state {self._encoding.namespace!r}: {distinct.rows} keys came with {len(values)} values. Give one "
                "value for each key."
            )

    def _numbers(self, distinct: DistinctKeys, stored: list[Any], deltas: list[Any]) -> list[Any]:
        """Return the deltas as plain numbers. Raises the errors of `_plain_number`, for the values before too."""
        for key, value in zip(distinct.keys, stored, strict=True):
            self._plain_number(key, value, 0)
        return [self._plain_number(distinct.key_of(row), 0, delta) for row, delta in enumerate(deltas)]

    def _plain_number(self, key: Any, stored: Any, delta: Any) -> Any:
        """Return the delta as a plain number. Raises `UnsupportedValue` if it or the stored value is not a number."""
        try:
            number = delta if delta is None else plain(delta)
        except UnsupportedValue:
            number = None
        if type(stored) not in NUMBERS or type(number) not in NUMBERS:
            raise self._no_sum(key, stored, delta)
        return number

    def _sum(self, key: Any, stored: Any, delta: Any) -> Any:
        """Return the new value of a key. Raises `UnsupportedValue` if these are not two numbers of fitting types."""
        number = self._plain_number(key, stored, delta)
        try:
            return stored + number
        except (TypeError, ArithmeticError) as error:
            raise self._no_sum(key, stored, delta) from error

    def _no_sum(self, key: Any, stored: Any, delta: Any) -> UnsupportedValue:
        return UnsupportedValue(
            f"state {self._encoding.namespace!r}: cannot add {shortened(delta)} to {shortened(stored)}, the value of "
            f"key {shortened(key)}. Add an int or a float to an int or a float, or a Decimal to a Decimal or an int."
        )

    def _arrow(self, values: list[Any], kind: pyarrow.DataType | None) -> pyarrow.Array:
        import pyarrow

        try:
            return pyarrow.array(values, kind)
        except (pyarrow.ArrowException, OverflowError, ValueError, TypeError) as error:
            wanted = "one type of Arrow" if kind is None else f"the type {kind}"
            raise UnsupportedValue(
                f"state {self._encoding.namespace!r}: values cannot be returned as {wanted}: {error}. Name a type that "
                "holds them all, or call get_many."
            ) from error

    def _arrow_of_totals(self, distinct: DistinctKeys, rows: list[Any], deltas: Any) -> pyarrow.Array:
        """Return totals as Arrow: int64 or float64, or a type that Arrow infers for Decimals."""
        import pyarrow

        kinds: set[type] = set(map(type, rows))
        if not kinds and isinstance(deltas, pyarrow.Array | pyarrow.ChunkedArray):
            kinds = {float if pyarrow.types.is_floating(deltas.type) else int}
        if kinds - {int}:
            return self._arrow(rows, pyarrow.float64() if kinds <= {int, float} else None)
        try:
            return pyarrow.array(rows, pyarrow.int64())
        except (pyarrow.ArrowException, OverflowError) as error:
            row = next(row for row, total in enumerate(rows) if not -_INT64 <= total < _INT64)
            raise UnsupportedValue(
                f"state {self._encoding.namespace!r}: {rows[row]}, the new value of key "
                f"{shortened(distinct.key_of(row))}, does not fit the 64 bits of Arrow's integers. Call add for each "
                "key: it adds ints of any size."
            ) from error


def _are_numbers(values: list[Any]) -> bool:
    return NUMBERS.issuperset(map(type, values))


def _listed(values: Any) -> list[Any]:
    """Return a column as a list of Python values."""
    import numpy
    import pyarrow

    if isinstance(values, pyarrow.Array | pyarrow.ChunkedArray):
        return list(values.to_pylist())
    is_numbers = isinstance(values, numpy.ndarray) and values.dtype.kind in "biuf"
    return list(values.tolist()) if is_numbers else list(values)


def _decoded(keys: Any) -> tuple[list[Any], numpy.ndarray[Any, Any] | None]:
    """Return keys as Python values, and the place of each row's key among them; None if that is the row itself.

    Arrow's keys come once each, as far as Arrow knows; those of a sequence may repeat.
    """
    import numpy
    import pyarrow

    if isinstance(keys, pyarrow.ChunkedArray):
        keys = keys.unify_dictionaries().combine_chunks()
    if not isinstance(keys, pyarrow.Array):
        return _listed(keys), None
    if not isinstance(keys, pyarrow.DictionaryArray):
        try:
            keys = keys.dictionary_encode()
        except NotImplementedError:  # such as lists, which are not keys either, and UUIDs
            return _listed(keys), None
    codes, values = keys.indices.cast(pyarrow.int64()), keys.dictionary
    places = codes.fill_null(len(values)).to_numpy()
    used = numpy.zeros(len(values) + 1, bool)
    used[places] = True
    # A dictionary may have values for other rows, as that of a slice has.
    if not used[:-1].all():
        values = values.filter(pyarrow.array(used[:-1]))
        places = (numpy.cumsum(used) - 1)[places]
    listed = values.to_pylist()
    if used[-1]:
        listed.append(None)
    in_order = len(listed) == len(places) and bool((places[1:] > places[:-1]).all())
    return listed, None if in_order else places
