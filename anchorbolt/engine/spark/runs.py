"""The runs of a driver that are alive, as every job tells them to the workers, which drop what they keep of others.

A run closes its instances in the workers when it ends. A worker that got no task of that job, or runs a task of the
ended run later, drops the remains with its next task of any run. A job that was submitted before a run began does not
know this run. So a job also tells how many runs had begun when it was submitted.
"""

import threading
from collections.abc import Iterable

RUNS_PROPERTY = "anchorbolt.runs"  # a local property of each Spark job


class LiveRuns:
    """The driver's side. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: set[str] = set()
        self._begun = 0

    def begin(self, run_id: str) -> None:
        with self._lock:
            self._ids.add(run_id)
            self._begun += 1

    def end(self, run_id: str) -> None:
        """Note that a run has ended; do nothing if it has never begun."""
        with self._lock:
            self._ids.discard(run_id)

    def __str__(self) -> str:
        """Return the text for the workers."""
        with self._lock:
            return " ".join([str(self._begun), *sorted(self._ids)])


live_runs = LiveRuns()


class KnownRuns:
    """The worker's side: finds out which of the runs that it keeps something of have ended."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}  # by run: how many had begun when its first task ran here
        self._last = ("", "")

    def ended(self, run_id: str, told: str, kept: Iterable[str]) -> list[str]:
        """Return which of the `kept` runs have ended, as far as a task of the run `run_id` is told."""
        if (run_id, told) == self._last:
            return []
        self._last = run_id, told
        number, *alive = told.split()
        begun = int(number)
        since = {each: self._since.get(each, begun) for each in {run_id, *kept}}
        ended = [each for each in since if each != run_id and each not in alive and since[each] <= begun]
        self._since = {each: since[each] for each in since if each not in ended}
        return ended
