"""Computes the offsets of Kafka's topics in a batch, and checks that they can still be read. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from anchorbolt.errors import StateRegressed, TopologyError
from anchorbolt.util.messages import shortened

ByPartition = Mapping[int, int]


class TopicState(NamedTuple):
    """The current state of a topic."""

    id: str  # a topic that is deleted and created again has a new one; empty if the server gives none
    begins: ByPartition  # by partition: the offset of its first remaining message
    ends: ByPartition  # by partition: the offset after its last message


class PartitionRange(NamedTuple):
    """The messages of one partition in one batch: from `start` up to, but not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True)
class KafkaOffsets:
    """The positions in the topics at the end of a batch."""

    ids: Mapping[str, str] = field(default_factory=dict)  # by topic
    positions: Mapping[str, ByPartition] = field(default_factory=dict)  # the offset of the next message
    # The start of each partition that the batch adds, or in which it skips messages that are gone.
    begins: Mapping[str, ByPartition] = field(default_factory=dict)

    @classmethod
    def from_values(cls, values: Any) -> KafkaOffsets:
        """Return offsets from plain values: an empty dict before the first batch. Raises `TopologyError`."""
        if values == {}:
            return cls()
        if not isinstance(values, dict) or values.keys() != {"ids", "positions", "begins"}:
            raise TopologyError(
                f"the last batch ended at {shortened(values, 200)}, as of another spout than a "
                "KafkaTransactionalSpout. Give the topology another id to read all from the start."
            )
        return cls(**values)

    def values(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "ids": dict(self.ids),
            "positions": {topic: dict(each) for topic, each in self.positions.items()},
            "begins": {topic: dict(each) for topic, each in self.begins.items()},
        }

    def ranges_from(self, start: KafkaOffsets) -> Iterator[PartitionRange]:
        """Yield the non-empty ranges of the batch from `start` to these offsets."""
        for topic, ends in self.positions.items():
            for partition, end in sorted(ends.items()):
                first = self.begins.get(topic, {}).get(partition)
                first = start.positions[topic][partition] if first is None else first
                if first < end:
                    yield PartitionRange(topic, partition, first, end)


def next_offsets(
    last: KafkaOffsets,
    topics: Mapping[str, TopicState],
    most: int,
    *,
    from_end: bool,
    lost: Collection[PartitionRange] = (),
) -> KafkaOffsets | None:
    """Return where the next batch ends; None if there is nothing new.

    Args:
        last: The end of the batch before.
        topics: The current state of the topics to read.
        most: The maximum number of offsets in the batch, but at least one of each partition with messages.
        from_end: Whether the very first batch begins at the end of the topics.
        lost: The result of `lost_before`, if the batch may skip these messages.

    Raises:
        StateRegressed: A topic was deleted and created again, or unread messages outside `lost` are gone.
    """
    skipped = {(each.topic, each.partition): each.end for each in lost}
    check_topics(last, topics, skipped)
    is_first = not last.positions
    waiting: dict[tuple[str, int], int] = {}
    positions = {topic: dict(each) for topic, each in last.positions.items()}
    begins: dict[str, dict[int, int]] = {}
    for (topic, partition), behind in skipped.items():
        begins.setdefault(topic, {})[partition] = positions[topic][partition] = behind
    for topic, state in topics.items():
        for partition, end in state.ends.items():
            first = positions.get(topic, {}).get(partition)
            if first is None:
                first = end if from_end and is_first else state.begins[partition]
                if first == end and not (from_end and is_first):
                    continue  # an empty partition is added with its first message
                begins.setdefault(topic, {})[partition] = first
                positions.setdefault(topic, {})[partition] = first
            waiting[topic, partition] = end - first
    shares = share_out(waiting, most)
    for (topic, partition), share in shares.items():
        positions[topic][partition] += share
    if not begins and not any(shares.values()):
        return None
    ids = {**last.ids, **{topic: topics[topic].id for topic in positions if topic in topics}}
    return KafkaOffsets(ids, positions, begins)


def messages_behind(last: KafkaOffsets, topics: Mapping[str, TopicState]) -> int:
    """Return how many offsets the topics have after `last`. A partition that no batch has read counts in full."""
    return sum(
        max(0, end - last.positions.get(topic, {}).get(partition, state.begins[partition]))
        for topic, state in topics.items()
        for partition, end in state.ends.items()
    )


def share_out(waiting: Mapping[tuple[str, int], int], most: int) -> dict[tuple[str, int], int]:
    """Return how many offsets of each partition a batch has: equal shares, larger if other partitions have fewer.

    Each partition with messages has at least one, so that none waits forever.
    """
    shares: dict[tuple[str, int], int] = {}
    there = {key: number for key, number in waiting.items() if number}
    left = most
    for done, key in enumerate(sorted(there, key=lambda key: (there[key], key))):
        shares[key] = min(there[key], max(1, left // (len(there) - done)))
        left -= shares[key]
    return shares


def lost_before(last: KafkaOffsets, topics: Mapping[str, TopicState]) -> list[PartitionRange]:
    """Return the messages that are gone and were never read: their partition now begins after them."""
    return [
        PartitionRange(topic, partition, position, state.begins[partition])
        for topic, state in topics.items()
        for partition, position in sorted(last.positions.get(topic, {}).items())
        if position < state.begins.get(partition, 0)
    ]


def check_topics(
    last: KafkaOffsets, topics: Mapping[str, TopicState], skipped: Collection[tuple[str, int]] = ()
) -> None:
    """Check that no topic was created again, and that no unread message is gone. Raises `StateRegressed`.

    Accepts lost messages in `skipped` partitions.
    """
    for topic, state in topics.items():
        _check_id(topic, last.ids.get(topic, ""), state.id)
        for partition, position in last.positions.get(topic, {}).items():
            if (topic, partition) not in skipped:
                _check_range(state, PartitionRange(topic, partition, position, position))


def readable_ranges(
    start: KafkaOffsets, end: KafkaOffsets, topics: Mapping[str, TopicState], *, accepts_loss: bool
) -> tuple[list[PartitionRange], list[PartitionRange]]:
    """Return the ranges of a batch that can be read, and the ranges that are gone and left out.

    Raises:
        StateRegressed: A topic was created again, or messages are gone. With `accepts_loss`, gone messages are an error
            only at the end of a partition.
    """
    ranges, lost = [], []
    for each in end.ranges_from(start):
        state = topics[each.topic]
        _check_id(each.topic, end.ids.get(each.topic, ""), state.id)
        first = min(max(each.start, state.begins.get(each.partition, 0)), each.end) if accepts_loss else each.start
        if first > each.start:
            lost.append(each._replace(end=first))
        if first == each.end:
            continue
        ranges.append(each._replace(start=first))
        _check_range(state, ranges[-1])
    return ranges, lost


def _check_id(topic: str, expected: str, found: str) -> None:
    if expected and found and expected != found:
        raise StateRegressed(
            f"Kafka's topic {topic!r} was deleted and created again: it has the id {found}, and batches that have been "
            f"read are of the topic with the id {expected}. The offsets of the two have nothing to do with each other. "
            "Give the topology another id to read the new topic from its start.",
            expected=expected,
            found=found,
        )


def _check_range(state: TopicState, batch: PartitionRange) -> None:
    topic, partition, start, end = batch
    first, last = state.begins.get(partition, 0), state.ends.get(partition, 0)
    if first <= start and end <= last:
        return
    wanted = f"offset {start}" if start == end else f"offsets {start} to {end}"
    found = f"offsets {first} to {last}"
    reason = (
        "They were removed before they were read: the topic keeps them too short a time"
        if start < first
        else "The partition has lost messages, or the topic was deleted and created again"
    )
    way_on = "Or go on without them: set topology.state.accept.loss to true for one run. " if start < first else ""
    raise StateRegressed(
        f"partition {partition} of Kafka's topic {topic!r} is to be read from {wanted} on, but has {found}. {reason}. "
        f"Restore the messages. {way_on}Or give the topology another id: it reads the messages that are left.",
        expected=wanted,
        found=found,
    )
