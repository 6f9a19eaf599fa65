"""Warns of bolts that keep something in attributes which another instance of the task does not have."""

import logging
from collections.abc import Iterable

from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.messages import TaskReport

_log = logging.getLogger("anchorbolt.engine")


class ChangedAttributes:
    """Warns once for each component of a run."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self._stateful = plan.wiring.stateful
        self._told: set[str] = set()

    def warn(self, reports: Iterable[TaskReport]) -> None:
        """Warn of what the tasks of a committed wave have noticed."""
        for report in reports:
            if not report.changed_attributes or report.component in self._told:
                continue
            self._told.add(report.component)
            names = ", ".join(f"self.{name}" for name in report.changed_attributes)
            if report.component in self._stateful:
                problem, way_out = "began anew in another instance of the bolt", "Keep what must survive in its state"
            else:
                problem, way_out = "changed while tuples were executed", "Keep it in the state of a BaseStatefulBolt"
            _log.warning(
                "bolt %r: %s %s. Each wave of a task may run in another instance, in another worker of Spark, which "
                "does not have the change: a count in an attribute comes out wrong. %s. An attribute that is only a "
                "cache, or holds values of one tuple, can stay.",
                report.component,
                names,
                problem,
                way_out,
                extra={"component": report.component, "task": report.task[1]},
            )
