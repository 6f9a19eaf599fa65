"""Finds the tuple on which a worker dies: by halves, since a dead worker reports nothing. Pure.

The tuples of a wave have roots that look random, so half of a range of roots holds about half of its tuples. A round
runs with the tuples of the lower half only. If a worker dies, the tuple is one of them. Otherwise the spouts' tasks say
which roots there are in the other half: so the range shrinks to the tuples that are there, and in the end it holds one.
The last rounds run with that tuple alone. Only if a worker dies in each of them, it is the tuple: a worker may also
have been killed from outside, and then another tuple than the right one, or none, may seem to be it.
"""

from anchorbolt.checkpoint.ports import Others, Probe

_END = 1 << 64
_ALONE = 2  # rounds with one tuple alone


class Halving:
    """The search for the tuple with the lowest root."""

    def __init__(self, first: int = 1) -> None:
        """Search from this root on; 0 is that of all untracked tuples."""
        self._window = first, _END
        self._tuples: int | None = None  # about so many have a root in the window, and the first one has; if known
        self._alone = 0  # rounds with one tuple alone in which a worker died
        self.is_done = False
        self.found: int | None = None  # once it is done: the root; None if no tuple ends its worker by itself

    @property
    def probe(self) -> Probe:
        """The roots of the next round."""
        first, end = self._window
        # By halves of the range alone it would take 60 rounds to part the first tuple from nothing.
        is_alone = end - first == 1 or self._tuples == 1
        return Probe(first, first + 1 if is_alone else first + (end - first) // 2, end)

    def died(self) -> None:
        """Note that a worker died in that round."""
        first, middle, _ = self.probe
        if middle == first + 1:
            self._alone += 1
            if self._alone == _ALONE:
                self.is_done, self.found = True, first
        self._window = first, middle
        if self._tuples is not None:
            self._tuples = (self._tuples + 1) // 2

    def survived(self, others: Others | None) -> None:
        """Note that the workers survived that round, and which tuples there are in the half that did not run."""
        if others is None:
            self.is_done = True
        else:
            self._window = others.lowest, others.highest + 1
            self._tuples = others.tuples
