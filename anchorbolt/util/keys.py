"""When two keys are the same: the canonical form, for the grouping that routes a key and the state that stores it.

Keys with the same canonical form are the same key. They are equal in Python too, with two exceptions: all NaNs are one
key, and the two instants of a repeated hour are two keys. But Python's equality across numeric types does not apply:
`1`, `1.0`, `True` and `Decimal(1)` are four keys, also in tuples. A grouping sends all four to one task. See
docs/concepts_reference.md.
"""

import datetime as dt
import decimal
import math
import uuid
from collections.abc import Callable
from typing import Any

from anchorbolt.errors import UnsupportedValue
from anchorbolt.util.messages import shortened
from anchorbolt.util.plain import plain

OF_ONE_FORM: frozenset[type] = frozenset({str, int, bytes, bool, type(None), dt.date, dt.timedelta, uuid.UUID})
"""Types whose keys have one form only."""

_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
_NAN = decimal.Decimal("NaN")
_MICRO, _HOUR, _DAY = dt.timedelta(microseconds=1), dt.timedelta(hours=1), dt.timedelta(days=1)


def canonical_key(key: Any) -> Any:
    """Return the canonical form of a key: the form that is stored and read back.

    There is one zero and one NaN of float, and of Decimal. A Decimal has no trailing zeros (`normalize`). An aware
    datetime or time is in UTC. The same applies in tuples and frozensets. Other types are converted by `plain`.

    Raises:
        UnsupportedValue: The key is mutable, or is not a plain value, or its tuples are nested too deep.
    """
    if type(key) in OF_ONE_FORM:
        return key
    try:
        return _canonical(key)
    except RecursionError:
        raise UnsupportedValue("a key's tuples are nested too deep. Use a flat key.") from None


def _canonical(key: Any) -> Any:
    kind = type(key)
    if kind in OF_ONE_FORM:
        return key
    form = _FORMS.get(kind)
    if form is not None:
        return form(key)
    value = plain(key)
    if type(value) in (list, dict, set):
        raise UnsupportedValue(
            f"a key must not be mutable, and this {kind.__name__} is mutable: {shortened(key)}. Use a tuple of plain "
            "values instead."
        )
    return _canonical(value)


def check_hashable(key: Any) -> None:
    """Raise `UnsupportedValue` if a key is mutable, or holds something mutable."""
    try:
        hash(key)
    except TypeError:
        raise UnsupportedValue(
            f"a key must not be mutable, and this {type(key).__name__} is mutable or holds something mutable: "
            f"{shortened(key)}. Use a tuple of plain values instead."
        ) from None


def has_one_spelling(key: Any) -> bool:
    """Return whether all spellings of a key had the same stored bytes before keys had a canonical form.

    False for a float zero or NaN, a Decimal, and an aware datetime or time. Also False for an unsupported key.
    """
    kind = type(key)
    if kind in OF_ONE_FORM:
        return True
    if kind is float:
        return key != 0 and key == key  # type: ignore[no-any-return]
    if kind is dt.datetime or kind is dt.time:
        return key.utcoffset() is None
    if kind is tuple or kind is frozenset:
        return all(map(has_one_spelling, key))
    if kind is complex:
        return has_one_spelling(key.real) and has_one_spelling(key.imag)
    if kind is decimal.Decimal:
        return key.is_infinite()  # type: ignore[no-any-return]
    try:
        value = plain(key)
    except UnsupportedValue:
        return False
    return type(value) not in (list, dict, set) and has_one_spelling(value)


def is_known_by_equality(key: Any) -> bool:
    """Return whether every plain key that equals this key in Python has the same task.

    Then a dict may remember the task. False for a time that its zone repeats or skips, because its instant depends on
    `fold`, and for types that are not plain: these may define their own equality.
    """
    kind = type(key)
    if kind in OF_ONE_FORM:
        return True
    if kind is tuple:
        return all(map(is_known_by_equality, key))
    if kind is dt.datetime:
        return key.tzinfo is None or key.replace(fold=0).utcoffset() == key.replace(fold=1).utcoffset()
    return kind in _FORMS


def _float(key: float) -> float:
    return key + 0.0 if key == key else math.nan  # -0.0 + 0.0 is 0.0


def _decimal(key: decimal.Decimal) -> decimal.Decimal:
    if key.is_nan():
        return _NAN
    return key.normalize(_EXACT) if key else decimal.Decimal()


def _tuple(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return key if OF_ONE_FORM.issuperset(map(type, key)) else tuple(map(_canonical, key))


def _datetime(key: dt.datetime) -> dt.datetime:
    if (key.tzinfo is None or key.tzinfo is dt.timezone.utc) and not key.fold:
        return key
    offset = key.utcoffset()  # with `fold`: the two instants of a repeated hour are two keys
    naive = key.replace(tzinfo=None, fold=0)
    if offset is None:
        return naive
    # As a time since the first datetime, because the instant may be outside the range of years in UTC.
    since, most = naive - dt.datetime.min - offset, dt.datetime.max - dt.datetime.min
    zone, shift = _nearest_zone(since, most)
    return (dt.datetime.min + (since + shift)).replace(tzinfo=zone)


def _time(key: dt.time) -> dt.time:
    offset = key.utcoffset()
    if offset is None:
        return key.replace(tzinfo=None, fold=0)
    naive = dt.datetime.combine(dt.date.min, key.replace(tzinfo=None))
    since = naive - dt.datetime.min - offset
    zone, shift = _nearest_zone(since, _DAY - _MICRO)  # 01:00+02:00 is before midnight UTC, and is not equal to 23:00
    return (dt.datetime.min + (since + shift)).time().replace(tzinfo=zone)


def _nearest_zone(since: dt.timedelta, most: dt.timedelta) -> tuple[dt.timezone, dt.timedelta]:
    """Return UTC or the nearest zone, in whole hours, in which a time is between zero and `most`."""
    if since < dt.timedelta():
        shift = min(_HOUR * -(since // _HOUR), _DAY - _MICRO)
    elif since > most:
        shift = max(_HOUR * ((most - since) // _HOUR), _MICRO - _DAY)
    else:
        return dt.timezone.utc, dt.timedelta()
    return dt.timezone(shift), shift


_FORMS: dict[type, Callable[[Any], Any]] = {
    float: _float,
    tuple: _tuple,
    frozenset: lambda key: frozenset(map(_canonical, key)),
    decimal.Decimal: _decimal,
    dt.datetime: _datetime,
    dt.time: _time,
    complex: lambda key: complex(_float(key.real), _float(key.imag)),
}
