"""The instances of bolts that one process keeps from wave to wave, and the rule for using an instance again.

A stateful bolt's instance is used again only if its attempt won the directly preceding wave of its task. A plain bolt's
instance is used again in any later wave, unless it failed; where tuple trees are tracked, it may keep tuples, and so it
is not used again after a round that was rolled back either. Otherwise the instance is closed, and a new one is built.
"""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anchorbolt.acker.placement import ACKER_ID
from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.bolts.sink import DataFrameSink
from anchorbolt.bolts.tracked_collector import TrackedOutputCollector
from anchorbolt.checkpoint.custom_state import CustomTaskState
from anchorbolt.checkpoint.decision import Committed
from anchorbolt.checkpoint.outbox import SinkExecutor
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.checkpoint.wrapped_bolts import CheckpointTupleForwarder, StatefulBoltExecutor, TaskState, WrappedBolt
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.emitter import Emitter
from anchorbolt.errors import AnchorboltError
from anchorbolt.serialization.schema import Schema
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.state import NO_FENCE, NOTHING_COMMITTED, AttemptScope, Fence

if TYPE_CHECKING:
    from anchorbolt.acker.task_tracker import TaskTracker

_log = logging.getLogger("anchorbolt.engine")

_RUNS_KEPT = 64


@dataclass
class Instance:
    """One bolt instance with all that belongs to it."""

    bolt: WrappedBolt
    is_stateful: bool
    collector: OutputCollector
    emitter: Emitter
    tracker: TaskTracker | None = None  # None if its tuples are not tracked
    attempt: str = ""  # the last attempt that it prepared; empty if it failed since
    fence: Fence = NO_FENCE  # of the round that it was last used in

    def begin(self, plan: ExecutionPlan, task: TaskKey, current: Round, attempt: str, winner: str = "") -> None:
        """Start a round; `winner` is the attempt that won it, if COMMIT follows; else empty."""
        self.attempt = ""
        self.fence = current.fence
        self.collector.begin()
        self.emitter.begin(attempt)
        if self.tracker is not None:
            self.tracker.keeps_failures = current.isolates or not plan.ackers
        position = current.committed.get(plan.namespace(task), Committed(NOTHING_COMMITTED, ""))
        scope = AttemptScope(current.fence, current.txid, attempt, position.txid, position.attempt)
        self.bolt.isolates = current.isolates
        self.bolt.begin(scope, winner)
        self.bolt.handle(CheckpointTuple(current.txid - 1, Action.INITSTATE))


class InstanceRegistry:
    """The instances of a process, by run and task. Not thread-safe: one task of a process runs at a time."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, dict[TaskKey, Instance]] = OrderedDict()

    def obtain(self, plan: ExecutionPlan, task: TaskKey, current: Round) -> Instance:
        """Return the kept instance of a task if it may be used again, else a new one."""
        instances = self._run(plan)
        instance = instances.get(task)
        tracked = (plan.is_tracked or current.isolates) and task[0] != ACKER_ID
        if (
            instance is None
            or (instance.tracker is not None) != tracked
            or not _usable_again(instance, current, current.task_winners.get(task), keeps_tuples=plan.is_tracked)
        ):
            if instance is not None:
                _close(instances.pop(task), task)
            instance = instances[task] = _build(plan, task, tracked=tracked)
        return instance

    def handle(self, plan: ExecutionPlan, checkpoint: CheckpointTuple, task: TaskKey, current: Round) -> None:
        """Give COMMIT or ROLLBACK to a task's bolt. Raises `BoltError`, and whatever the store raises.

        COMMIT goes to the instance that processed the wave, if this process keeps it, else to a new one. ROLLBACK goes
        only to an instance of this process that took part in the round.
        """
        instance = self._run(plan).get(task)
        winner = current.task_winners.get(task)
        if checkpoint.action is Action.ROLLBACK:
            if instance is None or instance.fence != current.fence:
                return
        elif instance is None or instance.attempt != winner:
            instance = self.obtain(plan, task, current)
            instance.begin(plan, task, current, uuid.uuid4().hex, winner or "")
        instance.bolt.handle(checkpoint)

    def close_run(self, run_id: str) -> None:
        for task, instance in self._runs.pop(run_id, {}).items():
            _close(instance, task)

    def _run(self, plan: ExecutionPlan) -> dict[TaskKey, Instance]:
        run = self._runs.get(plan.run_id)
        if run is None:
            run = self._runs[plan.run_id] = {}
            while len(self._runs) > _RUNS_KEPT:
                self.close_run(next(iter(self._runs)))
        self._runs.move_to_end(plan.run_id)
        return run


def _usable_again(instance: Instance, current: Round, winner: str | None, *, keeps_tuples: bool) -> bool:
    if not instance.attempt:  # it failed, or was cut off: what its fields hold is unknown
        return False
    if instance.is_stateful:
        return instance.attempt == winner
    return not keeps_tuples or not current.was_rolled_back(instance.fence)


def _close(instance: Instance, task: TaskKey) -> None:
    """Close an instance. An error in its `cleanup` is logged."""
    try:
        instance.bolt.close()
    except AnchorboltError as error:
        _log.warning("closing task %s of %r: %s", task[1], task[0], error)


def _build(plan: ExecutionPlan, task: TaskKey, *, tracked: bool) -> Instance:
    component, index = task
    if component == ACKER_ID:
        return _build_acker(plan, task)
    tracker = None
    if tracked:
        from anchorbolt.acker.task_tracker import TaskTracker  # NumPy: only where tuple trees are tracked

        tracker = TaskTracker(
            component,
            index,
            plan.task_id(task),
            counts=plan.ackers > 0,
            most_tracebacks=plan.settings.most_dead_letters,
        )
    bolt = plan.unpickle_bolt(component)
    emitter = Emitter(plan, task, tracker)
    context = emitter.context
    collector = _collector(plan, emitter, tracked=tracked)
    wrapped: WrappedBolt
    if isinstance(bolt, BaseStatefulBolt):
        state = _open_state(plan, task, bolt)
        wrapped = StatefulBoltExecutor(
            bolt, plan.conf, context, collector, emitter.forward, state, plan.key_fields[component], tracker
        )
    elif isinstance(bolt, DataFrameSink):
        wrapped = SinkExecutor(bolt, context, plan.checkpoint_location, emitter.forward, tracker)
    else:
        wrapped = CheckpointTupleForwarder(bolt, plan.conf, context, collector, emitter.forward, tracker)
    return Instance(wrapped, isinstance(bolt, BaseStatefulBolt), collector, emitter, tracker)


def _build_acker(plan: ExecutionPlan, task: TaskKey) -> Instance:
    from anchorbolt.checkpoint.tracking.acker_executor import AckerExecutor

    emitter = Emitter(plan, task)
    storage = plan.provider.open(plan.namespace(task))
    acker = AckerExecutor(storage, emitter.forward)
    return Instance(acker, True, OutputCollector(ACKER_ID, {}, emitter.flush, must_anchor=False), emitter)


def _collector(plan: ExecutionPlan, emitter: Emitter, *, tracked: bool) -> OutputCollector:
    context, must_anchor = emitter.context, bool(plan.stateful_bolts)
    component = context.this_component_id
    streams = plan.streams[component]
    if not tracked:
        # As in Storm, nothing fails in a topology of rich spouts without ackers.
        return OutputCollector(
            component, streams, emitter.flush, must_anchor=must_anchor, fail_has_effect=plan.has_other_spouts
        )
    return TrackedOutputCollector(
        component,
        streams,
        emitter.flush,
        must_anchor=must_anchor,
        task_index=context.this_task_index,
        untracked_fail=plan.has_other_spouts,
        strict=plan.is_tracked,
        fail_has_effect=plan.is_tracked or plan.has_other_spouts,
    )


def _open_state(plan: ExecutionPlan, task: TaskKey, bolt: BaseStatefulBolt[Any]) -> TaskState:
    custom = plan.new_state(task)
    storage = plan.provider.open(plan.namespace(task))
    if custom is not None:
        return CustomTaskState(custom, storage)
    return KeyValueState(
        storage,
        key_codec=plan.key_codec,
        value_codec=plan.value_codec,
        schema=Schema(bolt.state_schema_version, bolt.upcast),
        cache_entries=plan.settings.cache_entries,
        pending_entries=plan.settings.pending_entries,
    )
