"""`ManualClock`: a clock that a test moves, for the time-outs of tuple trees and for tick tuples."""

import threading


class ManualClock:
    """Stands still until a test moves it. Thread-safe.

    Pass it to `LocalCluster(clock=clock)`: time-outs of tuple trees, tick tuples and ages of messages then use it.
    `clock()` returns its seconds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds = 0.0

    def __call__(self) -> float:
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Move the clock forward. Raises `ValueError` if `seconds` is negative."""
        if seconds < 0:
            raise ValueError(f"a clock cannot go back, by {seconds} s")
        with self._lock:
            self._seconds += seconds
