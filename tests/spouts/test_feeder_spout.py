"""A `FeederSpout` accepts batches of rows, and refuses similar objects."""

from typing import Any

import pytest

from anchorbolt.errors import TopologyError
from anchorbolt.testing import FeederSpout


@pytest.mark.parametrize(
    ("batches", "given"),
    [
        ([("x",), ("y",)], "a row is 'x'"),
        ([["x"]], "a row is 'x'"),
        ([[1]], "a row is 1"),
        ([[b"x"]], "a row is b'x'"),
        ([[{"a": 1}]], "a row is {'a': 1}"),
        ([1, 2], "a batch is 1"),
        (["x"], "a batch is 'x'"),
        ("x", "the batches are 'x'"),
        (7, "the batches are 7"),
    ],
    ids=str,
)
def test_objects_that_are_not_batches_of_rows_are_refused_with_an_example(batches: Any, given: str) -> None:
    with pytest.raises(TopologyError) as refusal:
        FeederSpout(["a"], batches)
    assert given in refusal.value.message
    assert "FeederSpout(['a'], [[(a,), …], …])" in refusal.value.message


def test_a_row_with_another_number_of_values_is_refused_with_its_batch() -> None:
    spout = FeederSpout(["a", "b"])
    with pytest.raises(TopologyError, match=r"\(3,\) has 1 values for the fields a, b"):
        spout.feed([(1, 2), (3,)])
    assert not spout.is_waiting()


def test_rows_are_tuples_or_lists_and_batches_any_iterable() -> None:
    spout = FeederSpout(["a", "b"], (batch for batch in [[(1, "x"), [2, "y"]], ()]))
    spout.feed(zip([3], ["z"], strict=True))
    assert [spout.take(number) for number in range(3)] == [[(1, "x"), (2, "y")], [], [(3, "z")]]
