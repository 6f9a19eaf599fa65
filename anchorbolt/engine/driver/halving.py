"""Finds the tuple on which a worker dies: by halves, since a dead worker reports nothing. Pure.

The tuples of a wave have roots that look random, so half of the roots are about half of the tuples. A round runs with
the tuples of one half only: if its workers survive, the tuple is in the other half.
"""

Window = tuple[int, int]
"""A range of roots: the first, and the one behind the last."""

_ALL: Window = (0, 1 << 64)
_EMPTY_PROBES = 3


class Halving:
    """The search for one tuple."""

    def __init__(self) -> None:
        self.window = _ALL  # that holds the tuple
        self._empty = 0  # rounds without a tuple, one after the other

    @property
    def is_done(self) -> bool:
        """Whether the window holds no other tuple, as far as can be told."""
        first, end = self.window
        return self._empty >= _EMPTY_PROBES or end - first == 1

    @property
    def probe(self) -> Window:
        """The roots of the next round."""
        first, end = self.window
        return first, (first + end) // 2

    def died(self) -> None:
        """Note that a worker died in that round."""
        self.window = self.probe

    def survived(self, tuples: int) -> None:
        """Note that the workers survived that round, which had so many tuples."""
        self.window = self.probe[1], self.window[1]
        self._empty = 0 if tuples else self._empty + 1
