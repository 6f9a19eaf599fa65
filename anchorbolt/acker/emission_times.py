"""When messages were emitted: of a chunk's tuples, and of the trees that stay open after their wave. Pure.

A spout may emit a million tuples a second, so not each has a time of its own. A mark says when the tuples up to some
position of their chunk, from the mark before on, were emitted.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anchorbolt.acker.sorted_roots import Roots, value_of

Times = NDArray[np.float64]

Mark = tuple[int, float]
"""The position behind the last tuple, and the time in seconds of a clock that does not go back."""


def counts_by_time(marks: Sequence[Mark], chosen: NDArray[np.bool_]) -> list[tuple[float, int]]:
    """Return how many of the chosen tuples of a chunk were emitted at each time."""
    ends = [0, *(end for end, _ in marks)]
    counts = np.diff(np.concatenate(([0], np.cumsum(chosen)))[ends]).tolist()
    return [(at, count) for (_, at), count in zip(marks, counts, strict=True) if count]


def times_of(marks: Sequence[Mark]) -> Times:
    """Return the time of each tuple of a chunk."""
    return np.repeat([at for _, at in marks], np.diff([0, *(end for end, _ in marks)]))


class OpenTrees:
    """When the messages of open trees were emitted: 16 bytes for each tree."""

    def __init__(self) -> None:
        self._waves: list[_Wave] = []

    def keep(self, roots: Roots, times: Times) -> None:
        """Keep the times of the trees that a wave leaves open; each root is kept once."""
        if len(roots):
            order = np.argsort(roots)
            self._waves.append(_Wave(roots[order], times[order]))

    def take(self, roots: Roots) -> Times:
        """Return when the messages of these trees were emitted, NaN for an unknown one, and forget them."""
        times: Times = np.full(len(roots), np.nan)
        for wave in self._waves if len(roots) else ():
            wave.take(roots, times)
        self._waves = [wave for wave in self._waves if wave.left]
        return times


class _Wave:
    """The trees that one wave has left open. The time of one that was taken is NaN until half of them are gone."""

    def __init__(self, roots: Roots, times: Times) -> None:
        self._roots, self._times = roots, times
        self.left = len(roots)

    def take(self, roots: Roots, times: Times) -> None:
        places = value_of(roots, self._roots, np.arange(len(self._roots)), -1)
        known = np.flatnonzero((places >= 0) & ~np.isnan(self._times[places]))
        if not len(known):
            return
        times[known] = self._times[places[known]]
        self._times[places[known]] = np.nan
        self.left -= len(known)
        if self.left < len(self._roots) // 2:
            left = ~np.isnan(self._times)
            self._roots, self._times = self._roots[left], self._times[left]
