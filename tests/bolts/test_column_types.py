"""The types of a sink's columns: inferred widely, joined over waves, and readable by Spark afterwards."""

import datetime as dt
import decimal
import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.bolts.column_types import (
    Misfit,
    array_of,
    grown,
    in_file,
    is_readable_as,
    joined,
    read_schema,
    schema_of,
    type_of,
)
from anchorbolt.errors import StateCorrupted
from tests.support.columns import COLUMNS

D = decimal.Decimal
BERLIN = dt.timezone(dt.timedelta(hours=2))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (D("1.10"), D("12.50")),
        (D("12.50"), D("100000.001")),
        (D("1" * 38), D(5)),
        (dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc), dt.datetime(2024, 7, 1, tzinfo=BERLIN)),
        ([], [1]),
        ([], ["a"]),
        (None, {"a": 1}),
        ({"a": 1}, {"a": None, "b": "x"}),
        ({}, {"a": [{"b": 1.5}]}),
        ({1: "a"}, {2: None}),
        ({1: "a"}, {}),
        (1.5, 1),
        (D("0.5"), 1),
        ((1, 2), [3]),
        ({1}, frozenset({2})),
        (uuid.UUID(int=5), uuid.UUID(int=6)),
        (dt.time(1, tzinfo=dt.timezone.utc), dt.time(2)),
        (dt.timedelta(days=-1, microseconds=1), dt.timedelta(5)),
    ],
)
def test_ordinary_values_of_a_column_fit_in_one_wave_and_in_two(first: Any, then: Any) -> None:
    together = joined(type_of([first]), type_of([then]))
    assert in_file(together) is not None
    array_of([first, then], in_file(together) or pa.null())


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (1, 1.5),
        (1, "a"),
        (1, True),
        ("a", b"a"),
        (b"a", "a"),
        (dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)),
        (dt.datetime(2024, 1, 1), dt.date(2024, 1, 1)),
        (dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=BERLIN)),
        (dt.datetime(2024, 1, 1, tzinfo=BERLIN), dt.datetime(2024, 1, 1)),
        ([1], ["a"]),
        ([1], {"a": 1}),
        ({"a": 1}, {"a": "x"}),
        (D("1.5"), D("1e-19")),
        (1, 2**70),
        (1, D(1)),
    ],
)
def test_a_value_that_would_lose_something_does_not_fit(first: Any, then: Any) -> None:
    known = type_of([first])
    with pytest.raises(Misfit):
        array_of([then], in_file(joined(known, type_of([then]))) or pa.null())


@pytest.mark.parametrize("value", [1j, D("NaN"), {str(number): 1 for number in range(1001)}, (1, "a")])
def test_what_no_column_can_hold_does_not_fit(value: Any) -> None:
    with pytest.raises(Misfit):
        array_of([value], in_file(type_of([value])) or pa.null())


@given(COLUMNS.flatmap(lambda values: st.tuples(*[st.lists(values, max_size=4)] * 3)))
def test_the_order_of_waves_does_not_decide_whether_values_fit(waves: tuple[list[Any], ...]) -> None:
    known = pa.null()
    for values in waves:
        known = joined(known, type_of(values))
    whole = type_of([value for values in waves for value in values])
    assert in_file(joined(known, whole)) == in_file(known)
    written = in_file(known)
    if written is not None:
        array_of([value for values in waves for value in values], written)


@pytest.mark.parametrize(
    ("old", "new", "readable"),
    [
        (pa.int64(), pa.int64(), True),
        (pa.int32(), pa.int64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.int64(), pa.float64(), False),
        (pa.int32(), pa.float64(), True),
        (pa.float32(), pa.float64(), True),
        (pa.float64(), pa.float32(), False),
        (pa.int64(), pa.decimal128(38, 18), True),
        (pa.int64(), pa.decimal128(20, 4), False),
        (pa.decimal128(10, 2), pa.decimal128(20, 4), True),
        (pa.decimal128(20, 4), pa.decimal128(10, 2), False),
        (pa.decimal128(10, 2), pa.decimal128(10, 4), False),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "+01:00"), True),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), False),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), True),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int64()), ("b", pa.string())]), True),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.string())]), False),
        (pa.string(), pa.binary(), False),
        (pa.null(), pa.binary(), True),
    ],
)
def test_a_declared_type_may_be_wider_than_that_of_old_files(old: Any, new: Any, readable: bool) -> None:
    assert is_readable_as(old, new) is readable
    before, after = pa.schema([("v", old)]), pa.schema([("v", new), ("w", pa.int64())])
    if readable:
        assert "w" in grown(before, after).names
    elif not pa.types.is_floating(new) and not pa.types.is_decimal(new):
        with pytest.raises(Misfit):
            grown(before, after)


def test_columns_are_read_back_and_damaged_ones_are_refused() -> None:
    encoded = schema_of([("v", pa.list_(pa.null())), ("w", pa.null())])
    assert read_schema(encoded, "out") == pa.schema([("v", pa.list_(pa.null())), ("w", pa.null())])
    assert read_schema(b"", "out") == pa.schema([])
    with pytest.raises(StateCorrupted):
        read_schema(b"damaged", "out")
