"""The schedule of tick tuples: which bolts get one in the next wave."""

from collections.abc import Callable, Mapping


class Ticks:
    """The schedule of a run. A tick that is overdue comes once, however long ago it was due."""

    def __init__(self, seconds: Mapping[str, float], clock: Callable[[], float]) -> None:
        """`seconds` is the time between two ticks of a bolt; the first is due that long after now."""
        self._seconds = seconds
        self._clock = clock
        now = self._taken_at = clock() if seconds else 0.0
        self._due_at = {bolt: now + each for bolt, each in seconds.items()}

    @property
    def is_due(self) -> bool:
        return bool(self._due_at) and min(self._due_at.values()) <= self._clock()

    def due(self) -> frozenset[str]:
        """Return the bolts whose tick is due now: at the start of a wave."""
        now = self._taken_at = self._clock()
        return frozenset(bolt for bolt, at in self._due_at.items() if at <= now)

    def sent(self, bolts: frozenset[str]) -> None:
        """Note that the wave has committed, with a tick for these bolts. The next ones count from its start."""
        for bolt in bolts:
            self._due_at[bolt] = self._taken_at + self._seconds[bolt]
