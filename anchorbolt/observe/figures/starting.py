"""The metrics of a run that has not recovered yet: how long it has been starting, and what it waits for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from anchorbolt.observe.figures.families import Families

_STARTED = time.time()  # of this process, as good as

Waiting = Callable[[], Mapping[str, float]]
"""Returns what a run waits for, and for how many seconds."""


class StartCollector(Collector):
    """Yields the few metrics of a run before it has a handle, under the names of `RunCollector`."""

    def __init__(self, topology: str, statuses: Iterable[str], waiting: Waiting) -> None:
        """`statuses` are those that the run may have later."""
        self._families = Families(topology)
        self._statuses = tuple(statuses)
        self._waiting = waiting
        self._began = time.monotonic()

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that a registry does not scrape when the collector is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        yield start_time(self._families)
        yield age_of_checkpoint(self._families, time.monotonic() - self._began)
        yield waiting_seconds(self._families, self._waiting())
        yield run_status(self._families, self._statuses, "starting")


def start_time(families: Families) -> Metric:
    """Return the metric that changes whenever a supervisor starts the driver again, also if it never recovers."""
    return families.gauge("start_time_seconds", "When the driver's process started, as Unix time.", _STARTED)


def age_of_checkpoint(families: Families, age_s: float) -> Metric:
    """Return the metric of the time since the last commit."""
    return families.gauge(
        "checkpoint_age_seconds", "Time since the last commit; before the first, since the start.", age_s
    )


def waiting_seconds(families: Families, waiting: Mapping[str, float]) -> Metric:
    """Return the metric of what a run waits for."""
    text = "For how long the run has waited for something, such as its store."
    samples = [((waits_for,), seconds) for waits_for, seconds in waiting.items()]
    return families.gauge("waiting_seconds", text, samples, ["waits_for"])


def run_status(families: Families, statuses: Iterable[str], status: str) -> Metric:
    """Return the metric of a run's status: one of `statuses`, or `starting` until it has recovered."""
    states = [((each,), float(each == status)) for each in ("starting", *statuses)]
    return families.gauge("run_status", "1 for the status that the run has.", states, ["status"])
