"""Scalars of NumPy and pandas, enums and subclasses: the plain value that they are, everywhere, or refused."""

import datetime as dt
import enum
import subprocess
import sys
import uuid
from collections import Counter, OrderedDict, defaultdict
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import AnchorboltError, UnsupportedValue
from anchorbolt.serialization import JsonCodec, pack, unpack
from anchorbolt.serialization.codecs import MsgpackKeyCodec, PickleCodec
from anchorbolt.streams import stable_hash
from anchorbolt.testing import FeederSpout
from anchorbolt.util.plain import plain
from tests.engine.jobs import NO_RETRIES, BasicBolt, StatefulBolt, chain, finished
from tests.support.keys import Colour, Level, Pair, Text

BERLIN = ZoneInfo("Europe/Berlin")


class Whole(int):
    """Lies about itself."""

    def __int__(self) -> int:
        return 99

    def __str__(self) -> str:
        return "99"


class Ratio(float):
    pass


class Raw(bytes):
    def __bytes__(self) -> bytes:
        return b"other"


class Moment(dt.datetime):
    pass


class Day(dt.date):
    pass


class Clock(dt.time):
    pass


class Span(dt.timedelta):
    pass


class Amount(Decimal):
    pass


class Id(uuid.UUID):
    pass


class Mode(enum.Flag):
    ON = 1
    FAST = 2


class Word(str, enum.Enum):
    YES = "yes"


class Nested(enum.Enum):
    DEEP = Text("deep")


def ordered() -> OrderedDict[str, int]:
    found = OrderedDict(a=1, b=2)
    found.move_to_end("a")
    return found


AT = dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1)
HASHABLE: list[tuple[Any, Any]] = [
    (np.int64(5), 5),
    (np.uint64(2**64 - 1), 2**64 - 1),
    (np.float32(1.5), 1.5),
    (np.float64(1.5), 1.5),
    (np.float16(0.5), 0.5),
    (np.bool_(True), True),
    (np.str_("q"), "q"),
    (np.bytes_(b"q"), b"q"),
    (np.array(5), 5),
    (np.void(b"ab"), b"ab"),
    (np.longdouble(1.5), 1.5),
    (np.datetime64("2024-01-01"), dt.date(2024, 1, 1)),
    (np.datetime64("2024"), dt.date(2024, 1, 1)),
    (np.datetime64("2024-01-01T01"), dt.datetime(2024, 1, 1, 1)),
    (np.datetime64("2024-01-01T00:00:00.000001"), dt.datetime(2024, 1, 1, 0, 0, 0, 1)),
    (np.datetime64("2024-01-01T00:00:00.000001", "ns"), dt.datetime(2024, 1, 1, 0, 0, 0, 1)),
    (np.timedelta64(5, "s"), dt.timedelta(seconds=5)),
    (np.timedelta64(3, "D"), dt.timedelta(3)),
    (np.timedelta64(-1500, "ns") * 2, dt.timedelta(microseconds=-3)),
    (pd.Timestamp("2024-01-01 01:00"), dt.datetime(2024, 1, 1, 1)),
    (pd.Timestamp(AT), AT),
    (pd.Timedelta(1.5, "s"), dt.timedelta(seconds=1.5)),
    (Colour.RED, "red"),
    (Level.HIGH, 7),
    (Mode.ON | Mode.FAST, 3),
    (Word.YES, "yes"),
    (Nested.DEEP, "deep"),
    (Text("x"), "x"),
    (Whole(7), 7),
    (Whole(2**70), 2**70),
    (Ratio(0.5), 0.5),
    (Raw(b"x"), b"x"),
    (Pair(1, "x"), (1, "x")),
    (Pair(Level.HIGH, Text("x")), (7, "x")),
    (Moment(2024, 1, 1, 1), dt.datetime(2024, 1, 1, 1)),
    (Day(2024, 1, 1), dt.date(2024, 1, 1)),
    (Clock(1, 2), dt.time(1, 2)),
    (Span(1), dt.timedelta(1)),
    (Amount("1.5"), Decimal("1.5")),
    (Id(int=5), uuid.UUID(int=5)),
    (dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc), dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)),
]
MUTABLE: list[tuple[Any, Any]] = [
    (Counter("aab"), {"a": 2, "b": 1}),
    (defaultdict(list, {"a": [1]}), {"a": [1]}),
    (ordered(), {"b": 2, "a": 1}),
    (type("Rows", (list,), {})([1, Level.HIGH]), [1, 7]),
    (type("Unique", (set,), {})([1]), {1}),
    (np.array((1, 2.5), dtype="i4,f8")[()], (1, 2.5)),
    ({Level.HIGH: {np.str_("a"): [np.datetime64("2024-01-01")]}}, {7: {"a": [dt.date(2024, 1, 1)]}}),
]
REFUSED: list[Any] = [
    np.datetime64("NaT"),
    np.timedelta64("NaT", "s"),
    pd.NaT,
    pd.NA,
    np.datetime64("2024-01-01T00:00:00.000000001"),
    np.datetime64(10**9, "Y"),
    np.datetime64(10**18, "s"),
    np.timedelta64(1500, "ns"),
    np.timedelta64(1, "M"),
    np.timedelta64(5),
    np.timedelta64(2**62, "s"),
    np.longdouble("1.1") + np.longdouble(2) ** -60,
    np.clongdouble(np.longdouble("1.1") + np.longdouble(2) ** -60),
    pd.Timestamp("2024-01-01 00:00:00.000000123"),
    pd.Timedelta(1, "ns"),
    pd.Series([1]),
    pd.Period("2024-01"),
    np.zeros(2),
    range(3),
    object(),
]


UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps"]


def exactly(value: Any) -> str:
    """Return a text that differs for values that are equal, but have other types."""
    return repr(value)


def kind(value: Any) -> str:
    return type(value).__name__


@pytest.mark.parametrize(("value", "expected"), HASHABLE + MUTABLE, ids=kind)
def test_a_value_is_read_back_as_the_plain_value_that_it_is(value: Any, expected: Any) -> None:
    for given_, wanted in ((value, expected), ({"a": [value]}, {"a": [expected]}), ((1, value), (1, expected))):
        assert exactly(unpack(pack(given_))) == exactly(unpack(pack(wanted)))
        assert pack(given_) == pack(wanted)
    assert type(plain(value)) is type(expected)


@pytest.mark.parametrize(("value", "expected"), HASHABLE, ids=kind)
def test_a_key_is_the_plain_value_that_it_is(value: Any, expected: Any) -> None:
    keys = MsgpackKeyCodec()
    assert keys.encode(value) == keys.encode(expected)
    assert keys.encode((value, 1)) == keys.encode((expected, 1))
    assert stable_hash(value) == stable_hash(expected)
    assert stable_hash((value, 1)) == stable_hash((expected, 1))


@pytest.mark.parametrize("value", REFUSED, ids=kind)
def test_what_is_missing_or_would_lose_digits_is_refused(value: Any) -> None:
    name = type(value).__name__
    for use in (pack, MsgpackKeyCodec().encode, stable_hash):
        for nested in (value, (value,), ("a", (value,))):
            with pytest.raises(UnsupportedValue, match=name):
                use(nested)
    for nested in (value, [value], {"a": value}):
        with pytest.raises(UnsupportedValue, match=name):
            JsonCodec().encode(nested)


def test_complex_numbers_stay_complex() -> None:
    assert exactly(unpack(pack(np.complex64(1j)))) == exactly(unpack(pack(1j))) == "1j"
    assert exactly(unpack(pack(np.clongdouble(1.5 + 2j)))) == "(1.5+2j)"


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.sampled_from(UNITS))
def test_a_numpy_time_is_exact_or_refused(count: int, unit: str) -> None:
    for make, form in ((np.datetime64, "datetime64[{}]"), (np.timedelta64, "timedelta64[{}]")):
        try:
            found = plain(make(count, unit))
        except UnsupportedValue:
            continue
        assert int(np.array(found).astype(form.format(unit)).astype(np.int64)) == count


def test_json_takes_the_same_and_pickle_keeps_types() -> None:
    json, pickled = JsonCodec(), PickleCodec()
    assert json.decode(json.encode({Text("a"): [Level.HIGH, np.float32(1.5), Colour.RED, Counter("x")]})) == {
        "a": [7, 1.5, "red", {"x": 1}]
    }
    for value in (Pair(1, "x"), datetimes := pd.Timestamp("2024-01-01")):
        with pytest.raises(UnsupportedValue):
            json.encode(value)
    assert datetimes == dt.datetime(2024, 1, 1)
    for value in (Pair(1, "x"), Level.HIGH, Text("x"), Counter("a")):
        assert type(pickled.decode(pickled.encode(value))) is type(value)


class Emit(BasicBolt):
    fields = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit((self.value,))


class Keep(StatefulBolt):
    def execute(self, tup: Any) -> None:
        self.state.put(tup["value"], {"value": tup["value"]})
        self.collector.ack(tup)


def states(value: Any) -> list[tuple[Any, Any]]:
    topology = chain("plain", {"in": FeederSpout(["s"], [[("x",)]]), "emit": Emit(value), "keep": (Keep(), 3, "value")})
    return list(finished(topology, NO_RETRIES).state_items("keep"))


@pytest.mark.parametrize(("value", "expected"), HASHABLE[::3], ids=kind)
def test_a_field_arrives_as_the_plain_value(value: Any, expected: Any) -> None:
    [(key, kept)] = states(value)
    assert key == expected
    assert exactly(kept["value"]) == exactly(unpack(pack(expected)))


@pytest.mark.parametrize("value", REFUSED[:7], ids=kind)
def test_a_field_that_is_refused_fails_the_job(value: Any) -> None:
    with pytest.raises(AnchorboltError, match=type(value).__name__):
        states(value)


def test_numpy_and_pandas_are_not_imported() -> None:
    code = (
        "import sys, enum\n"
        "from anchorbolt.serialization import pack\n"
        "from anchorbolt.util.keys import canonical_key\n"
        "class E(enum.Enum):\n    A = 1\n"
        "pack([E.A]), canonical_key((E.A, 1.5))\n"
        "assert not {'numpy', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
