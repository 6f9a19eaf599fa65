"""A `GeneratorSpout` and a `FeederSpout`: what they emit, and what they refuse; and the ids of acked messages."""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import TopologyError, UnsupportedValue
from anchorbolt.spouts import GeneratorSpout, generator, message_ids
from anchorbolt.spouts.message_ids import AckedMessages
from anchorbolt.testing import FeederSpout
from tests.spouts.collected import running


@pytest.fixture(autouse=True, scope="module")
def _first_id() -> Iterator[None]:
    """Have the message ids be the numbers."""
    with mock.patch.object(generator.random, "getrandbits", return_value=0):
        yield


def word(number: int) -> tuple[str, int]:
    return f"word-{number}", number


def spout(**options: Any) -> GeneratorSpout:
    return GeneratorSpout(["word", "number"], word, **options)


def test_a_call_emits_a_batch_of_messages_whose_ids_are_their_numbers() -> None:
    with running(spout(batch=3)) as task:
        assert task.read_times(1) == [(0, ("word-0", 0)), (1, ("word-1", 1)), (2, ("word-2", 2))]
        assert [number for number, _ in task.read_times(2)] == [3, 4, 5, 6, 7, 8]


@given(st.integers(1, 5), st.integers(0, 40), st.integers(1, 7))
def test_the_tasks_share_the_numbers_up_to_the_count_and_then_emit_nothing(tasks: int, count: int, batch: int) -> None:
    found: list[int] = []
    for index in range(tasks):
        with running(spout(count=count, batch=batch), index, tasks) as task:
            numbers = [number for number, _ in task.read_times(count + 1)]
            assert [number % tasks for number in numbers] == [index] * len(numbers)
            assert task.read_times(2) == []
            found += numbers
    assert sorted(found) == list(range(count))


def test_a_failed_message_is_emitted_again_with_its_id_and_its_values_before_new_ones() -> None:
    with running(spout(count=6, batch=2)) as task:
        task.read_times(2)
        task.fail(2, 0, 3)
        task.ack(1)
        assert [number for number, _ in task.read_times(1)] == [2, 0]
        assert task.read_times(1) == [(3, word(3))]
        task.ack(2, 0, 3)
        assert [number for number, _ in task.read_times(3)] == [4, 5]


def test_untracked_messages_have_no_ids() -> None:
    with running(spout(count=3, tracked=False), conf={"topology.max.spout.pending": 1}) as task:
        assert task.read_times(2) == [(None, word(0)), (None, word(1)), (None, word(2))]


def test_no_more_messages_are_pending_than_the_topology_allows() -> None:
    with running(spout(batch=10), conf={"topology.max.spout.pending": 4}) as task:
        assert [number for number, _ in task.read_times(3)] == [0, 1, 2, 3]
        task.ack(0, 2)
        task.fail(1)
        assert [number for number, _ in task.read_times(1)] == [1]
        assert [number for number, _ in task.read_times(3)] == [4, 5]


@pytest.mark.parametrize("arguments", [("word", word), ([], word), (["word"], "word"), (["word"], None)])
def test_what_is_not_a_list_of_fields_or_a_function_is_refused(arguments: Any) -> None:
    with pytest.raises(TopologyError, match="GeneratorSpout"):
        GeneratorSpout(*arguments)


@pytest.mark.parametrize("options", [{"count": -1}, {"count": 1.5}, {"count": True}, {"batch": 0}, {"batch": None}])
def test_a_number_that_makes_no_sense_is_refused_by_its_name(options: Any) -> None:
    with pytest.raises(TopologyError, match=next(iter(options))):
        spout(**options)


def test_the_message_ids_of_another_run_are_other_ones() -> None:
    with mock.patch.object(generator.random, "getrandbits", side_effect=[1, 2]):
        ids = []
        for _ in range(2):
            with running(spout(batch=2)) as task:
                ids += [msg_id for msg_id, _ in task.read_times(1)]
    assert len(set(ids)) == 4


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


IDS = st.lists(st.integers(-5, 5) | st.integers(), max_size=30) | st.lists(
    st.text(max_size=40) | st.tuples(st.text(max_size=3), st.integers()), max_size=30
)


@given(IDS, st.integers(1, 9), st.integers(20, 200))
def test_ids_of_any_number_and_size_are_read_again(ids: list[Any], most: int, largest: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(message_ids, "_MOST_IDS", most)
        patched.setattr(message_ids, "_LARGEST_BYTES", 200 + largest)
        parts = list(AckedMessages.parts_of("in", ids))
        assert [each for _, part in parts for each in part] == ids
        for messages, part in parts:
            assert len(part) <= most
            assert set(messages.msg_ids()) == set(part)


def test_an_id_that_no_reader_takes_is_refused_before_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_ids, "_LARGEST_BYTES", 100)
    with pytest.raises(UnsupportedValue):
        list(AckedMessages.parts_of("in", ["short", "x" * 100]))
