"""The sums of `add` and `add_array`: what is a number, the totals of a column, and the errors. Pure functions."""

from __future__ import annotations

from decimal import Decimal
from operator import add
from typing import TYPE_CHECKING, Any

from anchorbolt.errors import UnsupportedValue
from anchorbolt.state_backends.distinct_keys import DistinctKeys, arrow_of
from anchorbolt.util.messages import shortened
from anchorbolt.util.plain import plain

if TYPE_CHECKING:
    import pyarrow

    from anchorbolt.state_backends.number_column import Numbers

_LARGEST_INT64 = (1 << 63) - 1

_NUMBERS = frozenset({int, float, Decimal, complex})  # a bool is not a number here, as it is not an int among keys


def sum_of(namespace: str, key: Any, stored: Any, delta: Any) -> Any:
    """Return the new value of a key. Raises `UnsupportedValue` if these are not two numbers of fitting types."""
    number = _plain_number(namespace, key, stored, delta)
    try:
        return stored + number
    except (TypeError, ArithmeticError) as error:
        raise _no_sum(namespace, key, stored, delta) from error


def totals_of(
    namespace: str, distinct: DistinctKeys, stored: list[Any], deltas: list[Any]
) -> tuple[list[Any], list[Any]]:
    """Return the new value after each row, and the new value of each key. Raises the errors of `sum_of`."""
    if not (_NUMBERS.issuperset(map(type, stored)) and _NUMBERS.issuperset(map(type, deltas))):
        for key, value in zip(distinct.keys, stored, strict=True):
            _plain_number(namespace, key, value, 0)
        deltas = [_plain_number(namespace, distinct.key_of(row), 0, delta) for row, delta in enumerate(deltas)]
    rows: list[Any] = []
    totals = list(stored)
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
        raise _no_sum(namespace, distinct.keys[place], totals[place], deltas[row]) from error
    return rows, totals


def can_use_numpy(before: Numbers, deltas: Numbers, codes: Numbers | None) -> bool:
    """Return whether NumPy's sums are those of Python: to the bit for floats, and within 64 bits for ints.

    Which NaN two NaNs make is open. In Python, it depends on whether the interpreter has specialised the sum.
    """
    if deltas.dtype.kind == "f":
        return codes is None
    most = 1 if codes is None else len(deltas)
    of_values, of_deltas = (max(int(numbers.max()), -int(numbers.min())) for numbers in (before, deltas))
    return of_values + most * of_deltas <= _LARGEST_INT64


def int_totals_of(before: Numbers, codes: Numbers, deltas: Numbers) -> tuple[Numbers, Numbers]:
    """Return the new value after each row, and the new value of each key. No sum of these ints may leave 64 bits."""
    import numpy

    # NumPy sorts 16 bits by their digits: five times as fast.
    order = numpy.argsort(codes.astype(numpy.uint16) if len(before) <= 1 << 16 else codes, kind="stable")
    by_key = codes[order]
    sums = numpy.cumsum(deltas[order])
    last = numpy.flatnonzero(numpy.append(by_key[1:] != by_key[:-1], True))  # of each key, all of which have rows
    of_earlier_keys = numpy.concatenate([[0], sums[last[:-1]]])
    sums += (before - of_earlier_keys)[by_key]
    rows = numpy.empty_like(sums)
    rows[order] = sums
    return rows, sums[last]


def arrow_of_totals(namespace: str, distinct: DistinctKeys, rows: list[Any], deltas: Any) -> pyarrow.Array:
    """Return the new value after each row as Arrow: int64 or float64, or a type that Arrow infers for Decimals."""
    import pyarrow

    kinds: set[type] = set(map(type, rows))
    if not kinds and isinstance(deltas, pyarrow.Array | pyarrow.ChunkedArray):
        kinds = {float if pyarrow.types.is_floating(deltas.type) else int}
    if kinds - {int}:
        return arrow_of(namespace, rows, pyarrow.float64() if kinds <= {int, float} else None)
    try:
        return pyarrow.array(rows, pyarrow.int64())
    except (pyarrow.ArrowException, OverflowError) as error:
        row = next(row for row, total in enumerate(rows) if not -_LARGEST_INT64 - 1 <= total <= _LARGEST_INT64)
        raise UnsupportedValue(
            f"state {namespace!r}: {rows[row]}, the new value of key {shortened(distinct.key_of(row))}, does not fit "
            "the 64 bits of Arrow's integers. Call add for each key: it adds ints of any size."
        ) from error


def _plain_number(namespace: str, key: Any, stored: Any, delta: Any) -> Any:
    """Return the delta as a plain number. Raises `UnsupportedValue` if it or the stored value is not a number."""
    try:
        number = delta if delta is None else plain(delta)
    except UnsupportedValue:
        number = None
    if type(stored) not in _NUMBERS or type(number) not in _NUMBERS:
        raise _no_sum(namespace, key, stored, delta)
    return number


def _no_sum(namespace: str, key: Any, stored: Any, delta: Any) -> UnsupportedValue:
    return UnsupportedValue(
        f"state {namespace!r}: cannot add {shortened(delta)} to {shortened(stored)}, the value of key "
        f"{shortened(key)}. Add an int or a float to an int or a float, or a Decimal to a Decimal or an int."
    )
