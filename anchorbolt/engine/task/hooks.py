"""The hooks that only some bolts have: `pre_commit` and `pre_rollback`. Only tasks that override one are asked."""

from __future__ import annotations

import uuid

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.checkpoint.executor import StatefulBoltExecutor
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.bolt_task import as_failure
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.round import TaskKey, TaskReport, Wave

_HOOKS = {Action.COMMIT: "pre_commit", Action.ROLLBACK: "pre_rollback"}


def hooked_tasks(plan: ExecutionPlan, action: Action) -> list[TaskKey]:
    """Return the tasks of the bolts that override the hook of COMMIT or ROLLBACK."""
    name = _HOOKS[action]
    return [
        (component, index)
        for component in plan.stateful_bolts
        if getattr(type(plan.unpickle_bolt(component)), name) is not getattr(BaseStatefulBolt, name)
        for index in range(plan.parallelism(component))
    ]


def run_hook(
    plan: ExecutionPlan, action: Action, task: TaskKey, wave: Wave, registry: InstanceRegistry
) -> None:
    """Call a task's `pre_commit` or `pre_rollback`, and nothing else: the driver moves the state. Raises `BoltError`.

    `pre_commit` is called on the instance that processed the wave, where this process keeps it, else on a new one;
    `pre_rollback` only on an instance that lives here and took part in the round.

    Args:
        plan: The topology's plan.
        action: COMMIT or ROLLBACK.
        task: The task.
        wave: The wave; for COMMIT its `previous` names the attempts that won it.
        registry: The instances of this process.
    """
    instance = registry.find(plan, task)
    if action is Action.ROLLBACK:
        if instance is None or instance.fence != wave.fence:
            return
    elif instance is None or instance.attempt != wave.previous.get(task):
        registry.let_go(plan, task)
        instance = registry.obtain(plan, task, wave)
        instance.begin(plan, task, wave, uuid.uuid4().hex, wave.previous.get(task, ""))
    executor = instance.executor
    assert isinstance(executor, StatefulBoltExecutor)
    executor.call_hook(CheckpointTuple(wave.txid, action))


def hook_failure(error: Exception, task: TaskKey, wave: Wave) -> TaskReport:
    """Return the report by which a hook's exception reaches the driver whole."""
    return TaskReport(*task, "", wave.fence.seq, failure=as_failure(error, wave.txid))
