"""Makes Prometheus's metric families, all with the prefix `anchorbolt_` and a label `topology`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from anchorbolt.metrics.distribution import Distribution

# Each is the upper limit of a bucket of `Distribution`, so that the counts are exact: 61 µs to 131 s if it counts ms.
_LIMITS = tuple(2.0**power for power in range(-4, 18))

Samples = Iterable[tuple[Sequence[str], float]]
"""The values of the labels, and the value."""

Distributions = Mapping[tuple[str, ...], Distribution]
"""Distributions by the values of the labels."""


class Families:
    """The families of one topology's metrics."""

    def __init__(self, topology: str) -> None:
        self._topology = topology

    def counter(self, name: str, text: str, samples: Samples, labels: Sequence[str] = ()) -> Metric:
        """Return a counter; Prometheus adds `_total` to its name."""
        family = CounterMetricFamily(f"anchorbolt_{name}", text, labels=("topology", *labels))
        for values, value in samples:
            family.add_metric((self._topology, *values), value)
        return family

    def gauge(self, name: str, text: str, samples: Samples | float, labels: Sequence[str] = ()) -> Metric:
        """Return a gauge; without labels it has one value."""
        family = GaugeMetricFamily(f"anchorbolt_{name}", text, labels=("topology", *labels))
        for values, value in [((), samples)] if isinstance(samples, float | int) else samples:
            family.add_metric((self._topology, *values), value)
        return family

    def histogram(
        self, name: str, text: str, samples: Distributions, labels: Sequence[str], unit: float = 1.0
    ) -> Metric:
        """Return a histogram. `unit` converts the distributions' values to the metric's unit."""
        family = HistogramMetricFamily(f"anchorbolt_{name}", text, labels=("topology", *labels))
        for values, distribution in samples.items():
            buckets = [(_shown(limit * unit), count) for limit, count in _cumulated(distribution)]
            family.add_metric((self._topology, *values), buckets, distribution.total * unit)
        return family


def user_metric(name: str) -> str:
    """Return the Prometheus name of a component's metric."""
    return f"user_{re.sub('[^A-Za-z0-9_]', '_', name)}"


def _shown(limit: float) -> str:
    return "+Inf" if limit == float("inf") else repr(limit)


def _cumulated(distribution: Distribution) -> Iterator[tuple[float, int]]:
    """Yield each limit and the number of values up to it; infinity last."""
    counted, waiting = distribution.zeros, list(distribution.limits())
    for limit in (*_LIMITS, float("inf")):
        while waiting and waiting[0][0] <= limit:
            counted += waiting.pop(0)[1]
        yield limit, counted
