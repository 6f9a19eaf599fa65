"""A COMMIT or ROLLBACK tuple in one task: found or built, the task's instance handles it."""

import uuid

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.instances import InstanceRegistry


def handle_checkpoint(
    plan: ExecutionPlan, checkpoint: CheckpointTuple, task: TaskKey, current: Round, registry: InstanceRegistry
) -> None:
    """Give COMMIT or ROLLBACK to a task's bolt. Raises `BoltError`, and whatever the store raises.

    COMMIT goes to the instance that processed the wave, if this process keeps it, else to a new one. ROLLBACK goes only
    to an instance of this process that took part in the round.
    """
    instance = registry.find(plan, task)
    if checkpoint.action is Action.ROLLBACK:
        if instance is None or instance.fence != current.fence:
            return
    elif instance is None or instance.attempt != current.winners.get(task):
        registry.evict(plan, task)
        instance = registry.obtain(plan, task, current)
        instance.begin(plan, task, current, uuid.uuid4().hex, current.winners.get(task, ""))
    instance.bolt.handle(checkpoint)
