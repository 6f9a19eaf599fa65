"""Random keys and other plain values, and when two keys are one key, told without the code under test."""

import datetime as dt
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, NamedTuple

from hypothesis import strategies as st

UTC = dt.timezone.utc
ZONES = st.timezones() | st.sampled_from([UTC, dt.timezone(dt.timedelta(hours=5, minutes=30))])
OFFSETS = st.integers(-1439, 1439).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
NUMBERS: st.SearchStrategy[Any] = (
    st.integers()
    | st.booleans()
    | st.floats()
    | st.decimals()
    | st.sampled_from([0, 0.0, -0.0, 1, 1.0, True, False, Decimal(1), Decimal("1.0"), Decimal("-0"), Decimal("sNaN")])
    | st.sampled_from([float("nan"), -float("nan"), Decimal("NaN"), Decimal("-NaN7"), Decimal("1E+3"), Decimal(1000)])
)
SCALARS: st.SearchStrategy[Any] = (
    NUMBERS
    | st.none()
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=ZONES)
    | st.datetimes(min_value=dt.datetime(2024, 10, 27, 1), max_value=dt.datetime(2024, 10, 27, 4), timezones=ZONES)
    | st.builds(lambda at, zone: at.replace(tzinfo=zone), st.sampled_from([dt.datetime.min, dt.datetime.max]), OFFSETS)
    | st.times()
    | st.times(timezones=OFFSETS)
    | st.timedeltas()
    | st.uuids()
)
KEYS: st.SearchStrategy[Any] = st.recursive(SCALARS, lambda parts: st.lists(parts, max_size=3).map(tuple), max_leaves=4)
"""Keys that a grouping takes; those of a state may be frozensets, too."""


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 7


class Pair(NamedTuple):
    left: int
    right: str


class Text(str):
    __slots__ = ()


def identity(key: Any) -> Any:
    """Return something that is equal for two keys only if they are one key: by its type, and by numbers and texts."""
    kind = type(key).__name__
    if isinstance(key, tuple):
        return (kind, *map(identity, key))
    if isinstance(key, float | Decimal):
        if Decimal.is_nan(Decimal(key)):
            return kind, "nan"
        sign, digits, exponent = Decimal(key).as_tuple()
        if not any(digits) or isinstance(exponent, str):
            return kind, sign if isinstance(exponent, str) else 0, exponent if isinstance(exponent, str) else "zero"
        text = "".join(map(str, digits)).lstrip("0")
        return kind, sign, text.rstrip("0"), exponent + len(text) - len(text.rstrip("0"))
    if isinstance(key, dt.datetime | dt.time):
        offset = key.utcoffset()
        naive = dt.datetime.combine(dt.date.min, key) if isinstance(key, dt.time) else key
        naive = naive.replace(tzinfo=None, fold=0)
        since = naive - dt.datetime.min - (offset or dt.timedelta())
        return kind, offset is None, since
    return kind, key
