"""Keeps the emit times of messages with trees that stay open after their wave. Pure.

A spout may emit a million tuples a second, so a tuple gets the time of its chunk's first tuple.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from anchorbolt.tracking.sorted_roots import Roots, is_in, places_of

Times = NDArray[np.float64]


class EmissionTimes:
    """The emit times of messages with open trees: 16 bytes for each tree.

    Attributes:
        oldest: The emit time of the oldest message; None if no tree is open. May be read on any thread.
    """

    def __init__(self) -> None:
        self.oldest: float | None = None
        self._groups: list[_Group] = []

    def keep(self, opened: Roots, chunks: Iterable[tuple[Roots, float]]) -> None:
        """Keep the times of the trees that a wave leaves open, given the roots and the times of the wave's chunks."""
        if not len(opened):
            return
        kept: list[tuple[Roots, Times]] = []
        for roots, since in chunks:
            stay = roots[is_in(roots, opened)]
            kept.append((stay, np.full(len(stay), since)))
        groups = self._groups
        groups.append(_Group(*map(np.concatenate, zip(*kept, strict=True))))
        # Each group is at most half as large as the one before, so there are few groups.
        while len(groups) > 1 and groups[-2].left < 2 * groups[-1].left:
            groups[-2:] = [_Group.of(groups[-2], groups[-1])]
        self._find_oldest()

    def times_of(self, roots: Roots) -> Times:
        """Return when the messages of these trees were emitted, NaN for a tree that is not open."""
        times: Times = np.full(len(roots), np.nan)
        for group in self._groups if len(roots) else ():
            known, places = group.find(roots)
            times[known] = group.times[places]
        return times

    def forget(self, roots: Roots) -> None:
        """Forget the emit times of trees that have ended. Unknown roots are ignored."""
        for group in self._groups if len(roots) else ():
            group.remove(group.find(roots)[1])
        self._groups = [group for group in self._groups if group.left]
        self._find_oldest()

    def _find_oldest(self) -> None:
        self.oldest = min((group.oldest for group in self._groups), default=None)


class _Group:
    """Open trees of one or more successive waves. A removed tree has the time NaN until half of them are removed."""

    def __init__(self, roots: Roots, times: Times) -> None:
        order = np.argsort(roots, kind="stable")  # fast for two sorted groups, one after the other
        self.roots, self.times = roots[order], times[order]
        self.left = len(roots)
        self.oldest = float(times.min())

    @classmethod
    def of(cls, *groups: "_Group") -> "_Group":
        """Return a group of the open trees of these groups."""
        for group in groups:
            group.compact()
        return cls(np.concatenate([each.roots for each in groups]), np.concatenate([each.times for each in groups]))

    def find(self, roots: Roots) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the positions in `roots` of the roots that the group has, and their places in the group."""
        places = places_of(roots, self.roots)
        known = np.flatnonzero(places >= 0)
        known = known[~np.isnan(self.times[places[known]])]
        return known, places[known]

    def remove(self, places: NDArray[np.intp]) -> None:
        """Remove the trees at these places."""
        self.left -= len(places)
        if not self.left or not len(places):
            return
        was_oldest = self.times[places].min() == self.oldest
        self.times[places] = np.nan
        if self.left < len(self.roots) // 2:
            self.compact()
        if was_oldest:
            self.oldest = float(np.nanmin(self.times))

    def compact(self) -> None:
        """Free the memory of removed trees."""
        left = ~np.isnan(self.times)
        self.roots, self.times = self.roots[left], self.times[left]
