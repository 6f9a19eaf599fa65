"""What a runner tells of the job that it runs, for whoever looks."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.task.watchdog import LongCall


class StageProgress(NamedTuple):
    """How far the last job for bolts is. Empty on an engine that does not tell."""

    ended: Mapping[TaskKey, int] = {}  # the executed tuples, by ended task
    tasks: int = 0  # all tasks of the job if it still runs


class TellsProgress(Protocol):
    """The part of a runner that only tells."""

    def progress(self) -> StageProgress:
        """Return how far the last job for bolts is."""

    def long_calls(self) -> Sequence[LongCall]:
        """Return the calls of bolts, spouts and emitters that have not returned for two seconds, on any worker."""
