"""Transactional topologies: batches that are processed at the same time, and committed in their order."""

from anchorbolt.bolts.batch import BaseBatchBolt, BaseTransactionalBolt, Committer
from anchorbolt.bolts.batch_collector import BatchOutputCollector
from anchorbolt.spouts.transactional import (
    CommitterTransactionalEmitter,
    CommitterTransactionalSpout,
    OpaquePartitionedEmitter,
    OpaquePartitionedTransactionalSpout,
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
    TransactionalCoordinator,
    TransactionalEmitter,
    TransactionalSpout,
)
from anchorbolt.streams.attempt import TransactionAttempt
from anchorbolt.transactional.builder import TransactionalTopologyBuilder
from anchorbolt.transactional.maps import BackingMap, OpaqueMap, TransactionalMap
from anchorbolt.transactional.memory import MemoryTransactionalSpout, OpaqueMemoryTransactionalSpout
from anchorbolt.transactional.values import OpaqueValue, TransactionalValue, update_opaque, update_transactional

__all__ = [
    "BackingMap",
    "BaseBatchBolt",
    "BaseTransactionalBolt",
    "BatchOutputCollector",
    "Committer",
    "CommitterTransactionalEmitter",
    "CommitterTransactionalSpout",
    "MemoryTransactionalSpout",
    "OpaqueMap",
    "OpaqueMemoryTransactionalSpout",
    "OpaquePartitionedEmitter",
    "OpaquePartitionedTransactionalSpout",
    "OpaqueValue",
    "PartitionedCoordinator",
    "PartitionedEmitter",
    "PartitionedTransactionalSpout",
    "TransactionAttempt",
    "TransactionalCoordinator",
    "TransactionalEmitter",
    "TransactionalMap",
    "TransactionalSpout",
    "TransactionalTopologyBuilder",
    "TransactionalValue",
    "update_opaque",
    "update_transactional",
]
