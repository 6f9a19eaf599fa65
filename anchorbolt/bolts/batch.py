"""Base classes for the bolts of a transactional topology that process a batch as a whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anchorbolt.bolts.base import Bolt
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import Tuple

if TYPE_CHECKING:
    from anchorbolt.bolts.batch_collector import BatchOutputCollector


class Committer:
    """Marks the class of a bolt whose `finish_batch` is called in the commit phase, in the order of the batches.

    Extend it beside `BaseBatchBolt`, `BaseTransactionalBolt` or `BaseStatefulBolt`, or add the bolt with
    `TransactionalTopologyBuilder.set_committer_bolt`.
    """


class BaseBatchBolt(Bolt):
    """A bolt of a transactional topology with a new instance for every batch.

    The order of calls on an instance: `prepare`, any number of `execute`, `finish_batch`, `cleanup`. If the batch fails
    meanwhile, `finish_batch` is not called. A batch that is tried again has new instances.

    A committer, and a bolt below a committer, executes the tuples of the processing phase in that phase. The instance
    is then pickled, and `finish_batch` is called on the unpickled copy in the commit phase, perhaps in another process.
    If the instance cannot be pickled after `prepare`, for example because it holds a connection, its tuples are kept
    instead, and all its hooks are called in the commit phase. So connect in `finish_batch` or `prepare`; a connection
    that is opened in `execute` is refused.

    Tuples emitted in `cleanup` are not sent.
    """

    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: BatchOutputCollector, id: Any
    ) -> None:
        """Called once on each instance, before its first tuple.

        Args:
            conf: The configuration.
            context: The task's identity, and the topology.
            collector: Emits tuples. The first value of each is `id`.
            id: The batch: its `TransactionAttempt`.
        """

    @abstractmethod
    def execute(self, tup: Tuple) -> None:
        """Process one tuple. If it raises, the batch fails and is tried again."""

    def finish_batch(self) -> None:
        """Called after all tuples of the task's batch; may emit.

        Called in the processing phase; on a committer, and on a bolt below a committer, in the commit phase, after all
        earlier batches have committed. Never called for a batch that failed. If it raises, the batch fails and is tried
        again.
        """


class BaseTransactionalBolt(BaseBatchBolt):
    """A `BaseBatchBolt`, under its name in Storm's transactional topologies."""
