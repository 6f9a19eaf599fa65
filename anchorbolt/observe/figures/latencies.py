"""Latencies of the store and of the phases of waves, over windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from anchorbolt.metrics.distribution import HIGHEST_BUCKET, LOWEST_BUCKET, Distribution
from anchorbolt.observe.figures.windows import Numbers, Windows

STORE_OPERATIONS: Final = ("read", "scan", "stage", "seal")

_BUCKETS = HIGHEST_BUCKET - LOWEST_BUCKET + 1


class Latencies:
    """Distributions of times in ms, one for each of some kinds. Not thread-safe."""

    def __init__(self, kinds: Iterable[str], now: float) -> None:
        self._rows = {kind: row for row, kind in enumerate(kinds)}
        self._windows = Windows((len(self._rows), _BUCKETS + 2), now)

    def add(self, found: Mapping[str, Distribution], now: float) -> None:
        """Add distributions by kind; unknown kinds are left out."""
        table = np.zeros((len(self._rows), _BUCKETS + 2))
        for kind, distribution in found.items():
            if kind in self._rows:
                _write(table[self._rows[kind]], distribution)
        self._windows.add(table, now)

    def over(self, window: str, now: float) -> dict[str, Distribution]:
        """Return the distributions over a window, by kind. Raises KeyError for an unknown window."""
        sums, _ = self._windows.sums(window, now)
        return {kind: _read(sums[row]) for kind, row in self._rows.items()}


def _write(row: Numbers, distribution: Distribution) -> None:
    for bucket, count in distribution.buckets.items():
        row[bucket - LOWEST_BUCKET] += count
    row[_BUCKETS] += distribution.zeros
    row[_BUCKETS + 1] += distribution.total


def _read(row: Numbers) -> Distribution:
    counts = row[:_BUCKETS]
    buckets = {int(place) + LOWEST_BUCKET: int(counts[place]) for place in np.flatnonzero(counts)}
    return Distribution(buckets, int(row[_BUCKETS]), float(row[_BUCKETS + 1]))
