"""The canonical form of keys, for the grouping and for the state; and values as JSON."""

import datetime as dt
import decimal
import json
import math
import uuid
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anchorbolt.errors import UnsupportedValue
from anchorbolt.serialization import pack
from anchorbolt.serialization.codecs import JsonKeyCodec, MsgpackKeyCodec
from anchorbolt.streams import stable_hash
from anchorbolt.util.keys import canonical_key, has_one_spelling, is_known_by_equality
from anchorbolt.util.values import as_json, as_text
from tests.support.keys import KEYS, NUMBERS, UTC, Colour, Level, Pair, Text, identity

BERLIN = ZoneInfo("Europe/Berlin")
FIRST = dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN)
EAST_1, EAST_2 = (dt.timezone(dt.timedelta(hours=hours)) for hours in (1, 2))
SECOND = FIRST.replace(fold=1)
encode, decode = MsgpackKeyCodec().encode, MsgpackKeyCodec().decode


@given(KEYS, KEYS)
@example(FIRST, SECOND)
@example((1, "x"), (True, "x"))
def test_two_keys_have_one_encoding_if_they_are_one_key(left: Any, right: Any) -> None:
    assert (encode(left) == encode(right)) == (identity(left) == identity(right))
    if encode(left) == encode(right):
        assert stable_hash(left) == stable_hash(right)


@given(KEYS | st.frozensets(NUMBERS.filter(lambda key: not Decimal.is_snan(Decimal(key)))))
def test_a_key_is_read_back_as_its_canonical_form(key: Any) -> None:
    data = encode(key)
    again = decode(data)
    assert (pack(again), encode(again)) == (data, data)
    assert pack(canonical_key(again)) == data


@given(KEYS)
def test_a_key_is_routed_as_what_is_read_back(key: Any) -> None:
    assert stable_hash(decode(encode(key))) == stable_hash(key) == stable_hash(decode(pack(key)))


@given(KEYS, KEYS)
@example(FIRST, SECOND)
@example(SECOND, SECOND.astimezone(UTC))
def test_a_dict_may_remember_the_task_of_a_key(left: Any, right: Any) -> None:
    try:
        is_equal = left == right
    except ArithmeticError:  # a signalling NaN
        return
    if is_equal and is_known_by_equality(left) and is_known_by_equality(right):
        assert stable_hash(left) == stable_hash(right)


@given(KEYS, KEYS)
def test_only_keys_with_several_spellings_are_encoded_otherwise_than_before(left: Any, right: Any) -> None:
    if encode(left) == encode(right) and has_one_spelling(left):
        assert pack(left) == pack(right) == encode(left)
        assert has_one_spelling(right)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (-0.0, 0.0),
        (Decimal("-0.00"), Decimal(0)),
        (Decimal("1.00"), Decimal(1)),
        (Decimal("1e3"), Decimal("1E+3")),
        (Decimal("0." + "1" * 60 + "00"), Decimal("0." + "1" * 60)),
        (FIRST, dt.datetime(2024, 10, 27, 0, 30, tzinfo=UTC)),
        (SECOND, dt.datetime(2024, 10, 27, 1, 30, tzinfo=UTC)),
        (dt.datetime(2024, 1, 1, fold=1), dt.datetime(2024, 1, 1)),
        (dt.time(2, tzinfo=dt.timezone(dt.timedelta(hours=1))), dt.time(1, tzinfo=UTC)),
        (dt.time(1, 30, tzinfo=EAST_2), dt.time(0, 30, tzinfo=EAST_1)),
        (dt.time(2, tzinfo=BERLIN), dt.time(2)),
        (("a", (Decimal("2.50"),), frozenset({-0.0})), ("a", (Decimal("2.5"),), frozenset({0.0}))),
        (Colour.RED, "red"),
        (Level.HIGH, 7),
        (Pair(1, Text("x")), (1, "x")),
    ],
    ids=repr,
)
def test_canonical_form(key: Any, expected: Any) -> None:
    assert repr(canonical_key(key)) == repr(expected)
    assert canonical_key(key) == expected


def test_every_nan_of_a_type_is_one_key() -> None:
    assert math.isnan(canonical_key(-math.nan))
    assert encode(float("nan")) == encode(-float("nan")) == encode(math.inf - math.inf)
    assert len({encode(Decimal(text)) for text in ("NaN", "-NaN", "NaN123", "sNaN", "-sNaN4")}) == 1
    assert encode(math.nan) != encode(Decimal("NaN"))


@pytest.mark.parametrize(
    "key", [[1], {}, set(), ("a", [1]), (({"x": 1},),), bytearray(b"x"), object()], ids=lambda key: type(key).__name__
)
def test_a_key_that_is_mutable_or_not_plain_is_refused(key: Any) -> None:
    with pytest.raises(UnsupportedValue):
        canonical_key(key)


def test_a_key_nested_too_deep_is_refused() -> None:
    key: tuple[Any, ...] = ()
    for _ in range(100_000):
        key = (key,)
    with pytest.raises(UnsupportedValue, match="nested too deep"):
        canonical_key(key)


def test_json_keys_have_the_same_zero_and_tell_types_apart() -> None:
    json = JsonKeyCodec()
    assert json.encode(-0.0) == json.encode(0.0) == b"0.0"
    assert len({json.encode(key) for key in (1, 1.0, True, "1")}) == 4
    with pytest.raises(UnsupportedValue):
        json.encode(math.nan)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (2**70, 2**70),
        (float("nan"), {"$float": "nan"}),
        (b"\x00\xff", {"$bytes": "AP8="}),
        ((1, [2]), {"$tuple": [1, [2]]}),
        ({1, 2}, {"$set": [1, 2]}),
        (frozenset({"a"}), {"$frozenset": ["a"]}),
        ({"a": (1,)}, {"a": {"$tuple": [1]}}),
        ({1: "a"}, {"$map": [[1, "a"]]}),
        ({"$tuple": []}, {"$map": [["$tuple", []]]}),
        (dt.datetime(2026, 1, 2, 3), {"$datetime": "2026-01-02T03:00:00"}),
        (dt.date(2026, 1, 2), {"$date": "2026-01-02"}),
        (dt.timedelta(seconds=1.5), {"$timedelta": 1.5}),
        (decimal.Decimal("1.20"), {"$decimal": "1.20"}),
        (uuid.UUID(int=1), {"$uuid": str(uuid.UUID(int=1))}),
        (1 + 2j, {"$complex": "(1+2j)"}),
    ],
)
def test_a_value_has_a_form_in_json(value: Any, shown: Any) -> None:
    assert as_json(value) == shown
    assert json.loads(json.dumps(as_json(value))) == shown


class _Hostile:
    def __init__(self, text: str | None) -> None:
        self.text = text

    def __repr__(self) -> str:
        if self.text is None:
            raise ValueError
        return self.text


def test_text_holds_no_control_characters_whatever_a_repr_gives() -> None:
    assert "\x1b" not in as_text("\x1b[31m")
    assert "\x1b" not in as_text(_Hostile("\x1b[31m"))
    assert as_text(_Hostile(None)) == "(_Hostile, whose repr raises)"
    assert as_text("x" * 100, 10) == "'xxxxxxxxx…"


def test_what_is_nested_too_deep_is_shown_as_text() -> None:
    value: Any = 1
    for _ in range(500):
        value = [value]
    assert "$repr" in json.dumps(as_json(value))
