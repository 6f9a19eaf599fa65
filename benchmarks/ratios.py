"""What ratios of pairs say together. Pure."""

from collections.abc import Sequence
from math import comb


def interval_of_median(values: Sequence[float]) -> tuple[float, float]:
    """Return the smallest interval of order statistics that holds the median with at least 95 %."""
    ordered, number, rank, outside = sorted(values), len(values), 0, 0.0
    while 2 * (outside + comb(number, rank) / 2**number) <= 0.05:
        outside += comb(number, rank) / 2**number
        rank += 1
    return ordered[max(rank - 1, 0)], ordered[min(number - rank, number - 1)]
