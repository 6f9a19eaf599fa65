"""The metrics that one task has registered, and their measurements in a round."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TypeVar

from anchorbolt.errors import TopologyError
from anchorbolt.metrics.distribution import Distribution
from anchorbolt.metrics.kinds import Counter, Gauge, Histogram, Timer

_log = logging.getLogger("anchorbolt.metrics")

M = TypeVar("M", Counter, Gauge, Histogram, Timer)

Measured = dict[str, tuple[str, "float | Distribution"]]
"""By name of a metric: its kind, and the amount added in a round; for a gauge, its value."""

_MOST = 100
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,99}")
_KINDS: dict[type, str] = {Counter: "counter", Gauge: "gauge", Histogram: "histogram", Timer: "timer"}


class MetricRegistry:
    """The metrics of one instance of a component."""

    def __init__(self) -> None:
        self._metrics: dict[str, Counter | Gauge | Histogram | Timer] = {}
        self._failed: set[str] = set()  # gauges with a logged failure

    def counter(self, name: str) -> Counter:
        return self._registered(name, Counter, Counter)

    def gauge(self, name: str, function: Callable[[], float] | None = None) -> Gauge:
        return self._registered(name, Gauge, lambda: Gauge(function))

    def histogram(self, name: str) -> Histogram:
        return self._registered(name, Histogram, Histogram)

    def timer(self, name: str) -> Timer:
        return self._registered(name, Timer, Timer)

    def take(self) -> Measured:
        """Return the measurements since the last call, without empty ones."""
        measured: Measured = {}
        for name, metric in self._metrics.items():
            value = self._taken(name, metric)
            if value is None or (value == 0 and isinstance(metric, Counter)):
                continue
            if isinstance(value, Distribution) and not value.count:
                continue
            measured[name] = _KINDS[type(metric)], value
        return measured

    def _taken(self, name: str, metric: Counter | Gauge | Histogram | Timer) -> float | Distribution | None:
        try:
            return metric.take()
        except (Exception, SystemExit) as error:  # of a gauge's function
            if name not in self._failed:
                _log.warning("gauge %r is left out: its function raised %s: %s", name, type(error).__name__, error)
            self._failed.add(name)
            return None

    def _registered(self, name: str, kind: type[M], make: Callable[[], M]) -> M:
        known = self._metrics.get(name)
        if known is not None:
            if type(known) is not kind:
                raise TopologyError(
                    f"metric {name!r} is registered as a {_KINDS[type(known)]} and as a {_KINDS[kind]}. Give one of "
                    "them another name."
                )
            return known
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise TopologyError(
                f"{name!r} is not the name of a metric. Use 1 to 100 of the characters A-Z a-z 0-9 _ . - that begin "
                "with a letter or _."
            )
        if len(self._metrics) >= _MOST:
            raise TopologyError(
                f"metric {name!r} would be number {_MOST + 1} of its component. Register at most {_MOST}, each once: "
                "in prepare, not for each tuple."
            )
        metric = self._metrics[name] = make()
        return metric
