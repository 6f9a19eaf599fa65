"""The live runs of a driver. Each job sends the list to the workers, which then drop the instances of other runs.

A run closes its instances in the workers by a job at its end. A worker that got no task of that job, or runs a task of
the ended run later, drops the instances with its next task of any run. A job's list lacks the runs that began after the
job was submitted. So a job also sends how many runs had begun by then.
"""

import threading
from collections.abc import Iterable

RUNS_PROPERTY = "anchorbolt.runs"  # a local property of each Spark job


class LiveRuns:
    """The driver's side. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._needs: dict[str, tuple[int, int]] = {}
        self._begun = 0

    def begin(self, run_id: str, workers: int = 0, others: int = 1) -> None:
        """Note that a run has begun, which needs task slots for its workers, and `others` for its jobs."""
        with self._lock:
            self._needs[run_id] = workers, others
            self._begun += 1

    def end(self, run_id: str) -> None:
        """Note that a run has ended; do nothing if it has never begun."""
        with self._lock:
            self._needs.pop(run_id, None)

    def needs(self) -> tuple[int, int]:
        """Return the slots that the workers of all runs hold, and the slots for jobs, which the runs share."""
        with self._lock:
            needs = [(0, 0), *self._needs.values()]
        return sum(workers for workers, _ in needs), max(others for _, others in needs)

    def __str__(self) -> str:
        """Return the text for the workers."""
        with self._lock:
            return " ".join([str(self._begun), *sorted(self._needs)])


live_runs = LiveRuns()


class KnownRuns:
    """The worker's side: finds the ended runs among those with instances in this worker."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}  # by run: how many runs had begun when its first task ran here
        self._last = ("", "")

    def ended(self, run_id: str, told: str, kept: Iterable[str]) -> list[str]:
        """Return the ended runs of `kept`. `told` is the text of `LiveRuns` that a task of the run `run_id` got."""
        if (run_id, told) == self._last:
            return []
        self._last = run_id, told
        number, *alive = told.split()
        begun = int(number)
        since = {each: self._since.get(each, begun) for each in {run_id, *kept}}
        ended = [each for each in since if each != run_id and each not in alive and since[each] <= begun]
        self._since = {each: since[each] for each in since if each not in ended}
        return ended
