"""The figures of a run's progress, summed from its wave reports. Uses neither clock nor terminal."""

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from anchorbolt.engine.driver.reports import WaveReport

_WINDOW_S = 10.0


class _Wave(NamedTuple):
    began: float
    ended: float
    emitted: int
    executed: int


class Progress:
    """The progress of a run. Not thread-safe.

    Attributes:
        waves: Committed waves of this run.
        tuples: Tuples that the spouts emitted in these waves.
        txid: The latest committed transaction; None before the first wave.
        checkpoint_ms: Time of the latest wave to prepare, decide and commit, in ms.
        lag_ms: Time by which the latest wave exceeded the checkpoint interval, in ms; 0 if it did not.
        retried: Number of failed rounds that were run again.
        wave_began: When the current wave began at the earliest: the end of the last one.
        tasks_done: Finished tasks of the current wave.
        tasks: Its tasks until now, or 0 if nothing runs.
        waits_for: A bolt's task that the current wave waits for, or None.
    """

    def __init__(self, spouts: Collection[str], interval_ms: float, now: float = 0.0) -> None:
        self.waves = 0
        self.tuples = 0
        self.txid: int | None = None
        self.checkpoint_ms = 0.0
        self.lag_ms = 0.0
        self.retried = 0
        self.wave_began = now
        self.tasks_done = 0
        self.tasks = 0
        self.waits_for: str | None = None
        self._spouts = spouts
        self._interval_ms = interval_ms
        self._latest: deque[_Wave] = deque()

    def add(self, report: WaveReport, now: float) -> None:
        """Add a wave that was committed at `now`, in seconds of a monotonic clock."""
        tuples = sum(report.tuples_out.get(spout, 0) for spout in self._spouts)
        self.waves += 1
        self.wave_began = now
        self.waits_for = None
        self.tuples += tuples
        self.txid = report.txid
        self.checkpoint_ms = report.checkpoint_ms
        self.lag_ms = max(0.0, report.total_ms - self._interval_ms)
        self.retried += report.rounds - 1
        executed = sum(number for component, number in report.tuples_in.items() if component not in self._spouts)
        self._latest.append(_Wave(now - report.total_ms / 1000, now, tuples, executed))
        self._forget_before(now - _WINDOW_S)

    def show_activity(self, tasks_done: int, tasks: int, waits_for: str | None) -> None:
        """Set what the engine does in the current wave."""
        self.tasks_done, self.tasks, self.waits_for = tasks_done, tasks, waits_for

    def rates(self, now: float) -> tuple[float, float]:
        """Return what the spouts emitted and what the bolts executed, in tuples per second.

        Both are over the waves that ended in the last ten seconds.
        """
        self._forget_before(now - _WINDOW_S)
        if not self._latest:
            return 0.0, 0.0
        seconds = max(now - self._latest[0].began, 0.001)
        return sum(wave.emitted for wave in self._latest) / seconds, sum(
            wave.executed for wave in self._latest
        ) / seconds

    def _forget_before(self, moment: float) -> None:
        while self._latest and self._latest[0].ended < moment:
            self._latest.popleft()
