"""The hooks that only some bolts have: `pre_commit` and `pre_rollback`. Only tasks that override one are asked."""

from __future__ import annotations

import uuid

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.checkpoint.executor import StatefulBoltExecutor
from anchorbolt.checkpoint.state import Action, CheckpointTuple
from anchorbolt.engine.instances import InstanceRegistry
from anchorbolt.engine.plan import ExecutionPlan
from anchorbolt.engine.wave import TaskKey, Wave

__all__ = ["hooked_tasks", "run_hook"]

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
    """Give a task its COMMIT or ROLLBACK. Raises `BoltError`.

    It reaches the instance that processed the wave, where this process keeps it, else a new one.

    Args:
        plan: The topology's plan.
        action: COMMIT or ROLLBACK.
        task: The task.
        wave: The wave; for COMMIT its `previous` names the attempts that won it.
        registry: The instances of this process.
    """
    instance = registry.find(plan, task)
    if instance is None or (action is Action.COMMIT and instance.attempt != wave.previous.get(task)):
        registry.let_go(plan, task)
        instance = registry.obtain(plan, task, wave)
        instance.begin(plan, task, wave, uuid.uuid4().hex)
    executor = instance.executor
    assert isinstance(executor, StatefulBoltExecutor)
    executor.handle(CheckpointTuple(wave.txid, action))
