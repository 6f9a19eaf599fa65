"""The batches in flight of a transactional topology, from the start of their processing phase to their commit. Pure.

```
begin          the metadata of a batch is stored, and its processing phase starts
told           all emitters have reported their metadata: the next batch may begin
take           the processing phase has ended: the commit phase of the batch may begin
failed         the batch and all later ones are given up, and begin again after the batch before
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.errors import InfrastructureLost
from anchorbolt.state_backends.state import Fence
from anchorbolt.streams.attempt import TransactionAttempt
from anchorbolt.transactional.batches.metadata import BatchMetadata

Told = Mapping[int, bytes | None]
"""The packed metadata of a batch, by partition; None if the batch has no part of the partition."""


class PartitionStart(NamedTuple):
    """Where the batch of a partition begins."""

    partition: int
    last: bytes | None  # the packed metadata of the batch before; None for the first
    stored: bytes | None  # of an earlier try of this batch, to emit again
    is_empty: bool  # an earlier try of this batch emitted nothing of the partition


class BatchDriver(Protocol):
    """The driver as a task of the spout sees it. Raises `WaveFailed` if it does not answer or abandoned the try."""

    def partitions(self, current: Round, task: TaskKey) -> list[PartitionStart]:
        """Return the partitions of the task."""

    def tell(self, current: Round, task: TaskKey, told: Told) -> None:
        """Store the metadata of the task's partitions durably."""


@dataclass
class Flight:
    """One try at a batch. Its metadata is complete once the emitters have reported all partitions."""

    metadata: BatchMetadata
    fence: Fence  # of the processing phase
    is_again: bool  # an earlier try made the metadata: the emitters emit the same
    last: BatchMetadata  # of the batch before
    is_known: bool  # all its metadata is durable
    told: dict[int, bytes | None] = field(default_factory=dict)  # by partition

    @property
    def txid(self) -> int:
        return self.metadata.txid

    @property
    def attempt(self) -> TransactionAttempt:
        return TransactionAttempt(self.txid, self.fence.seq)

    def starts(self, task: TaskKey, tasks: int) -> list[PartitionStart]:
        """Return the partitions of one of the spout's `tasks` tasks."""
        again, metadata = self.is_again, self.metadata
        return [
            PartitionStart(
                partition,
                self.last.partitions.get(partition),
                metadata.partitions[partition] if again and partition in metadata.emitted else None,
                again and partition not in metadata.emitted,
            )
            for partition in range(task[1], metadata.number_of_partitions, tasks)
        ]

    def tell(self, told: Told) -> bool:
        """Take a task's metadata; return whether the batch's metadata is complete now, and must be stored.

        Raises `InfrastructureLost` if the task ran twice and emitted another batch the second time.
        """
        for partition, metadata in told.items():
            known = self.told.setdefault(partition, metadata)
            if known != metadata:
                raise self._ran_twice(partition)
        if self.is_known or len(self.told) < self.metadata.number_of_partitions:
            return False
        emitted = {partition: each for partition, each in self.told.items() if each is not None}
        partitions = {**self.last.partitions, **emitted}
        self.metadata = replace(self.metadata, partitions=partitions, emitted=frozenset(emitted))
        return True

    def check_reported(self, reported: Mapping[int, bytes]) -> None:
        """Check that the winning tasks emitted the batch of the stored metadata. Raises `InfrastructureLost`."""
        if not self.metadata.number_of_partitions:
            return
        expected = {partition: self.metadata.partitions[partition] for partition in self.metadata.emitted}
        if dict(reported) != expected:
            raise self._ran_twice(min(expected.keys() ^ reported.keys(), default=0))

    def _ran_twice(self, partition: int) -> InfrastructureLost:
        return InfrastructureLost(
            f"Spark ran a task of the spout twice in batch {self.txid}, and partition {partition} had another batch "
            "the second time",
            txid=self.txid,
        )
