"""Strategies for the values of one column of a sink."""

import datetime as dt
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

_TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=5)
_TIMES = st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2100, 1, 1))
_ZONES = st.sampled_from([dt.timezone.utc, *(dt.timezone(dt.timedelta(hours=hours)) for hours in (5.5, -12))])
_SCALARS: list[st.SearchStrategy[Any]] = [
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9),
    _TEXT,
    st.binary(max_size=5),
    st.dates(dt.date(1970, 1, 2), dt.date(2100, 1, 1)),
    _TIMES,
    st.datetimes(dt.datetime(1970, 1, 3), dt.datetime(2100, 1, 1), timezones=_ZONES),
    st.timedeltas(dt.timedelta(-1000), dt.timedelta(1000)),
    st.uuids(),
    st.times(),
]


def _lists(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(values | st.none(), max_size=3)


def _dicts(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    others = {"b": st.booleans() | st.none(), "c": _lists(st.integers(0, 9))}
    return st.fixed_dictionaries({"a": values}, optional=others)


def _maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.integers(0, 9), values, min_size=1, max_size=3)


_COLUMNS: list[st.SearchStrategy[Any]] = [
    *_SCALARS,
    *(_lists(each) for each in _SCALARS),
    *(_dicts(each) for each in _SCALARS),
    *(_maps(each) for each in _SCALARS),
    *(_lists(_dicts(each)) for each in _SCALARS),
    *(_lists(_lists(each)) for each in _SCALARS),
]

COLUMNS = st.sampled_from(_COLUMNS).map(lambda values: values | st.none())
"""Draws the strategy for a column: plain values of one kind, and None."""


def as_spark_shows(value: Any) -> Any:
    """Return a value as Spark returns it from a Parquet file of a sink, by the table of docs/sinks.md."""
    import uuid

    if isinstance(value, list | tuple | set | frozenset):
        return [as_spark_shows(each) for each in value]
    if isinstance(value, dict):
        return {name: as_spark_shows(each) for name, each in value.items()}
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.timezone.utc).replace(tzinfo=None)
    if isinstance(value, uuid.UUID | dt.time):
        return str(value) if isinstance(value, uuid.UUID) else value.isoformat()
    if isinstance(value, Decimal):
        return value.quantize(Decimal("1e-18"))
    return value
