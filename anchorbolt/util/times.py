"""Durations and points in time as a job's author writes them, converted to milliseconds."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    import pyarrow

Duration = timedelta | str
"""A `timedelta`, or text such as "10 min": a number and one of ms, s, min, h, d, w, or the unit's English name."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)
_TEXT = re.compile(r"(-?\d+(?:\.\d+)?)\s*([a-z]+)")
_UNITS_MS = {
    name: ms
    for ms, names in {
        1: ("ms", "millisecond", "milliseconds"),
        1000: ("s", "sec", "secs", "second", "seconds"),
        60_000: ("min", "mins", "minute", "minutes"),
        3_600_000: ("h", "hour", "hours"),
        86_400_000: ("d", "day", "days"),
        604_800_000: ("w", "week", "weeks"),
    }.items()
    for name in names
}

NEVER = "never"
"""In place of a TTL: the entry stays."""

LATEST_MS = 1 << 53
"""The largest number of milliseconds since 1970, of either sign: a float holds it exactly."""

FURTHEST_MS = LATEST_MS // 4
"""The furthest event time, of either sign, and the longest duration: so an event time plus two durations is a time."""


def to_ms(duration: Duration) -> int:
    """Return a duration in whole ms, rounded up. Raises `ValueError` if it is not one, or is negative."""
    if isinstance(duration, timedelta):
        ms = -(-duration // _MS)
    elif isinstance(duration, str):
        found = _TEXT.fullmatch(duration.strip().lower())
        if found is None or found[2] not in _UNITS_MS:
            raise ValueError(f"{duration!r} is not a duration. Write a number and a unit: ms, s, min, h, d or w")
        ms = -int(-float(found[1]) * _UNITS_MS[found[2]] // 1)
    else:
        raise ValueError(f"{duration!r} is of type {type(duration).__name__}. Pass a timedelta, or text as in '10 min'")
    if not 0 <= ms <= FURTHEST_MS:
        raise ValueError(f"{duration!r} is negative or too long for a duration")
    return ms


def positive_ms(duration: Duration) -> int:
    """Return a duration in ms. Raises `ValueError` if it is not one, or not above zero."""
    ms = to_ms(duration)
    if not ms:
        raise ValueError(f"{duration!r} is not above zero")
    return ms


def instant_ms(value: object, furthest: int = FURTHEST_MS) -> int:
    """Return a point in time as ms since 1970. Raises `ValueError` unless it is an int or an aware datetime."""
    if type(value) is int:
        if -furthest <= value <= furthest:
            return value
        raise ValueError(f"{value} is too far from 1970 for a time in milliseconds")
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // _MS
    what = "a datetime without a time zone" if isinstance(value, datetime) else f"of type {type(value).__name__}"
    raise ValueError(f"{value!r} is {what}. A time is a whole number of milliseconds since 1970, or an aware datetime")


def are_instants(numbers: Collection[int]) -> bool:
    """Return whether all these numbers are event times."""
    return not numbers or (min(numbers) >= -FURTHEST_MS and max(numbers) <= FURTHEST_MS)


def instants_in(column: pyarrow.Array) -> numpy.ndarray | None:
    """Return event times in a column of ints or aware timestamps as `int64`, in ms; None if one is not a time."""
    import pyarrow as pa

    per_unit = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
    times, divided = 1, 1
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        times, divided = per_unit[column.type.unit]
        column = column.cast(pa.int64())
    if column.type != pa.int64() or column.null_count:
        return None
    ticks = column.to_numpy()
    limit = FURTHEST_MS // times
    if len(ticks) and divided == 1 and not (ticks.min() >= -limit and ticks.max() <= limit):
        return None
    instants: numpy.ndarray = ticks * times // divided
    return instants


def bucket_width(distance_ms: int, shift: int) -> int:
    """Return the largest power of two, in ms, that fits 2^shift times into a distance in time; at least 1."""
    return 1 << max(0, (distance_ms >> shift).bit_length() - 1)


def shown_time(ms: int) -> str:
    """Return a point in time as text."""
    try:
        return f"{to_datetime(ms):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return f"{ms} ms"


def to_datetime(ms: int) -> datetime:
    """Return a point in time as an aware datetime in UTC. Raises `OverflowError` outside the years 1 to 9999."""
    return _EPOCH + timedelta(milliseconds=ms)
