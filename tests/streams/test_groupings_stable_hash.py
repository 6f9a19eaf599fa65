"""The stable hash: pinned by literal values, equal for equal keys, and well spread."""

import datetime as dt
import uuid
from collections import Counter
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import UnsupportedValue
from anchorbolt.streams.hashing import combined_hashes, destination_of, destinations_of, hashes_of, stable_hash

# These values decide which task stores a key. A change of any of them orphans the state of every topology. Each run of
# the tests has another seed of Python's own hash.
PINNED: list[tuple[Any, int]] = [
    ("", 0),
    ("word", 1055783361),
    ("Übergröße", 2302852512),
    ("\ud800", 2996705448),
    (b"", 1013904226),
    (b"word", 2662261114),
    (None, 2027808452),
    (0, 0),
    (1, 4053965289),
    (-1, 469361252),
    (2**61 - 1, 0),
    (2**64 + 1, 4153757685),
    (-(10**30), 2475510831),
    (0.5, 736703857),
    (1e300, 3169424288),
    (float("inf"), 757076392),
    (float("nan"), 387276917),
    (Decimal("0.1"), 576837501),
    (dt.datetime(2024, 2, 29, 12, 30, 1, 5), 3347382462),
    (dt.datetime(2024, 2, 29, 12, 30, tzinfo=dt.timezone(dt.timedelta(hours=2))), 3501124499),
    (dt.date(2024, 2, 29), 2517523149),
    (dt.time(12, 30), 806700547),
    (dt.timedelta(days=1, microseconds=7), 527500760),
    (uuid.UUID(int=12345), 898919138),
    ((), 3668339987),
    (("a", 1), 181935495),
    ((1, ("b", None)), 1198817156),
]


class Colour(IntEnum):
    RED = 7


class Pair(NamedTuple):
    left: int
    right: str


class Text(str):
    __slots__ = ()


numbers = (
    st.integers()
    | st.booleans()
    | st.floats()
    | st.decimals(allow_nan=True)
    | st.integers(-5, 5)
    | st.sampled_from([0.0, -0.0, 1.0, 2.0, Decimal(1), Decimal("1.0"), Decimal("-0"), 2.0**70, 2**70])
)
zones = st.timezones() | st.sampled_from([dt.timezone.utc, dt.timezone(dt.timedelta(hours=5, minutes=30))])
scalars = (
    numbers
    | st.none()
    | st.text()
    | st.binary()
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=zones)
    | st.times()
    | st.timedeltas()
    | st.uuids()
)
keys = st.recursive(scalars, lambda parts: st.lists(parts, max_size=3).map(tuple), max_leaves=6)


@pytest.mark.parametrize(("key", "expected"), PINNED, ids=lambda value: ascii(value))
def test_hash_of_a_key_never_changes(key: Any, expected: int) -> None:
    assert stable_hash(key) == expected


@given(numbers, numbers)
def test_equal_numbers_hash_equal_whatever_their_types(left: Any, right: Any) -> None:
    try:
        equal = left == right
    except ArithmeticError:  # a signalling NaN
        equal = False
    if equal:
        assert stable_hash(left) == stable_hash(right)
        assert stable_hash((left, "x")) == stable_hash((right, "x"))


@pytest.mark.parametrize(
    "equal",
    [
        [1, True, 1.0, Decimal(1), Decimal("1.00")],
        [0, False, -0.0, Decimal("-0")],
        [(1, (2.0,)), (True, (2,))],
        [7, Colour.RED],
        [(7, "x"), Pair(7, "x")],
        ["x", Text("x"), np.str_("x")],
        [5, np.int32(5), np.uint64(5), np.float32(5), np.array(5)],
        [True, np.bool_(True)],
        [2**70, 2.0**70],
        [float("nan"), Decimal("NaN"), Decimal("sNaN")],
    ],
)
def test_equal_keys_of_different_types_hash_equal(equal: list[Any]) -> None:
    assert len({stable_hash(key) for key in equal}) == 1


@given(st.datetimes(min_value=dt.datetime(1900, 1, 2), max_value=dt.datetime(2200, 1, 1)), zones, zones)
def test_one_instant_hashes_equal_in_every_zone(naive: dt.datetime, zone: dt.tzinfo, other: dt.tzinfo) -> None:
    here = naive.replace(tzinfo=zone)
    there = here.astimezone(other)
    if here == there:  # false for times that a zone repeats or skips
        assert stable_hash(here) == stable_hash(there)


def test_instant_at_the_edge_of_the_calendar_has_a_hash() -> None:
    zone = dt.timezone(dt.timedelta(hours=14))
    assert stable_hash(dt.datetime.min.replace(tzinfo=zone)) != stable_hash(dt.datetime.max.replace(tzinfo=zone))


@pytest.mark.parametrize(
    "key",
    [[1], {"a": 1}, {1}, bytearray(b"x"), object(), 1j, ("a", [1]), np.zeros(2)],
    ids=lambda key: type(key).__name__,
)
def test_key_that_can_change_is_refused_by_its_type(key: Any) -> None:
    culprit = key[1] if isinstance(key, tuple) else key
    with pytest.raises(UnsupportedValue, match=f"type {type(culprit).__name__} "):
        stable_hash(key)


def test_tuple_nested_too_deep_is_refused() -> None:
    key: tuple[Any, ...] = ()
    for _ in range(100_000):
        key = (key,)
    with pytest.raises(UnsupportedValue, match="nested too deep"):
        stable_hash(key)


ints = st.integers() | st.integers(-3, 3) | st.sampled_from([2**61 - 1, -(2**61), 2**63])


@pytest.mark.parametrize("rows", [st.tuples(keys, keys), st.tuples(ints, st.text())], ids=["keys", "ints and text"])
@given(data=st.data(), tasks=st.integers(1, 64) | st.just(2**31))
def test_hashing_in_bulk_agrees_with_hashing_one_by_one(rows: Any, data: st.DataObject, tasks: int) -> None:
    drawn = data.draw(st.lists(rows, max_size=8))
    columns = [[row[position] for row in drawn] for position in (0, 1)]
    parts = [hashes_of(column) for column in columns]
    for column, part in zip(columns, parts, strict=True):
        assert part.tolist() == [stable_hash(key) for key in column]
        assert destinations_of(part, tasks).tolist() == [destination_of(stable_hash(key), tasks) for key in column]
    assert combined_hashes(parts).tolist() == [stable_hash(row) for row in drawn]


@pytest.mark.parametrize("tasks", [2, 3, 7, 8, 16, 100])
@pytest.mark.parametrize(
    "make",
    [
        lambda i: i,
        lambda i: i * 1000,
        lambda i: i << 32,
        lambda i: i / 4,
        lambda i: f"user-{i}",
        lambda i: f"{i:08x}",
        lambda i: ("a", i),
        lambda i: (str(i), str(i)),
        lambda i: dt.date.fromordinal(700_000 + i),
        lambda i: uuid.UUID(int=i),
        lambda i: i.to_bytes(8, "big"),
    ],
    ids=["ints", "thousands", "high bits", "quarters", "users", "hex", "tuples", "twins", "days", "uuids", "bytes"],
)
def test_consecutive_keys_are_spread_evenly(make: Any, tasks: int) -> None:
    keys = 40_000
    counts = Counter(destination_of(stable_hash(make(i)), tasks) for i in range(keys))
    share = keys / tasks
    assert len(counts) == tasks
    assert max(abs(count - share) for count in counts.values()) < 5 * share**0.5
