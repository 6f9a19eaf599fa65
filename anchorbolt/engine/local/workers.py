"""The workers that the local engine imitates: each keeps its own instances of bolts, as Spark's Python workers do."""

from __future__ import annotations

import random

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.instances import InstanceRegistry

_WORKERS = 2


class Workers:
    """Chooses a worker by a seed for each task and round. Not thread-safe.

    Spark runs a task's next wave in any worker, so a bolt can lose its attributes. Here the same happens in tests.
    """

    def __init__(self, seed: int) -> None:
        self._choice = random.Random(f"workers/{seed}")  # independent of the order of tasks and blobs
        self._registries = [InstanceRegistry() for _ in range(_WORKERS)]
        self._used: dict[TaskKey, InstanceRegistry] = {}  # in the task's last round

    def choose(self, task: TaskKey) -> InstanceRegistry:
        """Return the instances of the worker that runs a task in this round."""
        registry = self._used[task] = self._choice.choice(self._registries)
        return registry

    def handle(self, plan: ExecutionPlan, checkpoint: CheckpointTuple, task: TaskKey, current: Round) -> None:
        """Pass COMMIT or ROLLBACK to a task's bolt in the worker that ran the task last."""
        self._used.get(task, self._registries[0]).handle(plan, checkpoint, task, current)

    def close_run(self, run_id: str) -> None:
        for registry in self._registries:
            registry.close_run(run_id)
