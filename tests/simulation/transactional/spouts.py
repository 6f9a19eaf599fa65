"""The four kinds of simulated transactional spouts. Their source, and the world, come by the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anchorbolt.bolts.batch import BatchOutputCollector
from anchorbolt.spouts import transactional as spouts
from anchorbolt.streams.attempt import TransactionAttempt
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from tests.simulation.transactional.scenario import SpoutKind
from tests.simulation.transactional.source import rows_of

if TYPE_CHECKING:
    from tests.simulation.transactional.world import BatchWorld

WORLD = "world"
"""Key of the world in the configuration of the components."""


def world_of(conf: Mapping[str, Any]) -> BatchWorld:
    world: BatchWorld = conf[WORLD]
    return world


class _Coordinator(spouts.PartitionedCoordinator, spouts.TransactionalCoordinator):
    def __init__(self, world: BatchWorld) -> None:
        self._world = world
        self._source = world.source
        self._last: Any = None

    def after(self, last_metadata: Any) -> None:
        self._last = last_metadata

    def is_ready(self) -> bool:
        return self._source.is_ready(self._last)

    def number_of_partitions(self) -> int:
        self._world.may_fail("the coordinator")
        return self._source.number_of_partitions()

    def initialize_transaction(self, txid: int, previous_metadata: Any) -> Any:
        self._world.may_fail("the coordinator")
        return self._source.next_batch(0, previous_metadata)


class _Emitter:
    def __init__(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.world = world_of(conf)
        self.index = context.this_task_index
        self.tasks = len(context.get_component_tasks(context.this_component_id))

    def cleanup_before(self, txid: int) -> None:
        self.world.checks.forgets(txid)

    def emit(self, attempt: TransactionAttempt, collector: BatchOutputCollector, rows: list[int]) -> None:
        self.world.step(f"emits {rows} of {tuple(attempt)}")
        for row in rows:
            collector.emit((attempt, row))
        self.world.may_fail("an emitter")


class _WholeEmitter(_Emitter, spouts.CommitterTransactionalEmitter):
    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchOutputCollector) -> None:
        self.emit(attempt, collector, rows_of(0, metadata)[self.index :: self.tasks])

    def commit(self, attempt: TransactionAttempt) -> None:
        self.world.checks.emitter_commits(attempt, self.index)
        self.world.may_fail("the commit of an emitter")


class _PartitionedEmitter(_Emitter, spouts.PartitionedEmitter):
    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, partition: int, last_metadata: Any
    ) -> Any:
        metadata = self.world.source.next_batch(partition, last_metadata)
        self.emit(attempt, collector, rows_of(partition, metadata))
        return metadata if metadata[1] else (last_metadata, None)[self.world.choices.pick(2)]

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, partition: int, metadata: Any
    ) -> None:
        self.emit(attempt, collector, rows_of(partition, metadata))


class _OpaqueEmitter(_Emitter, spouts.OpaquePartitionedEmitter):
    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, partition: int, last_metadata: Any
    ) -> Any:
        if self.world.source.is_away():
            self.world.say(f"partition {partition} is away")
            return last_metadata
        metadata = self.world.source.next_batch(partition, last_metadata)
        self.emit(attempt, collector, rows_of(partition, metadata))
        return metadata if metadata[1] else last_metadata


class _Rows(spouts.BatchSpout):
    _emitter: Any

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> Any:
        return _Coordinator(world_of(conf))

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> Any:
        return self._emitter(conf, context)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("tx", "row")


class _Whole(_Rows, spouts.TransactionalSpout):
    _emitter = _WholeEmitter


class _Committer(_Rows, spouts.CommitterTransactionalSpout):
    _emitter = _WholeEmitter


class _Partitioned(_Rows, spouts.PartitionedTransactionalSpout):
    _emitter = _PartitionedEmitter


class _Opaque(_Rows, spouts.OpaquePartitionedTransactionalSpout):
    _emitter = _OpaqueEmitter


SPOUTS: Mapping[SpoutKind, type[spouts.BatchSpout]] = {
    SpoutKind.WHOLE: _Whole,
    SpoutKind.COMMITTER: _Committer,
    SpoutKind.PARTITIONED: _Partitioned,
    SpoutKind.OPAQUE: _Opaque,
}
