"""The metrics that components have registered: what their tasks measured in all committed waves of this run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.metrics.distribution import Distribution


class Registered(NamedTuple):
    """A metric of a task."""

    task: TaskKey
    kind: str  # counter, gauge, histogram or timer
    name: str


@dataclass(frozen=True)
class RegisteredMetrics:
    """What they measured: of a counter the sum, of a gauge the latest value. Not thread-safe.

    A component registers at most 100 names, so the size is bounded by the number of tasks.
    """

    numbers: dict[Registered, float]
    distributions: dict[Registered, Distribution]

    def add(self, reports: Iterable[TaskReport]) -> None:
        """Add the reports of a committed wave."""
        for report in reports:
            for name, (kind, value) in report.metrics.items():
                metric = Registered(report.task, kind, name)
                if isinstance(value, Distribution):
                    self.distributions.setdefault(metric, Distribution()).merge(value)
                elif kind == "gauge":
                    self.numbers[metric] = value
                else:
                    self.numbers[metric] = self.numbers.get(metric, 0) + value

    def copy(self) -> RegisteredMetrics:
        """Return a copy that later waves do not change."""
        copies = {
            metric: Distribution(dict(each.buckets), each.zeros, each.total)
            for metric, each in self.distributions.items()
        }
        return RegisteredMetrics(dict(self.numbers), copies)
