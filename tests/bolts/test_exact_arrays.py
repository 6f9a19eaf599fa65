"""Values that a declared type would change are refused, and the others stay what they are."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anchorbolt.bolts import ArrowOutputCollector, OutputCollector
from anchorbolt.bolts.column_types import Misfit
from anchorbolt.bolts.exact_arrays import exact_array
from anchorbolt.errors import UnsupportedValue
from anchorbolt.streams.declaration import StreamDeclaration

NOON = dt.datetime(2020, 1, 1, 12, 30, 0, 5)
ZONED = NOON.replace(tzinfo=dt.timezone.utc)

REFUSED: list[tuple[pa.DataType, Any]] = [
    (pa.int64(), True),
    (pa.int64(), 1.5),
    (pa.list_(pa.int64()), [1.5]),
    (pa.list_(pa.string()), [b"a"]),
    (pa.list_(pa.string()), "ab"),
    (pa.list_(pa.date32()), [NOON]),
    (pa.list_(pa.timestamp("us")), [ZONED]),
    (pa.struct([("at", pa.date32())]), {"at": NOON}),
    (pa.struct([("a", pa.int64())]), {"a": 1, "b": 2}),
    (pa.dictionary(pa.int8(), pa.int64()), 1.5),
    (pa.dictionary(pa.int8(), pa.string()), b"a"),
    (pa.large_string(), b"a"),
    (pa.large_binary(), "a"),
    (pa.date32(), NOON),
    (pa.date32(), 5),
    (pa.timestamp("s"), NOON),
    (pa.timestamp("us"), ZONED),
    (pa.timestamp("us", "UTC"), NOON),
    (pa.time32("ms"), NOON.time()),
    (pa.time64("us"), ZONED.timetz()),
    (pa.duration("s"), dt.timedelta(microseconds=5)),
    (pa.decimal128(5, 1), Decimal("1.55")),
]


@pytest.mark.parametrize(("kind", "value"), REFUSED, ids=str)
def test_a_value_that_would_change_is_refused(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(Misfit):
        exact_array([None, value], kind)


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (pa.float64(), 1, 1.0),
        (pa.int64(), np.int32(1), 1),
        (pa.list_(pa.int64()), (1, None), [1, None]),
        (pa.struct([("a", pa.int64()), ("b", pa.int64())]), {"a": 1}, {"a": 1, "b": None}),
        (pa.timestamp("s"), NOON.replace(microsecond=0), NOON.replace(microsecond=0)),
        (pa.list_(pa.time32("s")), [dt.time(1)], [dt.time(1)]),
        (pa.decimal128(5, 1), 1, Decimal("1.0")),
    ],
    ids=str,
)
def test_a_value_that_fits_is_kept(kind: pa.DataType, value: Any, found: Any) -> None:
    array = exact_array([None, value], kind)
    assert array.type == kind
    assert array.to_pylist() == [None, found]


CASTS: list[tuple[pa.DataType, Any, bool]] = [
    (pa.bool_(), pa.array([5]), False),
    (pa.int64(), pa.array(["1"]), False),
    (pa.string(), pa.array([1]), False),
    (pa.date32(), pa.array([NOON]), False),
    (pa.date32(), np.array([NOON], "M8[us]"), False),
    (pa.timestamp("us"), pa.array([ZONED]), False),
    (pa.struct([("a", pa.int64())]), pa.array([{"a": 1, "b": 2}]), False),
    (pa.int64(), pa.array([1.5]), False),
    (pa.int64(), pa.array([1.0, None]), True),
    (pa.float64(), np.array([1]), True),
    (pa.string(), pa.array(["a"], pa.large_string()), True),
    (pa.string(), pa.array(["a"]).dictionary_encode(), True),
    (pa.string(), pa.nulls(2), True),
    (pa.list_(pa.int64()), pa.array([[1]], pa.large_list(pa.int32())), True),
    (pa.timestamp("us"), np.array([NOON], "M8[ns]"), True),
]


@pytest.mark.parametrize(("kind", "column", "fits"), CASTS, ids=str)
def test_a_column_is_cast_only_if_its_values_stay(kind: pa.DataType, column: Any, fits: bool) -> None:
    streams = {"default": StreamDeclaration(("x",), schema=pa.schema([("x", kind)]))}
    sent: list[Any] = []
    rows = OutputCollector("bolt", streams, lambda _, buffer: sent.append(buffer.columns[0]) or 1, must_anchor=True)
    collector = ArrowOutputCollector(rows, is_tracked=False, must_anchor=False)
    if fits:
        collector.emit_batch([column])
        assert sent[0].type == kind
    else:
        with pytest.raises(UnsupportedValue, match="'x'"):
            collector.emit_batch([column])
