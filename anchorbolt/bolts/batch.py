"""Base classes for the bolts of a transactional topology that process a batch as a whole, and their collector."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from itertools import repeat
from operator import is_, itemgetter
from typing import Any

from anchorbolt.bolts.base import Bolt
from anchorbolt.bolts.collector import Flush, OutputCollector
from anchorbolt.streams.attempt import TransactionAttempt
from anchorbolt.streams.calls import Buffer
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import StreamDeclaration
from anchorbolt.streams.tuple import Tuple
from anchorbolt.util.messages import counted, shortened

_FIRST = itemgetter(0)


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


class BatchOutputCollector(OutputCollector):
    """Emits the tuples of one batch. The framework anchors and acks: `anchors` and `ack` are accepted without effect.

    `fail` fails the batch.

    Attributes:
        attempt: The attempt at the current batch: the first value of every tuple. `on_timer` reads it here, because it
            gets no tuple.
    """

    has_attempt = True

    def __init__(self, component: str, streams: Mapping[str, StreamDeclaration], flush: Flush) -> None:
        """Called by the engine, never by a job. `flush` is the argument of `OutputCollector`."""
        super().__init__(component, streams, flush, must_anchor=False)
        self.attempt: TransactionAttempt | None = None  # set by the engine for each batch

    def _firsts(self, rows: list[Any], stream: str) -> list[Any]:
        firsts = super()._firsts(rows, stream)
        with suppress(Exception):  # a value of another type may raise in `==`, or return an array
            if firsts.count(self.attempt) == len(rows):
                return firsts
        self._check_width(rows, stream)
        return firsts

    def _check_width(self, values: list[Any], stream: str) -> None:
        attempt, fields = self.attempt, self._streams[stream].fields
        if set(map(len, values)) == {len(fields)} and all(map(is_, map(_FIRST, values), repeat(attempt))):
            return
        # Do not compare a value of another type: its `==` may raise, or return an array.
        wrong = next(
            (
                row
                for row in values
                if not row or (row[0] is not attempt and (not isinstance(row[0], tuple) or row[0] != attempt))
            ),
            None,
        )
        if wrong is not None:
            raise self._refusal(
                f"emitted {shortened(wrong, 120)} to stream {stream!r}. In a transactional topology the first value of "
                f"every tuple is the attempt at its batch, here {attempt!r}, for the field {fields[0]!r}. Emit "
                "(attempt, …) with the attempt that prepare, execute (as tup[0]) or the emitter got."
            )
        if set(map(len, values)) != {len(fields)}:
            row = next(row for row in values if len(row) != len(fields))
            raise self._refusal(
                f"emitted {shortened(row, 120)} to stream {stream!r}, which declares {counted(len(fields), 'field')}: "
                f"{', '.join(fields)}. The first field is for the attempt. Declare one field for each value, as in "
                'declare("tx", "word"), and emit one value for each field.'
            )

    def send_block(self, stream: str, buffer: Buffer) -> None:
        buffer.columns.insert(0, [self.attempt] * buffer.size)
        super().send_block(stream, buffer)

    def refuse_emitted(self, hook: str) -> None:
        """Raise `TopologyError` if the bolt has emitted in a hook that must not emit. Called by the engine."""
        if self.emitted or any(buffer or buffer.size for each in self._gate.buffers for buffer in each.values()):
            raise self._refusal(f"emitted in {hook}, before its batch has begun. Emit in execute or finish_batch.")
