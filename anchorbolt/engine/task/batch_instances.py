"""Builds what a task of a transactional topology runs: its bolt in the phase of the plan, or its emitter."""

from __future__ import annotations

from functools import partial

from anchorbolt.bolts.base import BaseBasicBolt, BaseStatefulBolt
from anchorbolt.bolts.batch import BaseBatchBolt
from anchorbolt.bolts.batch_collector import BatchOutputCollector
from anchorbolt.bolts.sink import DataFrameSink
from anchorbolt.checkpoint.batches.executors import (
    BatchBoltExecutor,
    BlobKeeper,
    EmitterCommit,
    HandingBatchExecutor,
    StatefulBatchExecutor,
)
from anchorbolt.checkpoint.outbox import SinkExecutor
from anchorbolt.checkpoint.ports import BatchTry, TaskKey
from anchorbolt.checkpoint.wrapped_bolts import CheckpointTupleForwarder, WrappedBolt
from anchorbolt.engine.submit.plan import BatchPhase, ExecutionPlan
from anchorbolt.engine.task.emitter import Emitter
from anchorbolt.engine.task.instance import Instance, open_state
from anchorbolt.errors import AnchorboltError, SpoutError
from anchorbolt.spouts import transactional as spouts
from anchorbolt.util.messages import user_traceback


def build_for_batches(plan: ExecutionPlan, task: TaskKey) -> Instance:
    """Build an instance of a transactional topology, for the phase of the plan."""
    component = task[0]
    emitter = Emitter(plan, task)
    collector = BatchOutputCollector(component, plan.streams[component], emitter.flush)
    wrapped, is_stateful = _wrapped(plan, task, emitter, collector)
    return Instance(wrapped, is_stateful, collector, emitter)


def _wrapped(
    plan: ExecutionPlan, task: TaskKey, emitter: Emitter, collector: BatchOutputCollector
) -> tuple[WrappedBolt, bool]:
    component, context, forward = task[0], emitter.context, emitter.forward
    location, is_late = plan.checkpoint_location, component in plan.late_bolts
    processing = plan.phase is BatchPhase.PROCESSING
    if component == plan.batch_spout:
        committing = new_emitter(plan, task)
        assert isinstance(committing, spouts.CommitterTransactionalEmitter)
        return EmitterCommit(partial(_commit, committing, task), partial(_close, committing, task)), False
    bolt = plan.unpickle_bolt(component)
    if isinstance(bolt, BaseBatchBolt):
        kind = HandingBatchExecutor if is_late and processing else BatchBoltExecutor
        new_bolt = partial(_new_batch_bolt, plan, component)
        return kind(new_bolt, plan.conf, context, collector, forward, location), False
    if isinstance(bolt, BaseBasicBolt):
        return CheckpointTupleForwarder(bolt, plan.conf, context, collector, forward), False
    if processing:
        return BlobKeeper(context, forward, location), False
    if isinstance(bolt, DataFrameSink):
        return SinkExecutor(bolt, context, location, forward), False
    assert isinstance(bolt, BaseStatefulBolt), "the builder refuses any other bolt"
    state, fields = open_state(plan, task, bolt), plan.key_fields[component]
    return StatefulBatchExecutor(bolt, plan.conf, context, collector, forward, state, fields), True


def _new_batch_bolt(plan: ExecutionPlan, component: str) -> BaseBatchBolt:
    bolt = plan.unpickle_bolt(component)
    assert isinstance(bolt, BaseBatchBolt)
    return bolt


def new_emitter(plan: ExecutionPlan, task: TaskKey) -> spouts.Emitter:
    """Return a new emitter of a task. Raises `SpoutError` if the user's method raises or returns something else."""
    spout = plan.unpickle_spout()
    kind = next(emitter for each, emitter in _KINDS if isinstance(spout, each))
    try:
        emitter: object = spout.emitter(plan.conf, plan.context(task))  # type: ignore[attr-defined]
    except (Exception, SystemExit) as error:
        raise spout_error(task, "emitter", error) from None
    if not isinstance(emitter, kind):
        raise SpoutError(
            f"spout {task[0]!r}: emitter(conf, context) returned a {type(emitter).__name__}. Return an instance of "
            f"{kind.__name__}.",
            component=task[0],
            task_index=task[1],
            user_traceback="",
        )
    assert isinstance(emitter, spouts.Emitter)
    return emitter


_KINDS: tuple[tuple[type, type], ...] = (  # a kind before its base
    (spouts.CommitterTransactionalSpout, spouts.CommitterTransactionalEmitter),
    (spouts.TransactionalSpout, spouts.TransactionalEmitter),
    (spouts.PartitionedTransactionalSpout, spouts.PartitionedEmitter),
    (spouts.OpaquePartitionedTransactionalSpout, spouts.OpaquePartitionedEmitter),
)


def spout_error(task: TaskKey, hook: str, error: BaseException) -> AnchorboltError:
    """Return the error for an exception of a spout's hook; one of our own comes as it is."""
    if isinstance(error, AnchorboltError):
        return error
    text = user_traceback(error)
    return SpoutError(
        f"{text}\n\nraised by spout {task[0]!r}, task {task[1]}, in {hook}. Fix the spout, or catch the exception in "
        "it.",
        component=task[0],
        task_index=task[1],
        user_traceback=text,
    )


def _commit(emitter: spouts.CommitterTransactionalEmitter, task: TaskKey, batch: BatchTry) -> None:
    try:
        emitter.commit(batch.attempt)
    except (Exception, SystemExit) as error:
        raise spout_error(task, "commit", error) from None


def _close(emitter: spouts.Emitter, task: TaskKey) -> None:
    try:
        emitter.close()
    except (Exception, SystemExit) as error:
        raise spout_error(task, "close", error) from None
