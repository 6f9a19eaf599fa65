"""The failures and errors of bolts on the tuples that a wave leaves out. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.task.messages import ReportedError, TaskReport
from anchorbolt.tracking.verdict import Verdict


class LeftOut:
    """Adds up the rounds of one wave that were repeated without the tuples that failed in them."""

    def __init__(self) -> None:
        self.errors_reported = 0  # of these tuples
        self.errors: dict[TaskKey, ReportedError] = {}  # the last of each task
        self.failed = Counter[TaskKey]()  # tuples, by the task that failed them

    def add(self, reports: Sequence[TaskReport]) -> None:
        """Add the reports of a round.

        Tuples of trees of earlier waves are not left out: the next round counts them.
        """
        self.errors_reported += sum(report.failures_reported for report in reports)
        self.errors |= {each.task: each.error for each in reports if each.error and each.failures_reported}
        failed = (each for verdict in verdicts_of(reports) for each in verdict.failed)
        earlier = Counter(each[1:3] for each in failed if each.msg_id is not None)
        self.failed += Counter({report.task: report.tuples_failed for report in reports}) - earlier


def verdicts_of(reports: Sequence[TaskReport]) -> list[Verdict]:
    """Return the verdicts of the ackers in a round."""
    return [report.outcome.verdict for report in reports if report.outcome.verdict is not None]
