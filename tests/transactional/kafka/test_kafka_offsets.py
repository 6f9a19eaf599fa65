"""Which offsets a batch of `KafkaTransactionalSpout` has, what it refuses, and what it never shows."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.config import Secret
from anchorbolt.errors import AnchorboltError, StateRegressed, TopologyError
from anchorbolt.serialization import pack, unpack
from anchorbolt.transactional import KafkaTransactionalSpout, TransactionalTopologyBuilder
from anchorbolt.transactional.kafka_offsets import (
    KafkaOffsets,
    PartitionRange,
    TopicState,
    lost_before,
    messages_behind,
    next_offsets,
    readable_ranges,
    share_out,
)

Bounds = Mapping[int, tuple[int, int]]


def topic(bounds: Bounds, id: str = "first") -> TopicState:
    """Return a topic with (begin, end) of each partition."""
    return TopicState(
        id,
        {partition: begin for partition, (begin, _) in bounds.items()},
        {partition: end for partition, (_, end) in bounds.items()},
    )


def following(last: KafkaOffsets, bounds: Bounds, most: int = 1000, *, from_end: bool = False) -> KafkaOffsets:
    found = next_offsets(last, {"t": topic(bounds)}, most, from_end=from_end)
    assert found is not None
    return KafkaOffsets.from_values(unpack(pack(found.values())))


def test_a_batch_goes_from_the_end_of_the_one_before_to_what_is_there() -> None:
    first = following(KafkaOffsets(), {0: (5, 8), 1: (0, 2)})
    assert list(first.ranges_from(KafkaOffsets())) == [PartitionRange("t", 0, 5, 8), PartitionRange("t", 1, 0, 2)]
    second = following(first, {0: (6, 9), 1: (0, 2)})
    assert list(second.ranges_from(first)) == [PartitionRange("t", 0, 8, 9)]
    assert next_offsets(second, {"t": topic({0: (6, 9), 1: (0, 2)})}, 1000, from_end=False) is None


def test_what_no_batch_has_read_is_behind() -> None:
    topics = {"t": topic({0: (5, 8), 1: (0, 2)})}
    assert messages_behind(KafkaOffsets(), topics) == 5
    assert messages_behind(following(KafkaOffsets(), {0: (5, 8)}), topics) == 2
    assert messages_behind(following(KafkaOffsets(), {0: (5, 8), 1: (0, 3)}), topics) == 0  # one more than was seen


def test_a_first_batch_at_the_end_fixes_where_the_next_one_begins() -> None:
    first = following(KafkaOffsets(), {0: (5, 8), 1: (0, 0)}, from_end=True)
    assert list(first.ranges_from(KafkaOffsets())) == []
    second = following(first, {0: (5, 9), 1: (0, 1), 2: (0, 3)}, from_end=True)
    assert list(second.ranges_from(first)) == [
        PartitionRange("t", 0, 8, 9),
        PartitionRange("t", 1, 0, 1),
        PartitionRange("t", 2, 0, 3),
    ]


def test_a_topic_that_was_removed_from_the_spout_keeps_its_position() -> None:
    both = next_offsets(
        KafkaOffsets(), {"t": topic({0: (0, 3)}), "u": topic({0: (0, 4)}, "other")}, 1000, from_end=False
    )
    assert both is not None
    only = following(both, {0: (0, 5)})
    assert only.positions == {"t": {0: 5}, "u": {0: 4}}
    assert only.ids == {"t": "first", "u": "other"}


@given(
    st.dictionaries(st.tuples(st.just("t"), st.integers(0, 30)), st.integers(0, 100), max_size=12), st.integers(1, 200)
)
def test_a_batch_is_as_large_as_it_may_be_and_no_partition_starves(
    waiting: dict[tuple[str, int], int], most: int
) -> None:
    shares = share_out(waiting, most)
    there = {key: number for key, number in waiting.items() if number}
    assert shares.keys() == there.keys()
    assert all(1 <= shares[key] <= there[key] for key in there)
    assert sum(shares.values()) == max(min(most, sum(there.values())), len(there))
    full = [shares[key] for key in there if shares[key] < there[key]]
    assert all(abs(one - other) <= 1 for one in full for other in full)


@pytest.mark.parametrize(
    "now",
    [topic({0: (0, 9)}, "second"), topic({0: (0, 4)}), topic({0: (6, 9)}), topic({})],
    ids=["another id", "end before", "begin behind", "no partition"],
)
def test_a_topic_that_is_not_the_one_that_was_read_is_refused(now: TopicState) -> None:
    last = following(KafkaOffsets(), {0: (0, 5)})
    with pytest.raises(StateRegressed) as caught:
        next_offsets(last, {"t": now}, 1000, from_end=False)
    assert (caught.value.expected, caught.value.found) != ("", "")


def test_a_batch_is_read_again_only_if_it_is_there() -> None:
    first = following(KafkaOffsets(), {0: (0, 5)})
    second = following(first, {0: (0, 8)})
    for there in (topic({0: (0, 8)}), topic({0: (5, 100)}), topic({0: (5, 8)}, "")):
        assert readable_ranges(first, second, {"t": there}, accepts_loss=False) == ([PartitionRange("t", 0, 5, 8)], [])
    for gone in (topic({0: (0, 7)}), topic({0: (6, 100)}), topic({0: (0, 8)}, "second")):
        with pytest.raises(StateRegressed):
            readable_ranges(first, second, {"t": gone}, accepts_loss=False)


def test_lost_messages_are_left_out_if_that_is_accepted_and_the_batches_behind_them_are_whole() -> None:
    last = following(KafkaOffsets(), {0: (0, 5), 1: (0, 3)})
    there = {"t": topic({0: (7, 9), 1: (0, 3), 2: (0, 1)})}
    lost = lost_before(last, there)
    assert lost == [PartitionRange("t", 0, 5, 7)]
    found = next_offsets(last, there, 1000, from_end=False, lost=lost)
    assert found is not None
    assert [*found.ranges_from(last)] == [PartitionRange("t", 0, 7, 9), PartitionRange("t", 2, 0, 1)]
    assert lost_before(found, there) == []
    after = following(found, {0: (7, 12), 1: (0, 3), 2: (0, 1)})
    assert [*after.ranges_from(found)] == [PartitionRange("t", 0, 9, 12)]


def test_a_partition_that_lost_all_its_messages_is_passed_with_a_batch_without_messages() -> None:
    last = following(KafkaOffsets(), {0: (0, 5)})
    there = {"t": topic({0: (9, 9)})}
    found = next_offsets(last, there, 1000, from_end=False, lost=lost_before(last, there))
    assert found is not None
    assert [*found.ranges_from(last)] == []
    assert found.positions == {"t": {0: 9}}


def test_a_planned_batch_that_lost_messages_is_read_without_them_if_that_is_accepted() -> None:
    first = following(KafkaOffsets(), {0: (0, 5), 1: (0, 5)})
    second = following(first, {0: (0, 8), 1: (0, 8)})
    there = {"t": topic({0: (6, 100), 1: (20, 20)})}
    assert readable_ranges(first, second, there, accepts_loss=True) == (
        [PartitionRange("t", 0, 6, 8)],
        [PartitionRange("t", 0, 5, 6), PartitionRange("t", 1, 5, 8)],
    )


@pytest.mark.parametrize(
    "now", [topic({0: (0, 9)}, "second"), topic({0: (0, 4)}), topic({})], ids=["another id", "end before", "gone"]
)
def test_a_topic_that_was_created_again_is_refused_though_loss_is_accepted(now: TopicState) -> None:
    last = following(KafkaOffsets(), {0: (0, 5)})
    lost = lost_before(last, {"t": now})
    with pytest.raises(StateRegressed):
        next_offsets(last, {"t": now}, 1000, from_end=False, lost=lost)
    with pytest.raises(StateRegressed):
        readable_ranges(KafkaOffsets(), last, {"t": now}, accepts_loss=True)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6))
def test_over_random_losses_each_message_is_read_once_or_reported_lost(steps: list[tuple[int, int]]) -> None:
    last, begin, end = KafkaOffsets(), 0, 0
    seen: list[int] = []
    for more, gone in steps:
        end += more
        begin = min(begin + gone, end)
        there = {"t": topic({0: (begin, end)})}
        lost = lost_before(last, there)
        found = next_offsets(last, there, 5, from_end=False, lost=lost)
        if found is not None:
            first = not last.positions
            for each in [*lost, *found.ranges_from(last)]:
                seen += range(each.start, each.end)
            if first:  # what was gone before the first batch is nobody's
                seen = [*range(seen[0]), *seen] if seen else seen
            last = found
    assert seen == [*range(len(seen))]


def test_progress_of_another_spout_is_refused() -> None:
    with pytest.raises(TopologyError):
        KafkaOffsets.from_values(7)


@pytest.mark.parametrize(
    "arguments",
    [
        {"bootstrap_servers": ""},
        {"bootstrap_servers": []},
        {"topics": []},
        {"topics": ["a", "a"]},
        {"fields": ["word"]},
        {"fields": []},
        {"attempt_field": "key"},
        {"max_offsets_per_batch": 0},
        {"starting": "now"},
        {"decode": 1},
        {"options": ["a"]},
        {"options": {"security.protocol": 1}},
        {"options": {"kafka.security.protocol": "SSL"}},
        {"options": {"bootstrap.servers": "other:9092"}},
    ],
)
def test_arguments_that_cannot_be_used_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(TopologyError):
        KafkaTransactionalSpout(**{"bootstrap_servers": "localhost:9092", "topics": "words", **arguments})


def test_options_are_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    password = "correct-horse-battery"
    options: dict[str, Secret | str] = {"sasl.jaas.config": password, "ssl.key.password": Secret(password)}
    spout = KafkaTransactionalSpout("localhost:9092", "words", options=options)
    builder = TransactionalTopologyBuilder("words", "spout", spout)
    with pytest.raises(AnchorboltError) as caught:
        KafkaTransactionalSpout("localhost:9092", "words", options={"kafka.sasl.jaas.config": password})
    shown = repr(spout) + repr(vars(spout)) + repr(builder) + caught.value.message + caplog.text
    assert password not in shown
