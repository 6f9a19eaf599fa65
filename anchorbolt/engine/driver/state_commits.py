"""Commits the state in tasks of the engine, for a provider with `commit_carries_updates`; repeats failed tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from anchorbolt.checkpoint.decision import Winner
from anchorbolt.checkpoint.namespaces import THREADS
from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.driver.runner import Runner
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.commit_task import CommitGroup
from anchorbolt.errors import AnchorboltError, InfrastructureLost, StateUnavailable, WaveFailed, WorkerLost
from anchorbolt.state_backends.state import Fence
from anchorbolt.util.retry import Backoff, RetryPolicy

_log = logging.getLogger("anchorbolt.engine")


class StateCommits:
    """`checkpoint.ports.CommitTasks` on any engine."""

    def __init__(self, plan: ExecutionPlan, runner: Runner, retry: RetryPolicy) -> None:
        self._plan = plan
        self._runner = runner
        self._retry = retry
        self._max_retries = plan.settings.max_batch_retries

    def commit(self, fence: Fence, txid: int, winners: Mapping[str, Winner]) -> None:
        """Run the tasks again until all namespaces have committed.

        All tries have the same fence, so a task of an earlier try that still runs does no harm: it commits the same.
        While the store does not answer, or workers or executors are lost, only time limits the tries, not their number.
        """
        backoff, failures = Backoff(self._retry), 0
        while True:
            try:
                self._run(Round(txid, fence), winners)
                backoff.end()
                return
            except StateUnavailable as error:
                if not backoff.sleep_or_give_up(error):
                    raise
            except WaveFailed as failure:
                failures += 1
                is_loss = isinstance(failure, (WorkerLost, InfrastructureLost))
                waits = is_loss and backoff.sleep_or_give_up(_WorkersAway(failure.message))
                if not waits and failures > self._max_retries:
                    raise
                if not waits:
                    _log.warning("the commit of txid %d is tried again: %s", txid, failure, extra={"txid": txid})

    def _run(self, current: Round, winners: Mapping[str, Winner]) -> None:
        groups = self._groups(winners, max(1, self._runner.slots))
        threads = -(-THREADS // len(groups))  # together at least as many as the driver would have
        try:
            reports = self._runner.commit_state(current, groups, threads)
        except AnchorboltError:
            raise
        except Exception as error:
            raise WaveFailed(
                f"the engine could not commit the state of txid {current.txid}: {error}", txid=current.txid
            ) from error
        failures = [report.failure for report in reports if report.failure is not None]
        if failures:
            raise min(failures, key=lambda failure: isinstance(failure, StateUnavailable))
        reported = {report.task for report in reports}
        missing = [group.task for group in groups if group.task not in reported]
        if missing:
            raise WaveFailed(f"no report of the commit of txid {current.txid} from {missing}", txid=current.txid)

    def _groups(self, winners: Mapping[str, Winner], most: int) -> list[CommitGroup]:
        """Divide the namespaces: those with the most slices go to different groups."""
        names = sorted(winners, key=lambda name: (-winners[name].seal.slices, name))
        groups = [names[number::most] for number in range(min(most, len(names)))]
        tasks = self._plan.wiring.namespaces
        return [
            CommitGroup(tasks.get(group[0], (group[0], 0)), {name: winners[name] for name in group}) for group in groups
        ]


class _WorkersAway(StateUnavailable):
    waits_for = "Spark's workers"
