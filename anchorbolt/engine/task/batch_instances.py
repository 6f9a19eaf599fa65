"""Builds the instances of a transactional topology's tasks: a bolt for the phase of the plan, or an emitter."""

from __future__ import annotations

from functools import partial

from anchorbolt.bolts.base import BaseBasicBolt, BaseStatefulBolt
from anchorbolt.bolts.batch import BaseBatchBolt, BatchOutputCollector
from anchorbolt.bolts.sink import DataFrameSink
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.plan.wiring import BatchPhase
from anchorbolt.engine.task.emitter import Emitter
from anchorbolt.engine.task.executors.batch_executors import (
    BatchBoltExecutor,
    BlobKeeper,
    EmitterCommit,
    HandingBatchExecutor,
    StatefulBatchExecutor,
)
from anchorbolt.engine.task.executors.sink_executor import SinkExecutor
from anchorbolt.engine.task.executors.wrapped_bolts import CheckpointTupleForwarder, WrappedBolt
from anchorbolt.engine.task.instance import Instance, open_state
from anchorbolt.spouts import transactional as spouts
from anchorbolt.state_backends.cache_budget import CacheBudget
from anchorbolt.streams.context import TopologyContext
from anchorbolt.transactional.batches.spout_calls import called, made


def build_for_batches(plan: ExecutionPlan, task: TaskKey, budget: CacheBudget) -> Instance:
    """Build an instance of a transactional topology, for the phase of the plan.

    `budget` limits the memory for states in this process.
    """
    component = task[0]
    emitter = Emitter(plan, task)
    collector = BatchOutputCollector(component, plan.wiring.streams[component], emitter.flush)
    wrapped, is_stateful = _wrapped(plan, task, emitter, collector, budget)
    return Instance(wrapped, is_stateful, collector, emitter)


def _wrapped(
    plan: ExecutionPlan, task: TaskKey, emitter: Emitter, collector: BatchOutputCollector, budget: CacheBudget
) -> tuple[WrappedBolt, bool]:
    component, context, forward = task[0], emitter.context, emitter.forward
    hand_offs, is_late = plan.hand_offs(), component in plan.wiring.late_bolts
    processing = plan.wiring.phase is BatchPhase.PROCESSING
    if component == plan.wiring.batch_spout:
        committing = new_emitter(plan, task, context)
        assert isinstance(committing, spouts.CommitterTransactionalEmitter)
        commit = partial(called, task, "commit", committing.commit)
        return EmitterCommit(commit, partial(called, task, "close", committing.close)), False
    bolt = plan.unpickle_bolt(component)
    if isinstance(bolt, BaseBatchBolt):
        kind = HandingBatchExecutor if is_late and processing else BatchBoltExecutor
        new_bolt = partial(_new_batch_bolt, plan, component)
        return kind(new_bolt, plan.conf, context, collector, forward, hand_offs), False
    if isinstance(bolt, BaseBasicBolt):
        return CheckpointTupleForwarder(bolt, plan.conf, context, collector, forward), False
    if processing:
        return BlobKeeper(context, forward, hand_offs), False
    if isinstance(bolt, DataFrameSink):
        return SinkExecutor(bolt, context, plan.open_location(), forward), False
    assert isinstance(bolt, BaseStatefulBolt), "the builder refuses any other bolt"
    state, fields = open_state(plan, task, bolt, budget), plan.wiring.key_fields[component]
    return StatefulBatchExecutor(bolt, plan.conf, context, collector, forward, state, fields), True


def _new_batch_bolt(plan: ExecutionPlan, component: str) -> BaseBatchBolt:
    bolt = plan.unpickle_bolt(component)
    assert isinstance(bolt, BaseBatchBolt)
    return bolt


def new_emitter(plan: ExecutionPlan, task: TaskKey, context: TopologyContext) -> spouts.Emitter:
    """Return a new emitter of a task. Raises `SpoutError` if the user's method raises or returns no emitter."""
    spout = plan.unpickle_spout()
    kind = spouts.kind_of(spout)
    assert kind is not None
    assert kind.emitter is not None
    make = spout.emitter  # type: ignore[attr-defined]
    emitter: spouts.Emitter = made(task, "emitter", kind.emitter, make, plan.conf, context)
    return emitter
