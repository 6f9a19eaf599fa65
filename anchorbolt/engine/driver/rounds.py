"""The rounds of a wave on any engine: runs them, checks their reports, and runs the jobs of COMMIT and ROLLBACK."""

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.checkpoint.decision import Winner
from anchorbolt.checkpoint.ports import PreparedRound, Round, TaskKey
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.driver.reports import check_round
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.report import TaskReport
from anchorbolt.errors import AnchorboltError, WaveFailed

_log = logging.getLogger("anchorbolt.engine")

_HOOKS = {Action.COMMIT: "pre_commit", Action.ROLLBACK: "pre_rollback"}


class Runner(Protocol):
    """Runs the tasks of a round; each engine implements it."""

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        """Run the current batch's data and PREPARE through all tasks; return their reports.

        Called again for another round of the same batch. Raises any exception if the round as a whole failed.
        """

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        """Have these tasks handle COMMIT or ROLLBACK. Raises `BoltError`."""

    def read_files(self, locations: Sequence[str]) -> Any:
        """Return a Spark DataFrame of Parquet files."""

    def close_instances(self) -> None:
        """Close the instances of bolts that the tasks keep."""


class Rounds:
    """The port `checkpoint.ports.Tasks`. COMMIT and ROLLBACK are sent again if a worker is lost meanwhile."""

    def __init__(self, plan: ExecutionPlan, runner: Runner) -> None:
        self._plan = plan
        self._runner = runner
        self._max_retries = plan.settings.max_batch_retries
        self._hooked = {action: _hooked_tasks(plan, name) for action, name in _HOOKS.items()}

    def prepare(self, current: Round) -> PreparedRound:
        try:
            reports = self._runner.run_round(current)
        except AnchorboltError:
            raise
        except Exception as error:
            raise WaveFailed(
                f"the engine could not finish a round of txid {current.txid}: {error}", txid=current.txid
            ) from error
        check_round(self._plan, reports, current.txid)
        stateful = self._plan.stateful_bolts
        return PreparedRound(
            winners={
                self._plan.namespace(report.task): Winner(report.attempt, report.outcome.base, report.outcome.seal)
                for report in reports
                if report.outcome.seal is not None
            },
            attempts={report.task: report.attempt for report in reports if report.component in stateful},
            files=tuple(report.outcome.file for report in reports if report.outcome.file is not None),
            reports=reports,
        )

    def send(self, checkpoint: CheckpointTuple, current: Round) -> None:
        tasks = self._hooked[checkpoint.action]
        for number in range(self._max_retries + 1 if tasks else 0):
            try:
                self._runner.send(checkpoint, current, tasks)
                return
            except AnchorboltError:
                raise
            except Exception as error:
                failure = WaveFailed(f"the hooks of txid {current.txid} could not be run: {error}", txid=current.txid)
                if number == self._max_retries:
                    raise failure from error
                _log.warning("%s; they are tried again", failure)


def _hooked_tasks(plan: ExecutionPlan, hook: str) -> list[TaskKey]:
    return [
        task
        for component in plan.stateful_bolts
        if getattr(type(plan.graph.bolts[component].bolt), hook) is not getattr(BaseStatefulBolt, hook)
        for task in plan.tasks[component]
    ]
