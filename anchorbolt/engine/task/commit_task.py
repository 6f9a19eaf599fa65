"""Commits the state of some namespaces outside the driver, for a provider with `commit_carries_updates`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple

from anchorbolt.checkpoint.decision import Winner
from anchorbolt.checkpoint.namespaces import Namespaces
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope, TaskReport, as_failure, encode_report
from anchorbolt.util.retry import NO_RETRY


class CommitGroup(NamedTuple):
    """The namespaces that one commit task commits; at least one."""

    task: TaskKey  # owner of the first namespace; identifies the group in reports and messages
    winners: Mapping[str, Winner]


def run_commit_task(plan: ExecutionPlan, group: CommitGroup, current: Round, threads: int) -> list[Envelope]:
    """Commit a decided transaction in the namespaces of a group; return the report to the driver.

    `current` has the transaction's txid and the fence of the commit. The task may run twice, or after the driver has
    abandoned it: the store refuses a fence that is too low, and repeating a commit changes nothing. If the store does
    not answer, the task fails without a retry; the driver waits, and runs another task.
    """
    report = TaskReport(group.task, "", current.fence.seq)
    try:
        tasks = plan.wiring.namespaces
        with closing(Namespaces(plan.provider, NO_RETRY, lambda _: None, tasks, threads=threads)) as opened:
            opened.open(group.winners)
            opened.commit(current.fence, current.txid, group.winners)
    except Exception as error:
        report.failure = as_failure(error, current.txid, plan.masking)
    return [Envelope(0, plan.wiring.driver_level, 0, encode_report(report))]
