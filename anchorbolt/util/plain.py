"""Converts values of other types to plain values: NumPy and pandas scalars, enums, subclasses of plain types.

Called only for types unknown to msgpack, so it costs nothing for ordinary values. NumPy and pandas are never imported
here: if they are not loaded, there are no values of their types.
"""

import datetime as dt
import decimal
import sys
import uuid
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Any

from anchorbolt.errors import UnsupportedValue
from anchorbolt.util.messages import shortened

PLAIN_TYPES: frozenset[type] = frozenset(
    {type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset}
    | {dt.datetime, dt.date, dt.time, dt.timedelta, decimal.Decimal, uuid.UUID}
)

_DATES = ("Y", "M", "W", "D")
"""The units of `datetime64` that mean dates."""


def plain(value: Any) -> Any:
    """Return `value` as one of `PLAIN_TYPES`. The elements of a container do not change.

    An enum becomes its value; a scalar of NumPy or pandas becomes Python's own; a subclass of a plain type becomes that
    type, whatever its methods return. A value of a plain type is returned itself.

    Raises:
        UnsupportedValue: The value is of another type, is a missing value such as `NaT`, or would lose digits.
    """
    while type(value) not in PLAIN_TYPES:
        value = _once(value)
    return value


def unsupported(value: Any) -> UnsupportedValue:
    """Return the error for a value that is not plain."""
    kind = type(value)
    return UnsupportedValue(
        f"type {kind.__module__}.{kind.__qualname__} is not supported: {shortened(value)}. Use "
        "None, bool, int, float, str, bytes, list, tuple, dict, set, or a type of datetime, "
        "decimal or uuid; turn an object of your own into one of these."
    )


def _once(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    numpy: Any = sys.modules.get("numpy")
    pandas: Any = sys.modules.get("pandas")
    # If another thread is still importing the module, there are no values of its types yet.
    if hasattr(numpy, "generic"):
        if isinstance(value, numpy.generic):
            return _of_numpy(numpy, value)
        if isinstance(value, numpy.ndarray) and value.ndim == 0:
            return value[()]
    # Before datetime and timedelta, of which these are subclasses.
    if hasattr(pandas, "Timestamp"):
        if value is pandas.NaT or value is pandas.NA:
            raise _missing(value)
        if isinstance(value, pandas.Timestamp):
            return _exact(value, lambda: value.to_pydatetime(warn=False), loses=bool(value.nanosecond))
        if isinstance(value, pandas.Timedelta):
            return _exact(value, value.to_pytimedelta, loses=bool(value.nanoseconds))
    for kind, as_kind in _BASES.items():
        if isinstance(value, kind):
            return as_kind(value)
    raise unsupported(value)


def _of_numpy(numpy: Any, value: Any) -> Any:
    kind = value.dtype.char
    if kind in "Mm":  # times
        if numpy.isnat(value):
            raise _missing(value)
        return _of_numpy_time(numpy, value)
    if kind in "gG":  # longdouble and clongdouble
        found = float(value) if kind == "g" else complex(value)
        return _exact(value, lambda: found, loses=bool(value == value and type(value)(found) != value))
    if kind == "V" and value.dtype.names is not None:
        return tuple(value[name] for name in value.dtype.names)
    found = value.item()
    if type(found) is type(value):
        raise unsupported(value)
    return found


def _of_numpy_time(numpy: Any, value: Any) -> Any:
    unit = numpy.datetime_data(value.dtype)[0]
    kind: tuple[type, str] = (dt.date, "datetime64[us]")
    if isinstance(value, numpy.timedelta64):
        kind = (dt.timedelta, "timedelta64[us]")
        if unit in ("Y", "M", "generic"):  # without a length
            raise _inexact(value)
    whole = value if kind[0] is dt.date and unit in _DATES else value.astype(kind[1])
    found = whole.item()
    # `item` returns an int if Python's type cannot hold the value, and the conversion may overflow.
    loses = bool(whole.astype(value.dtype) != value) or not isinstance(found, kind[0])
    return _exact(value, lambda: found, loses=loses)


def _exact(value: Any, convert: Callable[[], Any], *, loses: bool) -> Any:
    try:
        found = None if loses else convert()
    except (ValueError, OverflowError):  # a year beyond 9999
        found = None
    if found is None:
        raise _inexact(value)
    return found


def _inexact(value: Any) -> UnsupportedValue:
    kind = type(value)
    return UnsupportedValue(
        f"type {kind.__module__}.{kind.__qualname__} is not supported for {shortened(value)}: Python's own type cannot "
        "hold it exactly. Round it, such as a time to microseconds, or give it as an int or a str."
    )


def _missing(value: Any) -> UnsupportedValue:
    return UnsupportedValue(
        f"a missing value {value!r} of type {type(value).__module__}.{type(value).__qualname__} is not supported. Use "
        "None."
    )


def _datetime(value: dt.datetime) -> dt.datetime:
    parts = (value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
    return dt.datetime(*parts, value.tzinfo, fold=value.fold)


def _time(value: dt.time) -> dt.time:
    return dt.time(value.hour, value.minute, value.second, value.microsecond, value.tzinfo, fold=value.fold)


def _dict(value: dict[Any, Any]) -> dict[Any, Any]:
    return dict(OrderedDict.items(value) if isinstance(value, OrderedDict) else dict.items(value))


# By type, a subclass before its base. The methods are those of the plain type, so that a subclass cannot change them.
_BASES: dict[type[Any], Callable[[Any], Any]] = {
    str: str.__str__,
    bytes: lambda value: bytes(memoryview(value)),
    int: int.__int__,
    float: float.__float__,
    complex: complex.__pos__,
    tuple: lambda value: tuple(tuple.__iter__(value)),
    list: lambda value: list(list.__iter__(value)),
    dict: _dict,
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    dt.datetime: _datetime,
    dt.date: lambda value: dt.date(value.year, value.month, value.day),
    dt.time: _time,
    dt.timedelta: lambda value: dt.timedelta(value.days, value.seconds, value.microseconds),
    decimal.Decimal: decimal.Decimal,
    uuid.UUID: lambda value: uuid.UUID(int=value.int),
}
