"""Makes Arrow arrays of a declared type from Python values, and refuses what Arrow would change without a word.

Arrow makes a date of a datetime, text of bytes, an int of 1.5, and drops the names that a struct does not have. Pure.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from anchorbolt.bolts.column_types import Misfit
from anchorbolt.errors import UnsupportedValue
from anchorbolt.util.plain import PLAIN_TYPES, plain

if TYPE_CHECKING:
    import pyarrow

_NONE = type(None)
_TEXT, _BYTES, _ANY = frozenset({str}), frozenset({bytes}), PLAIN_TYPES


def exact_array(values: Sequence[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    """Return a column of these values. Raises `Misfit` if a value does not fit the type, or would lose a part.

    An int fits a column of floats or decimals, a tuple one of lists. A name that a dict does not have becomes None.
    """
    import pyarrow as pa

    if not PLAIN_TYPES.issuperset(map(type, values)):
        try:
            values = list(map(plain, values))
        except UnsupportedValue as error:
            raise Misfit(error.message) from error
    _check(values, kind)
    try:
        fine = _in_microseconds(kind)
        array = pa.array(values, fine)
        return array if fine == kind else array.cast(kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise Misfit(str(error)) from error


def _check(values: Sequence[Any], kind: pyarrow.DataType) -> None:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _check(values, kind.value_type)
    kinds = set(map(type, values))
    kinds.discard(_NONE)
    for wrong in kinds - _fitting(kind):
        if wrong in PLAIN_TYPES:  # others are in containers: Arrow knows those of NumPy
            raise Misfit(f"the column has the type {kind}, and the value is a {wrong.__name__}")
    if dt.datetime in kinds or dt.time in kinds:
        zoned = {each.tzinfo is not None for each in values if isinstance(each, dt.datetime | dt.time)}
        if (getattr(kind, "tz", None) is None) in zoned:
            raise Misfit(f"the column has times {'with' if getattr(kind, 'tz', None) else 'without'} a zone")
    if list in kinds or tuple in kinds:
        _check(list(chain.from_iterable(each for each in values if each is not None)), kind.value_type)
    if dict in kinds:
        rows = [each for each in values if type(each) is dict]
        names = {field.name: field.type for field in kind}
        for name in dict.fromkeys(chain.from_iterable(rows)):
            if name not in names:
                raise Misfit(f"the column has the type {kind}, without the name {name!r}")
            _check([row.get(name) for row in rows], names[name])
    return None


def _fitting(kind: pyarrow.DataType) -> frozenset[type]:
    """Return the Python types of the values that fit a type."""
    import pyarrow as pa

    is_type = pa.types
    if is_type.is_integer(kind):
        return frozenset({int})
    if is_type.is_floating(kind):
        return frozenset({float, int})
    if is_type.is_decimal(kind):
        return frozenset({decimal.Decimal, int})
    if is_type.is_boolean(kind):
        return frozenset({bool})
    if is_type.is_string(kind) or is_type.is_large_string(kind) or is_type.is_string_view(kind):
        return _TEXT
    if is_type.is_timestamp(kind):
        return frozenset({dt.datetime})
    if is_type.is_date(kind):
        return frozenset({dt.date})
    if is_type.is_time(kind):
        return frozenset({dt.time})
    if is_type.is_duration(kind):
        return frozenset({dt.timedelta})
    if is_type.is_struct(kind):
        return frozenset({dict})
    if is_type.is_null(kind):
        return frozenset()
    if is_type.is_nested(kind):
        return frozenset({list, tuple}) if hasattr(kind, "value_type") else _ANY
    return _BYTES


def _in_microseconds(kind: pyarrow.DataType) -> pyarrow.DataType:
    """Return a type with times in microseconds, from which a cast refuses to drop a part of a second."""
    import pyarrow as pa

    is_type = pa.types
    if is_type.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if is_type.is_time(kind):
        return pa.time64("us")
    if is_type.is_duration(kind):
        return pa.duration("us")
    if is_type.is_struct(kind):
        return pa.struct([field.with_type(_in_microseconds(field.type)) for field in kind])
    if is_type.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_microseconds(kind.value_type)))
    return kind


def keeps_values(found: pyarrow.DataType, wanted: pyarrow.DataType) -> bool:
    """Return whether a safe cast gives values that mean the same; not text of numbers, nor a date of a time."""
    import pyarrow as pa

    is_type = pa.types
    found, wanted = (kind.value_type if is_type.is_dictionary(kind) else kind for kind in (found, wanted))
    if found == wanted or is_type.is_null(found):
        return True
    if is_type.is_struct(found) and is_type.is_struct(wanted):
        types = {field.name: field.type for field in wanted}
        return all(field.name in types and keeps_values(field.type, types[field.name]) for field in found)
    if is_type.is_nested(found) or is_type.is_nested(wanted):
        both = hasattr(found, "value_type") and hasattr(wanted, "value_type")
        return both and keeps_values(found.value_type, wanted.value_type)
    if is_type.is_integer(found):
        return bool(is_type.is_integer(wanted) or is_type.is_floating(wanted) or is_type.is_decimal(wanted))
    if is_type.is_floating(found):
        return bool(is_type.is_integer(wanted) or is_type.is_floating(wanted))
    return _fitting(found) == _fitting(wanted) and (getattr(found, "tz", None) is None) == (
        getattr(wanted, "tz", None) is None
    )
