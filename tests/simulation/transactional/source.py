"""The source of a simulated transactional spout: rows in partitions, which can be read again from anywhere.

The metadata of a batch is `[index, count]`: from where in the partition its rows are, and how many. A row is a number
that names its partition and its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anchorbolt.serialization import unpack
from anchorbolt.transactional.batches.metadata import BatchMetadata

if TYPE_CHECKING:
    from tests.simulation.transactional.scenario import BatchScenario
    from tests.simulation.world import World

_PARTITION = 1000


class Source:
    """Outlives all drivers."""

    def __init__(self, world: World, scenario: BatchScenario) -> None:
        self._world = world
        self._kind = scenario.kind
        self.lengths = [0] * scenario.partitions
        for _ in range(scenario.rows):
            self.lengths[world.choices.pick(scenario.partitions)] += 1
        self.poison = -1
        if scenario.has_poison:
            partition = max(range(scenario.partitions), key=lambda each: self.lengths[each])
            self.poison = _PARTITION * partition + world.choices.pick(self.lengths[partition])
        self._number = 1 + world.choices.pick(scenario.partitions)  # the partitions that are there already

    def number_of_partitions(self) -> int:
        """Return how many partitions there are; there may be more from one call to the next."""
        if self._number < len(self.lengths) and self._world.choices.pick(3) == 0:
            self._number += 1
            self._world.say(f"the source has {self._number} partitions")
        return self._number

    def is_ready(self, after: Any) -> bool:
        """Return whether there is more behind a batch; sometimes that is not known yet."""
        ends = after if self._kind.is_partitioned else {0: after}
        is_more = any(
            end_of((ends or {}).get(partition)) < length for partition, length in enumerate(self.lengths) if length
        )
        return is_more and not self._world.choices.happens(0.05)

    def next_batch(self, partition: int, last: Any) -> list[int]:
        """Choose the rows of a new batch."""
        index = end_of(last)
        count = (2, 1, 3, 0)[self._world.choices.pick(4)]
        return [index, min(count, self.lengths[partition] - index)]

    def is_away(self) -> bool:
        """Return whether an opaque partition gives nothing for now."""
        return self._world.choices.happens(0.15)


def end_of(metadata: Any) -> int:
    """Return from where the batch behind this one begins."""
    return sum(metadata) if metadata else 0


def rows_of(partition: int, metadata: Any) -> list[int]:
    """Return the rows of a partition's batch."""
    index, count = metadata
    return [_PARTITION * partition + place for place in range(index, index + count)]


def content(metadata: BatchMetadata) -> frozenset[int]:
    """Return the rows of a batch."""
    if metadata.whole is not None:
        return frozenset(rows_of(0, unpack(metadata.whole)))
    found = (rows_of(partition, unpack(metadata.partitions[partition])) for partition in metadata.emitted)
    return frozenset(row for rows in found for row in rows)


def positions(metadata: BatchMetadata) -> Mapping[int, int]:
    """Return by partition where the next batch begins."""
    if metadata.whole is not None:
        return {0: end_of(unpack(metadata.whole))}
    return {partition: end_of(unpack(each)) for partition, each in metadata.partitions.items()}
