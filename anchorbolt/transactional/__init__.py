"""Transactional topologies: batches that are processed in parallel, and committed in order.

The spouts over files, Redis and Kafka are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchorbolt.bolts.batch import BaseBatchBolt, BaseTransactionalBolt, BatchOutputCollector, Committer
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout
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
from anchorbolt.util.imports import lazy_names

if TYPE_CHECKING:
    from anchorbolt.transactional.files import FilesTransactionalSpout
    from anchorbolt.transactional.kafka import KafkaTransactionalSpout
    from anchorbolt.transactional.redis_streams import OpaqueRedisTransactionalSpout, RedisTransactionalSpout

__all__ = [
    "BackingMap",
    "BaseBatchBolt",
    "BaseTransactionalBolt",
    "BatchOutputCollector",
    "Committer",
    "CommitterTransactionalEmitter",
    "CommitterTransactionalSpout",
    "FilesTransactionalSpout",
    "KafkaTransactionalSpout",
    "MemoryTransactionalSpout",
    "OpaqueMap",
    "OpaqueMemoryTransactionalSpout",
    "OpaquePartitionedEmitter",
    "OpaquePartitionedTransactionalSpout",
    "OpaqueRedisTransactionalSpout",
    "OpaqueValue",
    "PartitionedCoordinator",
    "PartitionedEmitter",
    "PartitionedTransactionalSpout",
    "RedisTransactionalSpout",
    "SparkTransactionalSpout",
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

_REDIS_STREAMS = "anchorbolt.transactional.redis_streams"

__getattr__ = lazy_names(
    __name__,
    {
        "FilesTransactionalSpout": "anchorbolt.transactional.files",
        "KafkaTransactionalSpout": "anchorbolt.transactional.kafka",
        "OpaqueRedisTransactionalSpout": _REDIS_STREAMS,
        "RedisTransactionalSpout": _REDIS_STREAMS,
    },
)
