"""Transactional spouts that emit rows from memory: for tests and demonstrations.

The metadata of a partition is `[index, count]`: the batch has `count` rows of the partition, from row `index` on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from uuid import uuid4
from weakref import WeakValueDictionary

from anchorbolt.bolts.batch import BatchOutputCollector
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.transactional import (
    OpaquePartitionedEmitter,
    OpaquePartitionedTransactionalSpout,
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
)
from anchorbolt.streams.attempt import TransactionAttempt
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer, wrong_fields
from anchorbolt.util.messages import shortened

Partitions = Mapping[int, Sequence[Sequence[Any]]]


class MemoryTransactionalSpout(PartitionedTransactionalSpout):
    """Emits the rows of its partitions once, with the same batch in each try. Then no batch is ready.

    A run that continues from stored progress emits the later rows.
    """

    def __init__(self, partitions: Partitions, fields: Sequence[str], take: int, *, attempt_field: str = "tx") -> None:
        """Create a spout.

        Args:
            partitions: The rows by partition, from 0 without a gap. Each row is a tuple or list with one value per
                field. At least one partition; a partition may be empty.
            fields: Names of the rows' fields. In the default stream they follow the field for the attempt.
            take: The maximum number of rows of each partition in a batch.
            attempt_field: Name of the field for the attempt.

        Raises:
            TopologyError: An argument is invalid.
        """
        self._rows = _Rows(type(self).__name__, partitions, fields, attempt_field)
        self._take = self._rows.checked_take(take)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the default stream: the field for the attempt, then the given fields."""
        declarer.declare(*self._rows.fields)

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionedCoordinator:
        """Return a coordinator that is ready while a partition has more rows."""
        return _Coordinator(self._rows, frozenset())

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionedEmitter:
        """Return an emitter of the rows."""
        return _Emitter(self._rows, self._take)


class OpaqueMemoryTransactionalSpout(OpaquePartitionedTransactionalSpout):
    """Emits the rows of its partitions once, in batches that a test may change during the run.

    `take` and `disabled_partitions` are shared with the copies of this object in the same process, which `LocalCluster`
    makes for its emitters. A copy in another process keeps the values at the time of pickling.
    """

    def __init__(self, partitions: Partitions, fields: Sequence[str], take: int, *, attempt_field: str = "tx") -> None:
        """Create a spout. Takes the arguments and raises the errors of `MemoryTransactionalSpout`."""
        self._rows = _Rows(type(self).__name__, partitions, fields, attempt_field)
        self._shared = _Shared(self._rows.checked_take(take), frozenset())

    @property
    def take(self) -> int:
        """The maximum number of rows of each partition in a batch. A batch that is tried again uses the new value."""
        return self._shared.take

    @take.setter
    def take(self, take: int) -> None:
        self._shared.take = self._rows.checked_take(take)

    @property
    def disabled_partitions(self) -> set[int]:
        """The partitions that emit nothing for now: add to this set, and discard from it. Empty at first.

        A disabled partition keeps its metadata, and no batch is ready because of its rows.
        """
        return self._shared.disabled

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the default stream: the field for the attempt, then the given fields."""
        declarer.declare(*self._rows.fields)

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionedCoordinator:
        """Return a coordinator that is ready while an enabled partition has more rows."""
        return _Coordinator(self._rows, self._shared.disabled)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> OpaquePartitionedEmitter:
        """Return an emitter of the rows."""
        return _OpaqueEmitter(self._rows, self._shared)


class _Rows:
    """The checked arguments of a spout."""

    def __init__(self, spout: str, partitions: Partitions, fields: Sequence[str], attempt_field: str) -> None:
        self._spout = spout
        if isinstance(fields, str) or not isinstance(fields, Sequence) or not fields:
            raise TopologyError(f"{spout}: fields is {shortened(fields)}. Pass a list of names.")
        problem = wrong_fields(f"{spout}(…, [", (attempt_field, *fields))
        if problem:
            raise TopologyError(f"{spout}: {problem} {attempt_field!r} is the field for the attempt.")
        if not isinstance(partitions, Mapping) or not partitions or set(partitions) != set(range(len(partitions))):
            given = list(partitions) if isinstance(partitions, Mapping) else partitions
            raise TopologyError(
                f"{spout}: the partitions are {shortened(given)}. Pass a mapping of 0, 1, 2 … to the rows of each, "
                "without a gap."
            )
        self.fields = (attempt_field, *fields)
        self.partitions = [
            [self._row(partition, row) for row in self._list(partition, partitions[partition])]
            for partition in range(len(partitions))
        ]

    def checked_take(self, take: int) -> int:
        if type(take) is not int or take < 1:
            raise TopologyError(f"{self._spout}: take is {shortened(take)}. Pass a whole number of rows, at least 1.")
        return take

    def next_batch(self, partition: int, take: int, last_metadata: Any) -> list[int]:
        """Return the metadata of the batch after `last_metadata`: `[index, count]`."""
        index = sum(last_metadata) if last_metadata else 0
        return [index, max(0, min(take, len(self.partitions[partition]) - index))]

    def emit(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, partition: int, metadata: Sequence[int]
    ) -> None:
        index, count = metadata
        for row in self.partitions[partition][index : index + count]:
            collector.emit((attempt, *row))

    def _list(self, partition: int, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        if isinstance(rows, str | bytes) or not isinstance(rows, Sequence):
            raise TopologyError(
                f"{self._spout}: partition {partition} is {shortened(rows)}. Pass a list of its rows, each a tuple."
            )
        return rows

    def _row(self, partition: int, row: Sequence[Any]) -> tuple[Any, ...]:
        names = self.fields[1:]
        if not isinstance(row, tuple | list) or len(row) != len(names):
            raise TopologyError(
                f"{self._spout}: a row of partition {partition} is {shortened(row)}. Pass a tuple with one value for "
                f"each of the fields, without the attempt: {', '.join(names)}."
            )
        return tuple(row)


class _Shared:
    """The settings that a test may change. Unpickling returns the original object while it exists in the process."""

    _all: ClassVar[WeakValueDictionary[str, _Shared]] = WeakValueDictionary()

    def __init__(self, take: int, disabled: frozenset[int]) -> None:
        self.take = take
        self.disabled = set(disabled)
        self._key = uuid4().hex
        self._all[self._key] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return _Shared._unpickled, (self._key, self.take, frozenset(self.disabled))

    @classmethod
    def _unpickled(cls, key: str, take: int, disabled: frozenset[int]) -> _Shared:
        return cls._all.get(key) or cls(take, disabled)


class _Coordinator(PartitionedCoordinator):
    def __init__(self, rows: _Rows, disabled: frozenset[int] | set[int]) -> None:
        self._rows = rows
        self._disabled = disabled
        self._last: Mapping[int, Any] = {}

    def after(self, last_metadata: Any) -> None:
        self._last = last_metadata or {}

    def is_ready(self) -> bool:
        return any(
            self._rows.next_batch(partition, 1, self._last.get(partition))[1]
            for partition in range(self.number_of_partitions())
            if partition not in self._disabled
        )

    def number_of_partitions(self) -> int:
        return len(self._rows.partitions)


class _Emitter(PartitionedEmitter):
    def __init__(self, rows: _Rows, take: int) -> None:
        self._rows = rows
        self._take = take

    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, partition: int, last_metadata: Any
    ) -> Any:
        metadata = self._rows.next_batch(partition, self._take, last_metadata)
        self._rows.emit(attempt, collector, partition, metadata)
        return metadata if metadata[1] else last_metadata

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, partition: int, metadata: Any
    ) -> None:
        self._rows.emit(attempt, collector, partition, metadata)


class _OpaqueEmitter(OpaquePartitionedEmitter):
    def __init__(self, rows: _Rows, shared: _Shared) -> None:
        self._rows = rows
        self._shared = shared

    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, partition: int, last_metadata: Any
    ) -> Any:
        if partition in self._shared.disabled:
            return last_metadata
        metadata = self._rows.next_batch(partition, self._shared.take, last_metadata)
        self._rows.emit(attempt, collector, partition, metadata)
        return metadata if metadata[1] else last_metadata
