"""The kinds of metrics that a component registers, as in Storm's metrics v2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

from anchorbolt.metrics.distribution import Distribution


class Counter:
    """A number that only grows. Each task has its own counter."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        """Components never call this: `TopologyContext.register_counter` returns a counter."""
        self._since: float = 0

    def inc(self, number: float = 1) -> None:
        """Add a number, which must not be negative.

        Raises:
            ValueError: It is negative.
        """
        if number < 0:
            raise ValueError(f"a counter cannot be increased by {number}. Register a gauge for a value that may fall.")
        self._since += number

    def take(self) -> float:
        """Return the sum added since the last call. The engine calls this once in a round."""
        since, self._since = self._since, 0
        return since


class Gauge:
    """The latest value of something: set by the component, or returned by its function at the end of each wave."""

    __slots__ = ("_function", "_value")

    def __init__(self, function: Callable[[], float] | None = None) -> None:
        """Components never call this: `TopologyContext.register_gauge` returns a gauge."""
        self._function = function
        self._value: float | None = None

    def set(self, value: float) -> None:
        """Set the value."""
        self._value = value

    def take(self) -> float | None:
        """Return the value; None if it was never set. Raises whatever the component's function raises."""
        return self._value if self._function is None else float(self._function())


class Histogram:
    """The distribution of values: their number, sum, and quantiles that are at most 19 % too high."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        """Components never call this: `TopologyContext.register_histogram` returns a histogram."""
        self._since = Distribution()

    def update(self, value: float) -> None:
        """Count a value. Negative values count as 0."""
        self._since.add(value)

    def take(self) -> Distribution:
        """Return the values counted since the last call. The engine calls this once in a round."""
        since, self._since = self._since, Distribution()
        return since


class Timer(Histogram):
    """A histogram of times, in seconds."""

    __slots__ = ()

    @contextmanager
    def time(self) -> Iterator[None]:
        """Count the time that the body of a `with` statement takes, also if it raises."""
        started = perf_counter()
        try:
            yield
        finally:
            self.update(perf_counter() - started)
