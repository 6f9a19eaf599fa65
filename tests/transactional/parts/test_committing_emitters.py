"""A `CommitterTransactionalSpout`: each of its emitters commits every batch, in the commit phase."""

from collections.abc import Mapping
from typing import Any

from anchorbolt.bolts import BaseBasicBolt, BasicOutputCollector
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import Tuple
from anchorbolt.transactional import (
    BatchOutputCollector,
    CommitterTransactionalEmitter,
    CommitterTransactionalSpout,
    TransactionalCoordinator,
    TransactionalTopologyBuilder,
    TransactionAttempt,
)
from tests.engine.jobs import Fields, finished

COMMITTED: list[tuple[int, int]] = []
"""By txid and task, in the order of the calls."""


class _Coordinator(TransactionalCoordinator):
    def after(self, last_metadata: Any) -> None:
        self.last = last_metadata or 0

    def is_ready(self) -> bool:
        return bool(self.last < 3)

    def initialize_transaction(self, txid: int, previous_metadata: Any) -> Any:
        return txid


class _Emitter(CommitterTransactionalEmitter):
    def __init__(self, index: int) -> None:
        self.index = index

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchOutputCollector) -> None:
        collector.emit((attempt, metadata))

    def commit(self, attempt: TransactionAttempt) -> None:
        COMMITTED.append((attempt.txid, self.index))


class _Spout(Fields, CommitterTransactionalSpout):
    fields = ("tx", "number")

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionalCoordinator:
        return _Coordinator()

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> CommitterTransactionalEmitter:
        return _Emitter(context.this_task_index)


class _Ignore(BaseBasicBolt):
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        pass


def test_each_emitter_commits_every_batch_in_the_order_of_the_txids() -> None:
    """It failed: the emitter's task looked for tasks above it."""
    COMMITTED.clear()
    builder = TransactionalTopologyBuilder("committing", "numbers", _Spout(), 2)
    builder.set_bolt("ignore", _Ignore()).shuffle_grouping("numbers")
    finished(builder.build_topology())
    assert [txid for txid, _ in COMMITTED] == [1, 1, 2, 2, 3, 3]
    assert {task for _, task in COMMITTED} == {0, 1}
