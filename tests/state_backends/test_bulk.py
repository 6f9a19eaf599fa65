"""The bulk methods of a state do what `get`, `put`, `add` and `delete` do row by row, to the stored bytes."""

import datetime as dt
import math
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.errors import UnsupportedValue
from anchorbolt.serialization import JsonCodec
from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.contract import SizeLimits, StateStorage
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.state_backends.namespaces import NAMESPACE, Namespace
from tests.state_backends.test_key_value import EVERY_KEY, first_wave

Column = pa.Array | pa.ChunkedArray | list[Any]

ABSENT = object()
DAY = dt.date(2026, 11, 28)
KEYS: dict[pa.DataType, list[Any]] = {
    pa.string(): ["a", "b", "é", "日本", "", "long" * 20],
    pa.int64(): [0, 1, -1, 2**63 - 1, -(2**63)],
    pa.uint64(): [0, 1, 2**64 - 1],
    pa.binary(): [b"", b"a", b"\xff\x00"],
    pa.float64(): [0.0, -0.0, math.nan, 1.0, -math.inf, 0.1],
    pa.bool_(): [True, False],
    pa.date32(): [DAY, dt.date.min],
    pa.timestamp("us", "UTC"): [dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)],
    pa.timestamp("us", "Europe/Berlin"): [dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)],
    pa.decimal128(6, 2): [Decimal("1.00"), Decimal("0.00"), Decimal("-3.25")],
    pa.null(): [None],
}


@st.composite
def arrow_columns(draw: st.DrawFn) -> pa.Array | pa.ChunkedArray:
    kind = draw(st.sampled_from(list(KEYS)))
    parts = draw(st.lists(st.lists(st.none() | st.sampled_from(KEYS[kind]), max_size=8), min_size=1, max_size=3))
    arrays = [pa.array(part, kind) for part in parts]
    if draw(st.booleans()) and kind != pa.null():
        arrays = [array.dictionary_encode() for array in arrays]
        if draw(st.booleans()):  # a dictionary with values that no row has, one of them null, and one twice
            values = pa.array([*KEYS[kind], None, KEYS[kind][0]], kind)
            places = draw(st.lists(st.none() | st.integers(0, len(values) - 1), max_size=8))
            arrays = [pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), values)]
    arrays = [array.slice(draw(st.integers(0, 2))) for array in arrays]
    return arrays[0] if len(arrays) == 1 else pa.chunked_array(arrays)


COLUMNS = st.one_of(arrow_columns(), st.lists(st.sampled_from([*EVERY_KEY, "a", "b", 1]), max_size=8))
NUMBERS = st.sampled_from([0, 1, -5, 2**40, 2**62, 1.5, -0.0, 0.1, 1e300])
INTS = st.integers(-(2**40), 2**40)
FLOATS = st.floats(allow_nan=False)  # which NaN two NaNs make is open, in Python too
VALUES = st.sampled_from([0, 7, -(2**63), 2**63 - 1, 0.5, -0.0, "text", "é" * 30, b"bytes", True, None])


def rows_of(column: Column) -> list[Any]:
    return column if isinstance(column, list) else column.to_pylist()


def arrow_or_list(values: list[Any], draw: Callable[[Any], Any]) -> Column:
    """Return values as an Arrow array, if it has them as they are."""
    is_uniform = len({type(value) for value in values} - {type(None)}) == 1
    return pa.array(values) if is_uniform and draw(st.booleans()) else values


def bits(value: Any) -> Any:
    return struct.pack("d", value) if type(value) is float else (type(value), value)


class Sides:
    """Two states of equal contents: one is used row by row, the other by columns."""

    def __init__(self, **limits: Any) -> None:
        self._limits = limits
        self._spaces = [Namespace(MemoryStateProvider()) for _ in range(2)]
        self.begin()

    def begin(self) -> None:
        self.rows, self.bulk = (space.wave(**self._limits) for space in self._spaces)

    def commit(self) -> None:
        for space, state in zip(self._spaces, (self.rows, self.bulk), strict=True):
            state.put("a wave without updates", "is not committed")
            space.commit(state)
        first, second = (space.stored() for space in self._spaces)
        assert first == second
        self.begin()

    def check(self, keys: Sequence[Any]) -> None:
        for key in keys:
            assert bits(self.bulk.get(key, ABSENT)) == bits(self.rows.get(key, ABSENT))


def put(sides: Sides, keys: Column, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES, min_size=len(keys), max_size=len(keys)))
    sides.bulk.put_array(keys, arrow_or_list(values, data.draw))
    for key, value in zip(rows_of(keys), values, strict=True):
        sides.rows.put(key, value)


def put_numbers(sides: Sides, keys: Column, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=len(keys), max_size=len(keys)))
    sides.bulk.put_array(keys, arrow_or_list(values, data.draw))
    for key, value in zip(rows_of(keys), values, strict=True):
        sides.rows.put(key, value)


def add(sides: Sides, keys: Column, data: st.DataObject) -> None:
    deltas = data.draw(
        st.one_of(st.lists(of, min_size=len(keys), max_size=len(keys)) for of in (INTS, FLOATS, NUMBERS))
    )
    wanted = rows_of(keys)
    before = {repr(key): sides.rows.get(key, ABSENT) for key in wanted}
    expected = []
    try:
        for key, delta in zip(wanted, deltas, strict=True):
            expected.append(sides.rows.add(key, delta))
            if type(expected[-1]) is int and not -(2**63) <= expected[-1] < 2**63:
                raise UnsupportedValue("beyond Arrow's ints")
        pa.array(expected)
    except (UnsupportedValue, pa.ArrowInvalid):
        with pytest.raises(UnsupportedValue, match=NAMESPACE):
            sides.bulk.add_array(keys, arrow_or_list(deltas, data.draw))
        for key in wanted:  # undo what was added before the refusal
            value = before[repr(key)]
            if value is ABSENT:
                sides.rows.delete(key)
            else:
                sides.rows.put(key, value)
        return
    added = sides.bulk.add_array(keys, arrow_or_list(deltas, data.draw))
    if expected:
        wider: type[Any] = float if any(type(total) is float for total in expected) else int
        assert added.type == (pa.float64() if wider is float else pa.int64())
        assert list(map(bits, added.to_pylist())) == [bits(wider(total)) for total in expected]


def delete(sides: Sides, keys: Column, data: st.DataObject) -> None:
    sides.bulk.delete_array(keys)
    for key in rows_of(keys):
        sides.rows.delete(key)


def get(sides: Sides, keys: Column, data: st.DataObject) -> None:
    expected = [sides.rows.get(key, 3) for key in rows_of(keys)]
    kinds = {type(value) for value in expected} - {type(None)}
    try:
        if len(kinds) > 1 and not kinds <= {int, float}:
            raise TypeError("Arrow would change them, or refuse them")
        array = pa.array(expected)
    except (pa.ArrowException, TypeError, OverflowError):
        with pytest.raises(UnsupportedValue, match=NAMESPACE):
            sides.bulk.get_array(keys, 3)
        return
    found = sides.bulk.get_array(keys, 3)
    assert found.type == array.type
    assert list(map(bits, found.to_pylist())) == list(map(bits, array.to_pylist()))


def one_by_one(sides: Sides, keys: Column, data: st.DataObject) -> None:
    """Rows of the one state also go through its row methods in between."""
    for key in rows_of(keys):
        use = data.draw(st.sampled_from(["get", "put", "add", "update", "delete"]))
        for state in (sides.rows, sides.bulk):
            if use == "put":
                state.put(key, 5)
            elif use == "update":
                assert state.update(key, lambda value: [5 if value is None else 6]) == state.get(key)
                state.put(key, 1)
            elif use == "delete":
                state.delete(key)
            elif use == "add" and type(state.get(key, 0)) in (int, float):
                state.add(key, 2)
        sides.check([key])


@given(
    data=st.data(),
    cache=st.sampled_from((1, 3, 100)),
    pending=st.sampled_from((1, 3, 100)),
    steps=st.lists(
        st.tuples(st.sampled_from([put, put_numbers, add, add, get, delete, one_by_one]), COLUMNS), max_size=12
    ),
)
@settings(max_examples=100, deadline=None)
def test_columns_leave_the_bytes_that_rows_leave(data: st.DataObject, cache: int, pending: int, steps: Any) -> None:
    sides = Sides(cache_entries=cache, pending_entries=pending)
    used: list[Any] = []
    for step, keys in steps:
        step(sides, keys, data)
        used += rows_of(keys)
        if data.draw(st.integers(0, 3)) == 0:
            sides.check(used)
        if data.draw(st.integers(0, 3)) == 0:
            sides.commit()
    sides.check(used)
    sides.commit()
    sides.check(used)


@pytest.fixture
def state() -> KeyValueState[Any, Any]:
    return first_wave(MemoryStateProvider().open(NAMESPACE))


def test_a_repeated_key_gets_the_total_so_far_and_the_last_value_put(state: KeyValueState[Any, Any]) -> None:
    words = pa.array(["a", "b", "a", "a"])
    assert state.add_array(words, pa.array([1, 2, 3, 4])).equals(pa.array([1, 2, 4, 8]))
    state.put_array(words, [5, 6, 7, 8])
    assert state.get_array(words).equals(pa.array([8, 6, 8, 8]))
    assert state.get_array(["x", "b"], default=0, type=pa.int8()).equals(pa.array([0, 6], pa.int8()))
    state.delete_array(words)
    assert state.get_array(words).equals(pa.nulls(4))


def test_floats_are_added_in_the_order_of_the_rows(state: KeyValueState[Any, Any]) -> None:
    numbers = [1e16, 1.0, 1.0, -1e16, 0.1]
    total, expected = 0.0, []
    for number in numbers:
        total += number
        expected.append(total)
    assert state.add_array(["a"] * 5, pa.array(numbers)).to_pylist() == expected


@pytest.mark.parametrize("distinct", [1, 200, 70_000])
def test_long_columns_have_the_totals_of_a_loop(state: KeyValueState[Any, Any], distinct: int) -> None:
    choose = np.random.default_rng(1)
    totals: dict[int, int] = {}
    for _ in range(2):
        keys = choose.integers(0, distinct, 2 * distinct + 1000)
        deltas = choose.integers(-(2**40), 2**40, len(keys))
        expected = []
        for key, delta in zip(keys.tolist(), deltas.tolist(), strict=True):
            totals[key] = totals.get(key, 0) + delta
            expected.append(totals[key])
        assert state.add_array(pa.array(keys), deltas).to_pylist() == expected
    assert state.get_array(list(totals)).to_pylist() == list(totals.values())


def test_columns_without_rows_have_results_without_rows(state: KeyValueState[Any, Any]) -> None:
    none = pa.array([], pa.string())
    assert state.add_array(none, pa.array([], pa.float64())).equals(pa.array([], pa.float64()))
    assert state.add_array([], []).equals(pa.array([], pa.int64()))
    assert len(state.get_array(none)) == 0
    state.put_array(none, [])
    state.delete_array([])
    assert not state


def test_numbers_of_numpy_are_taken_as_pythons(state: KeyValueState[Any, Any]) -> None:
    assert state.add_array(np.array([1, 2, 1]), np.array([1, 1, 1], np.uint8)).to_pylist() == [1, 1, 2]
    assert state.add("x", np.float32(0.5)) == 0.5
    assert state.add_array([np.int64(1)], [np.int64(3)]).to_pylist() == [5]
    assert dict(state.items()) == {1: 5, 2: 1, "x": 0.5}


REFUSED: dict[str, tuple[Callable[[KeyValueState[Any, Any]], Any], str]] = {
    "a sum beyond 64 bits": (
        lambda state: state.add_array(["new", "large"], [1, 2**62]),
        "9223372036854775808.*'large'",
    ),
    "a sum that is beyond them only for a row": (
        lambda state: state.add_array(pa.array(["large", "large"]), pa.array([2**62, -5])),
        "'large'",
    ),
    "a delta beyond them": (lambda state: state.add_array(["new"], [2**63]), "'new'"),
    "a null delta": (lambda state: state.add_array(["new", "n"], pa.array([1, None])), "None.*'n'"),
    "a bool as a delta": (lambda state: state.add_array(["new", "n"], [1, True]), "True.*'n'"),
    "a stored text": (lambda state: state.add_array(["new", "text"], [1, 1]), "'abc'.*'text'"),
    "a stored text, one row": (lambda state: state.add("text", 1), "'abc'.*'text'"),
    "a stored bool": (lambda state: state.add_array(["flag"], [1]), "True.*'flag'"),
    "a Decimal and a float": (lambda state: state.add_array(["new", "decimal"], [1.5, 1.5]), "1.5.*'decimal'"),
    "nothing to add to nothing": (lambda state: state.add("new", None), "None.*'new'"),
    "no number to add": (lambda state: state.add("n", "1"), "'1'.*'n'"),
    "a mutable key": (lambda state: state.put_array(["new", ["list"]], [1, 2]), "list"),
    "lists of Arrow as keys": (lambda state: state.put_array(pa.array([["list"]]), [1]), "list"),
    "a key with a lone surrogate": (lambda state: state.put_array(["new", "\ud800"], [1, 2]), "surrogates"),
    "an object as a value": (lambda state: state.put_array(["new", "k"], [1, object()]), "'k'"),
    "fewer values than keys": (lambda state: state.put_array(["new", "k"], [1]), "2 keys.*1 values"),
    "more deltas than keys": (lambda state: state.add_array(pa.array(["new"]), [1, 2]), "1 keys.*2 values"),
    "values of two types": (lambda state: state.get_array(["n", "text"]), "types int, str"),
    "a number and a bool, whatever their order": (lambda state: state.get_array(["n", "flag"]), "types bool, int"),
    "a value that the type does not hold": (lambda state: state.get_array(["large"], type=pa.int8()), "int8"),
}


@pytest.mark.parametrize(("use", "named"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_refused_before_anything_has_changed(
    state: KeyValueState[Any, Any], use: Callable[[KeyValueState[Any, Any]], Any], named: str
) -> None:
    before = {"n": 1, "large": 2**62, "text": "abc", "flag": True, "decimal": Decimal(1)}
    state.put_many(before)
    with pytest.raises(UnsupportedValue, match=f"(?s){NAMESPACE}.*{named}|{named}"):
        use(state)
    assert dict(state.items()) == before
    state.commit()


def test_a_key_that_is_too_long_for_the_store_is_refused() -> None:
    storage = MemoryStateProvider().open(NAMESPACE)
    storage.limits = SizeLimits(20, 100, "Raise the limit")
    state = first_wave(storage)
    with pytest.raises(UnsupportedValue, match="20 at most"):
        state.put_array(pa.array(["k", "k" * 21]), [1, 1])
    state.put_array(pa.array(["k" * 10]), [1])
    assert dict(state.items()) == {"k" * 10: 1}


def test_a_codec_without_a_nan_refuses_a_total_that_is_none_before_the_change() -> None:
    state = first_wave(MemoryStateProvider().open(NAMESPACE), key_codec=JsonCodec(), value_codec=JsonCodec())
    assert state.add_array(["a", "b"], [1.5, 2.5]).to_pylist() == [1.5, 2.5]
    with pytest.raises(UnsupportedValue, match="'b'"):
        state.add_array(["a", "b"], [1.5, math.nan])
    assert state.get_array(["a", "b"]).to_pylist() == [1.5, 2.5]


def noted_reads(storage: StateStorage) -> list[int]:
    """Return a list that gets the number of keys of each read from now on."""
    sizes, get_many = list[int](), storage.get_many

    def noting(keys: Sequence[bytes], *at: Any) -> list[bytes | None]:
        sizes.append(len(keys))
        return get_many(keys, *at)

    storage.get_many = noting  # type: ignore[method-assign]
    return sizes


def test_each_distinct_key_is_read_once_in_few_round_trips() -> None:
    storage = MemoryStateProvider().open(NAMESPACE)
    sizes = noted_reads(storage)
    state = first_wave(storage)
    keys = pa.array([f"key-{number % 5000}" for number in range(20_000)])
    state.get_array(keys)
    state.add_array(keys, pa.array([1] * 20_000))
    assert sum(sizes) == 5000
    assert len(sizes) == 2
    assert state.counters.keys_read == 5000
    assert state.counters.keys_cached == 5000
    state.delete_array(keys)
    assert not state
    assert sum(sizes) == 5000


def test_a_dictionary_is_read_only_where_rows_use_it() -> None:
    storage = MemoryStateProvider().open(NAMESPACE)
    sizes = noted_reads(storage)
    state = first_wave(storage)
    words = pa.array(["a", "b", "c", "a"]).dictionary_encode()
    assert state.add_array(words.slice(3), [1]).to_pylist() == [1]
    assert sizes == [1]


def test_a_cache_that_is_shortened_while_keys_are_fetched_keeps_the_sums() -> None:
    state = first_wave(MemoryStateProvider().open(NAMESPACE), cache_entries=3, pending_entries=1)
    state.add_array(["a", "b", "c"], [1, 2, 3])
    assert state.add_array(["c", "new"], [10, 20]).to_pylist() == [13, 20]
    assert state.get_array(["a", "b", "c", "new"]).to_pylist() == [1, 2, 13, 20]


def test_a_refused_put_loses_no_sum_that_is_not_staged(state: KeyValueState[Any, Any]) -> None:
    state.add_array(["a"], [1])
    with pytest.raises(UnsupportedValue, match="'a'"):
        state.put("a", object())
    assert dict(state.items()) == {"a": 1}


def test_keys_of_columns_are_not_read_again_to_prefetch_them() -> None:
    storage = MemoryStateProvider().open(NAMESPACE)
    state = first_wave(storage)
    state.put_array(["a", "b"], [1, 2])
    sizes = noted_reads(storage)
    state.prefetch(["a", "b"])
    state.prefetch({"a", "b"})
    assert (state["a"], sizes) == (1, [])


def test_entries_of_columns_are_evicted_but_not_their_updates() -> None:
    spaces = Namespace(MemoryStateProvider())
    state = spaces.wave()
    keys = [f"key-{number}" for number in range(3000)]
    state.put_array(keys, [1] * 3000)
    assert state.evict(5000) == (0, 0)
    spaces.commit(state)
    state = spaces.wave(cache_entries=100)
    state.add_array(keys[:10], [1] * 10)
    state.get_array(keys)
    state.put_array(keys[10:20], [5] * 10)
    assert state.clean_entries == 2980
    assert state.evict(0) == (0, 0)
    assert state.get_array(keys).to_pylist() == [2] * 10 + [5] * 10 + [1] * 2980
    state.prepare_commit(1)
    assert state.clean_entries <= 100
