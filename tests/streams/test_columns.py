"""The three forms of a column hold the same values: the ones that were emitted, with the same types."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import SerializationError
from anchorbolt.serialization import pack, unpack
from anchorbolt.streams.columns import Coded, as_list, coded, fitting, from_parts, rows_of, size_of, taken, to_parts

words = st.lists(st.sampled_from(["a", "bb", "ü", "", "\U0001f40d"]), max_size=40)
numbers = st.lists(st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]), max_size=40)
repeating = words | numbers


def in_all_forms(values: list[Any]) -> list[Any]:
    kind = pa.int64() if values and type(values[0]) is int else pa.string()
    array = pa.array(values, kind)
    forms = [values, array, array.dictionary_encode(), coded(values)]
    return [form for form in forms if form is not None]


def same(found: Sequence[Any], values: Sequence[Any]) -> bool:
    return list(found) == list(values) and list(map(type, found)) == list(map(type, values))


@given(values=repeating, data=st.data())
def test_all_forms_have_the_same_values_whatever_is_taken_of_them(values: list[Any], data: st.DataObject) -> None:
    size = len(values)
    positions = data.draw(st.lists(st.sampled_from(range(size)), unique=True).map(sorted)) if size else []
    first, last, step = data.draw(st.integers(0, size)), data.draw(st.integers(0, size)), data.draw(st.integers(1, 4))
    for share in (np.array(positions, np.intp), slice(first, last), slice(first, last, step), slice(None)):
        expected = [values[each] for each in np.arange(size)[share].tolist()]
        for column in in_all_forms(values):
            part = taken(column, share)
            assert same(as_list(part), expected)
            assert len(part) == len(expected) == size_of(share, size)


@given(columns=st.lists(repeating, max_size=3))
def test_columns_come_back_from_a_message_as_they_were(columns: list[list[Any]]) -> None:
    for column in columns:
        for form in in_all_forms(column):
            [found] = from_parts(unpack(pack(to_parts([form]))), len(column))
            assert same(as_list(found), column)
            assert isinstance(found, type(form))


@pytest.mark.parametrize(
    "values",
    [["a", None], [1, True], [1, 1.0], ["a", b"a"], ["\ud800"], [2**64], [("a", 1)], [float("nan")], [b"a"]],
    ids=repr,
)
def test_only_columns_of_text_or_of_small_ints_are_coded(values: list[Any]) -> None:
    assert coded(values * 1000) is None


def test_texts_of_other_classes_are_coded_as_the_str_that_arrives() -> None:
    found = coded([np.str_("a"), "a"] * 1000)
    assert found is not None
    assert found.values == unpack(pack([np.str_("a")]))
    assert type(found.values[0]) is str


def test_a_column_with_few_repeated_values_is_not_coded() -> None:
    assert coded([str(number) for number in range(1000)]) is None
    found = coded([str(number % 10) for number in range(1000)])
    assert found is not None
    assert len(found.values) == 10


def test_a_share_has_no_values_that_none_of_its_tuples_has() -> None:
    column = Coded(["a", "b", "c"], np.array([0, 1, 2, 1], np.uint16))
    assert column.taken(np.array([1, 3])).values == ["b"]


def test_more_distinct_values_than_two_bytes_can_count() -> None:
    values = [str(number) for number in range(70_000)] * 3
    found = coded(values)
    assert found is not None
    [back] = from_parts(unpack(pack(to_parts([found]))), len(values))
    assert as_list(back) == values


@pytest.mark.parametrize(
    "part",
    [
        ["a"],
        {"values": ["a"], "codes": b"\0\0\1\0"},
        {"values": ["a"]},
        {},
        {"values": 1, "codes": b""},
        b"",
        b"x" * 50,
    ],
    ids=repr,
)
def test_a_damaged_column_is_refused(part: Any) -> None:
    with pytest.raises(SerializationError):
        from_parts([part], 2)


def test_tuples_without_fields_have_rows() -> None:
    assert list(rows_of(2, [])) == [(), ()]


def test_as_many_tuples_fit_as_have_so_many_bytes() -> None:
    texts = ["x" * 100] * 5000
    for column in (texts, pa.array(texts), coded(texts)):
        assert fitting(5000, [column], 104 * 5000) == 5000
        assert 1000 <= fitting(5000, [column], 100 * 1234) <= 1234
        assert fitting(5000, [column], 1) == fitting(0, [taken(column, slice(0))], 100) == 1
    larger = ["x"] * 4096 + ["x" * 1000] * 4096
    assert 4096 <= fitting(len(larger), [larger], 50_000) <= 4150
