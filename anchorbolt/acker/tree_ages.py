"""Since when the oldest open tree is open. Pure.

No tree is kept for it: the roots of a wave are made from a block of numbers (`anchorbolt.streams.ids`), so a root tells
its number, and the number tells the wave. For each wave the number of its open trees is enough.
"""

from dataclasses import dataclass

import numpy as np

from anchorbolt.acker.sorted_roots import Roots
from anchorbolt.streams.ids import numbers_of

_MOST_BLOCKS = 1024


@dataclass
class _Block:
    """The open trees of one wave, or of neighbouring waves."""

    first: int  # number of a root
    last: int
    since: float
    open: int  # of the trees


class TreeAges:
    """Counts open trees by the wave that opened them.

    Attributes:
        oldest_since: When the wave of the oldest open tree began to wait; None if no tree is open.
    """

    def __init__(self) -> None:
        self.oldest_since: float | None = None
        self._blocks: list[_Block] = []  # oldest first

    def add(self, base: int, count: int, since: float, opened: int) -> None:
        """Note that a wave has left so many of its `count` trees open; its roots are `ids_of(base, count)`."""
        if opened:
            self._blocks.append(_Block(base, base + count - 1, since, opened))
            if len(self._blocks) > _MOST_BLOCKS:
                self._merge()
        self._find_oldest()

    def remove(self, roots: Roots) -> None:
        """Note that trees which `add` counted are complete, failed or timed out. Ignores any other root."""
        if not self._blocks or not len(roots):
            return
        numbers = numbers_of(roots)
        blocks = sorted(self._blocks, key=lambda block: block.first)  # the numbers may have begun again at 1
        places = np.searchsorted(np.array([block.first for block in blocks], np.uint64), numbers, side="right") - 1
        found = places >= 0
        places, numbers = places[found], numbers[found]
        inside = numbers <= np.array([block.last for block in blocks], np.uint64)[places]
        for block, gone in zip(blocks, np.bincount(places[inside], minlength=len(blocks)).tolist(), strict=True):
            block.open -= gone
        self._blocks = [block for block in self._blocks if block.open > 0]
        self._find_oldest()

    def _merge(self) -> None:
        """Make one block of every two neighbours: a tree of the second then counts as old as those of the first."""
        merged: list[_Block] = []
        for position, block in enumerate(self._blocks):
            if position % 2 and merged[-1].last < block.first:
                merged[-1].last, merged[-1].open = block.last, merged[-1].open + block.open
            else:
                merged.append(block)
        self._blocks = merged

    def _find_oldest(self) -> None:
        self.oldest_since = min((block.since for block in self._blocks), default=None)
