"""A `GeneratorSpout` numbers its messages, shares the numbers among its tasks, and emits failed messages again."""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import TopologyError
from anchorbolt.spouts import GeneratorSpout, generator
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
