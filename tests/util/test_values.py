"""Values as JSON, and read back."""

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.serialization import pack
from anchorbolt.util.values import as_json, from_json

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.integers()
    | st.floats(allow_nan=False)  # JSON keeps no bits of a NaN
    | st.text()
    | st.binary()
    | st.none()
    | st.complex_numbers(allow_nan=False)
    | st.uuids()
    | st.decimals(),
    lambda parts: (
        st.lists(parts)
        | st.lists(parts).map(tuple)
        | st.dictionaries(st.text() | st.integers(), parts)
        | st.sets(st.integers() | st.text())
        | st.frozensets(st.binary())
    ),
)


@given(VALUES)
def test_a_value_is_read_back(value: Any) -> None:
    assert pack(from_json(json.loads(json.dumps(as_json(value))))) == pack(value)


@pytest.mark.parametrize(
    "value",
    [
        dt.datetime(2026, 11, 29, 8, 1, 2, 345678),
        dt.datetime(2026, 11, 29, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))),
        dt.date(1, 1, 1),
        dt.time(23, 59, 59, 999999),
        dt.timedelta(days=-7, microseconds=1),
        {"$set": 1, "b": [(), b""]},
    ],
)
def test_times_and_dicts_with_odd_names_are_read_back(value: Any) -> None:
    assert from_json(json.loads(json.dumps(as_json(value)))) == value


@pytest.mark.parametrize(
    "content",
    [
        {"$repr": "x"},
        {"$tuple": 1},
        {"$bytes": "AA"},
        {"$date": "x"},
        {"$decimal": "x"},
        {"$map": [1]},
        {"$set": [[1]]},
        {"$timedelta": 1e300},
        {"$uuid": 7},
        {"$tuple": [], "$set": []},
    ],
)
def test_what_stands_for_no_value_is_refused(content: Any) -> None:
    with pytest.raises(ValueError, match=r"stands for no value|is not a"):
        from_json(content)
