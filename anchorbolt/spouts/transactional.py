"""Base classes for the spouts of transactional topologies: a coordinator on the driver, and emitters on executors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from anchorbolt.spouts.base import Spout
from anchorbolt.streams.attempt import TransactionAttempt
from anchorbolt.streams.context import TopologyContext

if TYPE_CHECKING:
    from anchorbolt.bolts.batch import BatchOutputCollector


class Coordinator(ABC):
    """Decides on the driver when the next batch begins. A run has one coordinator; all calls come on one thread."""

    def after(self, last_metadata: Any) -> None:
        """Called just before each `is_ready`, with the metadata of the batch before.

        Args:
            last_metadata: The metadata of the batch before, which may not have committed yet. After a failed batch, the
                next call has the metadata of an earlier batch. For a partitioned spout, a dict `{partition: metadata}`
                of the partitions that have metadata; for other spouts, the result of `initialize_transaction`. None
                before the first batch.
        """

    def is_ready(self) -> bool:
        """Return whether a new batch may begin. Called before each new batch, and repeatedly while it returns False.

        Not called for a batch that is tried again. A run with `until_empty` ends when no batch is ready.

        Do not override it if the source cannot tell. Then the engine waits for the checkpoint interval after a batch
        without tuples, and a run with `until_empty` ends with such a batch. With an override that always returns True,
        empty batches follow each other without a pause, and such a run never ends.
        """
        return True

    def close(self) -> None:
        """Called once, at the end of the run."""


class TransactionalCoordinator(Coordinator):
    """The coordinator of a `TransactionalSpout`."""

    @abstractmethod
    def initialize_transaction(self, txid: int, previous_metadata: Any) -> Any:
        """Return the metadata of a new batch: plain values from which its tuples can be emitted, any number of times.

        It is stored before the batch is emitted, and is the same in each try. Never called again for a txid whose
        metadata is stored. All metadata of a spout has one type.

        Args:
            txid: The batch's transaction id, from 1.
            previous_metadata: The metadata of the batch before; None for the first one.
        """


class PartitionedCoordinator(Coordinator):
    """The coordinator of a `PartitionedTransactionalSpout` or an `OpaquePartitionedTransactionalSpout`."""

    @abstractmethod
    def number_of_partitions(self) -> int:
        """Return how many partitions the source has, at least 1. Called for each new batch. Must never decrease."""


class Emitter(ABC):
    """Emits batches on executors. Each worker process that runs a task of the spout has one emitter for the task.

    It may get any batches of its task, in any order, so use its attributes only as a cache.
    """

    def cleanup_before(self, txid: int) -> None:
        """Called before a batch is emitted: batches below `txid` have committed, and are never emitted again."""

    def close(self) -> None:
        """Called once before the emitter is dropped; never when the worker is killed."""


class TransactionalEmitter(Emitter):
    """The emitter of a `TransactionalSpout`."""

    @abstractmethod
    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchOutputCollector) -> None:
        """Emit this task's share of a batch. Called on every task of the spout, for each try of each batch.

        Must emit the same tuples each time that it gets the same metadata. The first value of each tuple is `attempt`.
        """


class CommitterTransactionalEmitter(TransactionalEmitter):
    """The emitter of a `CommitterTransactionalSpout`."""

    @abstractmethod
    def commit(self, attempt: TransactionAttempt) -> None:
        """Called on every task of the spout in the batch's commit phase, before the batch is decided.

        All earlier batches have committed. The process need not be the one that emitted the batch. If it raises, the
        batch fails and is tried again, so it may be called again for another attempt at the same txid.
        """


class PartitionedEmitter(Emitter):
    """The emitter of a `PartitionedTransactionalSpout`. A partition is always emitted by the same task."""

    @abstractmethod
    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, partition: int, last_metadata: Any
    ) -> Any:
        """Emit a new batch of a partition, and return its metadata: plain values from which to emit it again.

        Args:
            attempt: The batch's attempt, the first value of every tuple.
            collector: Takes the tuples.
            partition: From 0.
            last_metadata: The metadata of the batch before; None if the partition has none yet.

        Returns:
            The metadata of this batch. To emit nothing, return `last_metadata`, or None. A batch with tuples must have
            different metadata from the batch before: otherwise its tuples would be emitted again. All metadata of a
            spout has one type.
        """

    @abstractmethod
    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, partition: int, metadata: Any
    ) -> None:
        """Emit a batch of a partition again. Must emit exactly the tuples that were emitted with this metadata."""


class OpaquePartitionedEmitter(Emitter):
    """The emitter of an `OpaquePartitionedTransactionalSpout`."""

    @abstractmethod
    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, partition: int, last_metadata: Any
    ) -> Any:
        """Emit a batch of a partition, and return its metadata; see `PartitionedEmitter.emit_partition_batch_new`.

        Also called when a batch is tried again, with the same `last_metadata`; it may then emit different tuples.
        """


class BatchSpout(Spout):
    """Base of the spouts of transactional topologies. The object is pickled for the tasks of its emitters.

    The first field of every stream that it declares is for the attempt.
    """


class TransactionalSpout(BatchSpout):
    """A spout whose coordinator defines each batch. All its tasks emit a share of every batch."""

    @abstractmethod
    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionalCoordinator:
        """Return the coordinator. Called once in a run, on the driver."""

    @abstractmethod
    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionalEmitter:
        """Return the emitter of a task. Called on an executor."""


class CommitterTransactionalSpout(TransactionalSpout):
    """A `TransactionalSpout` whose emitters take part in the commit phase."""

    @abstractmethod
    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> CommitterTransactionalEmitter:
        """Return the emitter of a task. Called on an executor."""


class PartitionedTransactionalSpout(BatchSpout):
    """A spout over a source with partitions that can be read again, with the same batch each time."""

    @abstractmethod
    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionedCoordinator:
        """Return the coordinator. Called once in a run, on the driver."""

    @abstractmethod
    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionedEmitter:
        """Return the emitter of a task. Called on an executor."""


class OpaquePartitionedTransactionalSpout(BatchSpout):
    """A spout over a source with partitions that cannot always be read again.

    Each tuple is in exactly one committed batch, but a batch that is tried again may have different tuples.
    """

    @abstractmethod
    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionedCoordinator:
        """Return the coordinator. Called once in a run, on the driver."""

    @abstractmethod
    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> OpaquePartitionedEmitter:
        """Return the emitter of a task. Called on an executor."""


class SpoutKind(NamedTuple):
    """The properties of a kind of spout, for the engine."""

    text: str  # in the decision record
    coordinator: type[Coordinator] | None = None  # required result of `coordinator`; None if there is no such method
    emitter: type[Emitter] | None = None  # likewise; None if Spark reads the batches
    is_partitioned: bool = False  # each partition has its own metadata
    is_opaque: bool = False  # a batch that is tried again may differ


KINDS: dict[type, SpoutKind] = {
    TransactionalSpout: SpoutKind("transactional", TransactionalCoordinator, TransactionalEmitter),
    CommitterTransactionalSpout: SpoutKind(
        "transactional, with committing emitters", TransactionalCoordinator, CommitterTransactionalEmitter
    ),
    PartitionedTransactionalSpout: SpoutKind(
        "partitioned", PartitionedCoordinator, PartitionedEmitter, is_partitioned=True
    ),
    OpaquePartitionedTransactionalSpout: SpoutKind(
        "opaque partitioned", PartitionedCoordinator, OpaquePartitionedEmitter, is_partitioned=True, is_opaque=True
    ),
}
"""All kinds of spouts. A new kind extends `BatchSpout` and has an entry; a kind in another module adds its entry."""


def kind_of(spout: Spout) -> SpoutKind | None:
    """Return the kind of a spout of a transactional topology: the entry of its nearest base; None if there is none."""
    return next((KINDS[base] for base in type(spout).__mro__ if base in KINDS), None)
