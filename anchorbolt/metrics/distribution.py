"""A distribution of values, counted in buckets: partial counts can be added up, and memory stays small. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, log2

_PER_OCTAVE = 4
"""Buckets between a value and twice the value: a quantile is at most 19 % too high."""
LOWEST_BUCKET, HIGHEST_BUCKET = -40 * _PER_OCTAVE, 40 * _PER_OCTAVE


@dataclass
class Distribution:
    """Counts of values, by size. Values of 0 and less count as 0. Not thread-safe.

    It holds at most 321 buckets, whatever the number of values.
    """

    buckets: dict[int, int] = field(default_factory=dict)  # values in (2 ** ((n - 1) / 4), 2 ** (n / 4)]
    zeros: int = 0
    total: float = 0.0  # sum of the values

    @property
    def count(self) -> int:
        return self.zeros + sum(self.buckets.values())

    def add(self, value: float, times: int = 1) -> None:
        """Count a value."""
        if value <= 0:
            self.zeros += times
            return
        bucket = ceil(log2(value) * _PER_OCTAVE)
        if not LOWEST_BUCKET <= bucket <= HIGHEST_BUCKET:  # `min` and `max` would cost several times as much
            bucket = LOWEST_BUCKET if bucket < LOWEST_BUCKET else HIGHEST_BUCKET
        self.buckets[bucket] = self.buckets.get(bucket, 0) + times
        self.total += value * times

    def merge(self, other: Distribution) -> None:
        """Add the counts of another distribution."""
        for bucket, count in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count
        self.zeros += other.zeros
        self.total += other.total

    def quantile(self, share: float) -> float:
        """Return a value that at least this share of the values does not exceed; 0 without values."""
        missing = share * self.count - self.zeros
        if missing <= 0:
            return 0.0
        for limit, count in self.limits():
            missing -= count
            if missing <= 0:
                return limit
        return 0.0

    def limits(self) -> Iterator[tuple[float, int]]:
        """Yield the upper limit and the count of each non-empty bucket, the smallest first."""
        for bucket in sorted(self.buckets):
            yield 2.0 ** (bucket / _PER_OCTAVE), self.buckets[bucket]
