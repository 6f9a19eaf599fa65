"""The instances of bolts that one process keeps from wave to wave, and the rule for using an instance again.

A stateful bolt's instance is used again only if its attempt won the directly preceding wave of its task. A plain bolt's
instance is used again in any later wave, unless it failed; where tuple trees are tracked, it may keep tuples, and so it
is not used again after a round that was rolled back either. Otherwise the instance is closed, and a new one is built.
"""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict

from anchorbolt.acker.placement import ACKER_ID
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.batch_instances import build_for_batches, new_emitter
from anchorbolt.engine.task.instance import Instance, build
from anchorbolt.errors import AnchorboltError
from anchorbolt.spouts.transactional import Emitter

_log = logging.getLogger("anchorbolt.engine")

_RUNS_KEPT = 64


class InstanceRegistry:
    """The instances of a process, by run and task. Not thread-safe: one task of a process runs at a time."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, dict[TaskKey, Instance]] = OrderedDict()
        self._emitters: dict[str, dict[TaskKey, Emitter]] = {}

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
            instance = instances[task] = (
                build_for_batches(plan, task) if plan.batch_spout else build(plan, task, tracked=tracked)
            )
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

    def emitter(self, plan: ExecutionPlan, task: TaskKey) -> Emitter:
        """Return the kept emitter of a task of a transactional topology's spout, or a new one. Raises `SpoutError`."""
        self._run(plan)
        emitters = self._emitters.setdefault(plan.run_id, {})
        if task not in emitters:
            emitters[task] = new_emitter(plan, task)
        return emitters[task]

    def close_run(self, run_id: str) -> None:
        for task, instance in self._runs.pop(run_id, {}).items():
            _close(instance, task)
        for task, emitter in self._emitters.pop(run_id, {}).items():
            try:
                emitter.close()
            except (Exception, SystemExit) as error:
                _log.warning("closing the emitter of task %s of %r: %s", task[1], task[0], error)

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
