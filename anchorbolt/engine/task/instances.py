"""The instances of bolts that one process keeps from wave to wave, and the rule for using an instance again.

A stateful bolt's instance is used again only if its attempt won the directly preceding wave of its task. A plain bolt's
instance is used again in any later wave, unless it failed. Otherwise the instance is closed, and a new one is built.
"""

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.bolts.sink import DataFrameSink
from anchorbolt.checkpoint.custom_state import CustomTaskState
from anchorbolt.checkpoint.decision import Committed
from anchorbolt.checkpoint.forwarder import CheckpointTupleForwarder, WrappedBolt
from anchorbolt.checkpoint.outbox import SinkExecutor
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.checkpoint.stateful_executor import StatefulBoltExecutor, TaskState
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.emitter import Emitter
from anchorbolt.errors import AnchorboltError
from anchorbolt.serialization.schema import Schema
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.scope import NO_FENCE, NOTHING_COMMITTED, AttemptScope, Fence

_log = logging.getLogger("anchorbolt.engine")

_RUNS_KEPT = 64


@dataclass
class Instance:
    """One bolt instance with all that belongs to it."""

    bolt: WrappedBolt
    is_stateful: bool
    collector: OutputCollector
    emitter: Emitter
    attempt: str = ""  # the last attempt that it prepared; empty if it failed since
    fence: Fence = NO_FENCE  # of the round that it was last used in

    def begin(self, plan: ExecutionPlan, task: TaskKey, current: Round, attempt: str, decided: str = "") -> None:
        """Start a round; `decided` is the attempt that won it, if the round is decided already."""
        self.attempt = ""
        self.fence = current.fence
        self.collector.begin()
        self.emitter.begin(attempt)
        position = current.committed.get(plan.namespace(*task), Committed(NOTHING_COMMITTED, ""))
        scope = AttemptScope(current.fence, current.txid, attempt, position.txid, position.attempt)
        self.bolt.begin(scope, decided)
        self.bolt.handle(CheckpointTuple(current.txid - 1, Action.INITSTATE))


class InstanceRegistry:
    """The instances of a process, by run and task. Not thread-safe: one task of a process runs at a time."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, dict[TaskKey, Instance]] = OrderedDict()

    def obtain(self, plan: ExecutionPlan, task: TaskKey, current: Round) -> Instance:
        """Return the kept instance of a task if it may be used again, else a new one."""
        instances = self._run(plan)
        instance = instances.get(task)
        if instance is not None and not _usable_again(instance, current.winners.get(task)):
            self.evict(plan, task)
            instance = None
        if instance is None:
            instance = instances[task] = _build(plan, task)
        return instance

    def find(self, plan: ExecutionPlan, task: TaskKey) -> Instance | None:
        """Return the instance of a task if this process keeps it."""
        return self._run(plan).get(task)

    def evict(self, plan: ExecutionPlan, task: TaskKey) -> None:
        """Close the instance of a task. An error in its `cleanup` is logged."""
        instance = self._run(plan).pop(task, None)
        if instance is not None:
            _close(instance, task)

    def close_run(self, run_id: str) -> None:
        """Close all instances of a run."""
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


def _usable_again(instance: Instance, winner: str | None) -> bool:
    if not instance.attempt:  # it failed, or was cut off: what its fields hold is unknown
        return False
    return not instance.is_stateful or instance.attempt == winner


def _close(instance: Instance, task: TaskKey) -> None:
    try:
        instance.bolt.close()
    except AnchorboltError as error:
        _log.warning("closing task %s of %r: %s", task[1], task[0], error)


def _build(plan: ExecutionPlan, task: TaskKey) -> Instance:
    component, index = task
    bolt = plan.unpickle_bolt(component)
    context = plan.context(component, index)
    level, _ = plan.place(component, index)
    emitter = Emitter(plan, level, context)
    collector = OutputCollector(component, plan.streams(component), emitter.flush, must_anchor=plan.is_stateful)
    wrapped: WrappedBolt
    if isinstance(bolt, BaseStatefulBolt):
        state = _open_state(plan, task, bolt)
        wrapped = StatefulBoltExecutor(
            bolt, plan.conf, context, collector, emitter.forward, state, plan.key_fields(component)
        )
    elif isinstance(bolt, DataFrameSink):
        wrapped = SinkExecutor(bolt, context, plan.settings.checkpoint_location, emitter.forward)
    else:
        wrapped = CheckpointTupleForwarder(bolt, plan.conf, context, collector, emitter.forward)
    return Instance(wrapped, isinstance(bolt, BaseStatefulBolt), collector, emitter)


def _open_state(plan: ExecutionPlan, task: TaskKey, bolt: BaseStatefulBolt[Any]) -> TaskState:
    settings = plan.settings
    custom = plan.new_state(*task)
    storage = plan.provider.open(plan.namespace(*task))
    if custom is not None:
        return CustomTaskState(custom, storage)
    return KeyValueState(
        storage,
        key_codec=settings.key_codec,
        value_codec=settings.value_codec,
        schema=Schema(bolt.state_schema_version, bolt.upcast),
        cache_entries=settings.cache_entries,
        pending_entries=settings.pending_entries,
    )
