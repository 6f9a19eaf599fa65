"""Wraps the bolts of a transactional topology: early ones, and late ones in each of the two phases of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.bolts.batch import BaseBatchBolt, BatchOutputCollector
from anchorbolt.checkpoint.ports import BatchTry, TaskKey
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.task.executors.stateful_executor import StatefulBoltExecutor, TaskState
from anchorbolt.engine.task.executors.wrapped_bolts import CheckpointTupleForwarder, TaskOutcome, WrappedBolt
from anchorbolt.errors import AnchorboltError, BoltError
from anchorbolt.streams.attempt import TransactionAttempt
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple_batch import TupleBatch
from anchorbolt.topology.time import TimeSpec
from anchorbolt.transactional.batches.hand_off import HandOffs, HandOffWriter, pickled
from anchorbolt.transactional.maps import journal_was_kept
from anchorbolt.util.messages import shortened

Forward = Callable[[CheckpointTuple], None]


class BatchBoltExecutor(CheckpointTupleForwarder):
    """Runs a batch bolt with a new instance for every batch; in the commit phase, with the kept instance."""

    _collector: BatchOutputCollector
    # Tuples of `prepare` are refused with an error that names it; tuples of `cleanup` are not sent.
    _calling_hooks = ("prepare", "finish_batch", "cleanup")

    def __init__(
        self,
        new_bolt: Callable[[], BaseBatchBolt],
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: BatchOutputCollector,
        forward: Forward,
        hand_offs: HandOffs,
    ) -> None:
        self._new_bolt = new_bolt
        self._conf = conf
        self._is_open = False
        self._keeps_journal = False
        self._hand_offs = hand_offs
        super().__init__(None, conf, context, collector, forward)

    @property
    def kept_bolt(self) -> object | None:
        return None

    def _prepare(self, conf: Mapping[str, Any]) -> None:
        """Do nothing: each batch has its own instance."""

    def begin_batch(self, batch: BatchTry, attempt: str) -> None:
        self._end_instance()
        task = _task(self._context)
        hand_off = None if batch.hand_offs is None else batch.hand_offs.get(task)
        if hand_off is not None and hand_off.holds_instance:
            own = self._collector, self._context, self._conf
            try:
                self._bolt = self._hand_offs.read_instance(batch, task, hand_off, *own)
            except AnchorboltError:
                raise
            except Exception as error:  # of a `__setstate__`, for instance
                self._fail("its unpickling for the commit phase", None, error)
            self._is_open = True
            return
        self._bolt = self._new_bolt()
        self._is_open = True
        self._call("prepare", self._conf, self._context, self._collector, batch.attempt)
        self._collector.refuse_emitted("prepare")

    def handle(self, checkpoint: CheckpointTuple) -> None:
        if checkpoint.action is Action.PREPARE:
            journal_was_kept()  # clear the mark of another task on this thread
            self._call("finish_batch")
            self._keeps_journal = journal_was_kept()
            self._raise_if_failed()
            super().handle(checkpoint)
            self._end_instance()

    @property
    def outcome(self) -> TaskOutcome:
        return TaskOutcome(keeps_journal=self._keeps_journal)

    def close(self) -> None:
        self._end_instance()

    def _end_instance(self) -> None:
        if self._is_open:
            self._is_open = False
            self._call("cleanup")


class HandingBatchExecutor(BatchBoltExecutor):
    """Runs a late batch bolt in the processing phase, and keeps its instance, or its blobs, for the commit phase."""

    _writer: HandOffWriter | None = None

    def begin_batch(self, batch: BatchTry, attempt: str) -> None:
        super().begin_batch(batch, attempt)
        self._outcome = TaskOutcome()
        self._writer = self._hand_offs.writer(batch.fence, _task(self._context), attempt)
        try:
            self._pickled()
        except Exception:  # it holds a connection, for instance
            self.keeps_blobs = True
            self._end_instance()
        else:
            self.keeps_blobs = False

    @property
    def outcome(self) -> TaskOutcome:
        return self._outcome

    def keep(self, payload: bytes) -> None:
        assert self._writer is not None
        self._writer.write_blob(payload)

    def handle(self, checkpoint: CheckpointTuple) -> None:
        if checkpoint.action is not Action.PREPARE:
            return
        assert self._writer is not None
        self._raise_if_failed()
        self._flush()
        if self.keeps_blobs:
            hand_off = self._writer.close_blobs()
        else:
            try:
                data = self._pickled()
            except Exception as error:
                raise self._not_picklable(error) from error
            hand_off = self._writer.write_instance(data)
            self._is_open = False  # its copy is cleaned up in the commit phase
        self._outcome = TaskOutcome(hand_off=hand_off)
        self._forward(checkpoint)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.abandon()
        super().close()

    def _pickled(self) -> bytes:
        return pickled(self._bolt, self._collector, self._context, self._conf)

    def _not_picklable(self, error: Exception) -> BoltError:
        component, index = self._context.this_component_id, self._context.this_task_index
        return BoltError(
            f"bolt {component!r}, task {index}, could be pickled after prepare, but not after its tuples: "
            f"{type(error).__name__}: {shortened(str(error), 300)}. Its instance is kept for the commit phase. Open "
            "what cannot be pickled, such as a connection, in finish_batch. Or open it in prepare: the bolt's tuples "
            "are then kept instead.",
            component=component,
            task_index=index,
        )


class BlobKeeper(WrappedBolt):
    """Keeps the blobs of a stateful bolt or a sink, which executes them in the commit phase, in the order of txids."""

    keeps_blobs = True

    def __init__(self, context: TopologyContext, forward: Forward, hand_offs: HandOffs) -> None:
        self._context = context
        self._forward = forward
        self._hand_offs = hand_offs
        self._writer: HandOffWriter | None = None
        self._outcome = TaskOutcome()

    @property
    def outcome(self) -> TaskOutcome:
        return self._outcome

    def begin_batch(self, batch: BatchTry, attempt: str) -> None:
        self.close()
        self._outcome = TaskOutcome()
        self._writer = self._hand_offs.writer(batch.fence, _task(self._context), attempt)

    def keep(self, payload: bytes) -> None:
        assert self._writer is not None
        self._writer.write_blob(payload)

    def execute(self, batch: TupleBatch) -> None:
        raise AssertionError("it keeps its tuples, and executes none")

    def handle(self, checkpoint: CheckpointTuple) -> None:
        if checkpoint.action is Action.PREPARE:
            assert self._writer is not None
            self._outcome = TaskOutcome(hand_off=self._writer.close_blobs())
            self._forward(checkpoint)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.abandon()


class StatefulBatchExecutor(StatefulBoltExecutor):
    """Runs a stateful bolt in the commit phase: the kept tuples, then the tuples of this phase, then `finish_batch`."""

    _calling_hooks = ("prepare", *StatefulBoltExecutor._calling_hooks)

    def __init__(
        self,
        bolt: BaseStatefulBolt[Any],
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: BatchOutputCollector,
        forward: Forward,
        state: TaskState,
        time: TimeSpec,
        timers_per_wave: int,
    ) -> None:
        self._finishes = hasattr(bolt, "finish_batch")
        super().__init__(bolt, conf, context, collector, forward, state, time, timers_per_wave)
        collector.refuse_emitted("prepare")

    def handle(self, checkpoint: CheckpointTuple) -> None:
        if checkpoint.action is Action.PREPARE and self._finishes:
            self._call("finish_batch")
        super().handle(checkpoint)


class EmitterCommit(WrappedBolt):
    """The part of a spout's task in the commit phase: calls `commit` of its emitter."""

    def __init__(self, commit: Callable[[TransactionAttempt], None], close: Callable[[], None]) -> None:
        self._commit = commit
        self._close = close
        self._batch: BatchTry | None = None

    def begin_batch(self, batch: BatchTry, attempt: str) -> None:
        self._batch = batch

    def execute(self, batch: TupleBatch) -> None:
        raise AssertionError("an emitter takes no tuples")

    def handle(self, checkpoint: CheckpointTuple) -> None:
        if checkpoint.action is Action.PREPARE and self._batch is not None:
            self._commit(self._batch.attempt)

    def close(self) -> None:
        self._close()


def _task(context: TopologyContext) -> TaskKey:
    return context.this_component_id, context.this_task_index
