"""Sends COMMIT and ROLLBACK to the tasks of bolts that have a hook for it."""

import logging

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.checkpoint.losses import Losses
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.driver.runner import Runner
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.errors import WaveFailed

_log = logging.getLogger("anchorbolt.engine")

_HOOKS = {Action.COMMIT: "pre_commit", Action.ROLLBACK: "pre_rollback"}


class Hooks:
    """The tasks of a topology that have such hooks. Sends again if a worker or an executor was lost meanwhile."""

    def __init__(self, plan: ExecutionPlan, runner: Runner) -> None:
        self._runner = runner
        self._max_retries = plan.settings.max_batch_retries
        self._patience_s = plan.settings.message_timeout_secs
        self._tasks = {action: _hooked_tasks(plan, name) for action, name in _HOOKS.items()}

    def send(self, checkpoint: CheckpointTuple, current: Round) -> None:
        tasks = self._tasks[checkpoint.action]
        losses, failures = Losses(self._patience_s, self._max_retries), 0
        while tasks:
            try:
                self._runner.send(checkpoint, current, tasks)
                return
            except WaveFailed as failure:
                if losses.bear(failure, f"the hooks of txid {current.txid}"):
                    continue
                failures += 1
                if failures > self._max_retries:
                    raise
                txid = current.txid
                _log.warning("the hooks of txid %d are tried again: %s", txid, failure, extra={"txid": txid})


def _hooked_tasks(plan: ExecutionPlan, hook: str) -> list[TaskKey]:
    return [
        task
        for component in plan.wiring.stateful_bolts
        if getattr(type(plan.graph.bolts[component].bolt), hook) is not getattr(BaseStatefulBolt, hook)
        for task in plan.wiring.tasks[component]
    ]
