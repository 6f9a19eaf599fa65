"""Converts the values that Storm stored to plain Python values, which our codecs can encode."""

import datetime as dt
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from anchorbolt.errors import UnsupportedValue
from anchorbolt.storm.kryo.values import JavaCollection, JavaScalar, JavaValue

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def plain_value(value: JavaValue) -> Any:
    """Convert a Java value to a plain Python value.

    Numbers become int, float or Decimal; Character, String and enum constants str; Date a datetime in UTC; lists,
    queues and arrays list; maps dict; an Optional its value, or None.

    Raises:
        UnsupportedValue: The value has no plain form, or it is a set or map with an element or key that is mutable or
            equal to another one in Python.
    """
    if isinstance(value, JavaCollection):
        return _collection(value)
    if not isinstance(value, JavaScalar):
        raise _refused(value, f"a {type(value).__name__}")
    convert = _SCALARS.get(value.tag)
    return value.value if convert is None else convert(value)


def _collection(value: JavaCollection) -> Any:
    items = list(map(plain_value, value.items))
    if value.kind == "optional":
        return items[0] if items else None
    if value.kind not in ("set", "map"):
        return items
    keys = items if value.kind == "set" else items[::2]
    try:
        found: Any = set(keys) if value.kind == "set" else dict(zip(keys, items[1::2], strict=True))
    except TypeError:
        raise _refused(value, "a set or map that has a list, set or map as an element or key") from None
    if len(found) < len(keys):
        raise _refused(value, "a set or map with two elements or keys that are equal in Python, such as 1 and 1.0")
    return found


def _floating(value: JavaScalar) -> float:
    layout, size = (">f", 4) if value.tag == "float" else (">d", 8)
    number: float = struct.unpack(layout, value.value.to_bytes(size, "big"))[0]
    return number


def _decimal(value: JavaScalar) -> Decimal:
    return Decimal((int(value.value < 0), tuple(map(int, str(abs(value.value)))), -value.detail))


def _date(value: JavaScalar) -> dt.datetime:
    try:
        return _EPOCH + dt.timedelta(milliseconds=value.value)
    except OverflowError:
        raise _refused(value, "a date outside the years 1 to 9999") from None


def _enum(value: JavaScalar) -> Any:
    if value.value is None:
        raise _refused(value, f"a constant of the enum {value.class_name}, whose names are not known: give --enum")
    return value.value


def _no_plain_form(value: JavaScalar) -> Any:
    raise _refused(value, value.class_name or value.tag)


def _refused(value: JavaValue, what: str) -> UnsupportedValue:
    return UnsupportedValue(f"{value.describe(80)} is {what}, and has no plain form in Python")


_SCALARS: Mapping[str, Callable[[JavaScalar], Any]] = {
    "null": lambda _: None,
    "char": lambda value: chr(value.value),
    "float": _floating,
    "double": _floating,
    "bigdecimal": _decimal,
    "date": _date,
    "enum": _enum,
    **dict.fromkeys(("object", "cycle", "tombstone", "checkpointstate"), _no_plain_form),
}
