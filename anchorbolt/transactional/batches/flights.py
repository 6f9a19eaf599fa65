"""The batches in flight of a transactional topology, from the start of their processing phase to their commit. Pure.

```
begin          the metadata of a batch is stored, and its processing phase starts
told           all emitters have told their metadata: the next batch may begin
take           the processing phase has ended: the commit phase of the batch may begin
failed         the batch and all behind it are given up, and begin again from where the batch before ended
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
"""By partition: the packed metadata of its batch; None if the batch has nothing of the partition."""


class PartitionStart(NamedTuple):
    """Where the batch of a partition begins."""

    partition: int
    last: bytes | None  # the packed metadata of the batch before; None if there is none
    stored: bytes | None  # of an earlier try of this batch: it is emitted again
    is_empty: bool  # an earlier try of this batch emitted nothing of the partition


class BatchDriver(Protocol):
    """What a task of the spout asks the driver. Raises `WaveFailed` if the driver does not answer, or gave it up."""

    def partitions(self, current: Round, task: TaskKey) -> list[PartitionStart]:
        """Return the partitions of the task."""

    def tell(self, current: Round, task: TaskKey, told: Told) -> None:
        """Make the metadata of the task's partitions durable."""


@dataclass
class Flight:
    """One try at a batch. Its metadata is complete once all partitions have been told."""

    metadata: BatchMetadata
    fence: Fence  # of the processing phase
    is_again: bool  # its metadata was made by an earlier try: its emitters emit the same
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
        """Return the partitions of a task of the spout, out of so many tasks."""
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
        """Take what a task has told; return whether the metadata is complete now, and has to be made durable.

        Raises `InfrastructureLost` if the task was run twice, and found another batch the second time.
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
        """Check that the winning tasks emitted the batch whose metadata is stored. Raises `InfrastructureLost`."""
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
