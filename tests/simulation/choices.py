"""All that is decided by chance in a simulation: drawn from a seed, or replayed from a list.

Zero is always the ordinary course of things. So a list of choices can be made simpler by setting one of them to zero,
or by cutting its end off, and a failure shrinks to the few choices that it needs.
"""

import random
from collections.abc import Sequence


class Choices:
    """A source of choices, which remembers what it chose."""

    def __init__(self, seed: int, replay: Sequence[int] | None = None) -> None:
        """Draw from `seed`, or choose what `replay` says, and zero behind its end."""
        self._seed = seed
        self._random = random.Random(seed)
        self._replay = replay
        self.made: list[int] = []

    def happens(self, probability: float) -> bool:
        """Decide whether something unusual happens."""
        if self._replay is None:
            chosen = 1 if self._random.random() < probability else 0
        else:
            chosen = min(self._next(), 1)
        self.made.append(chosen)
        return chosen == 1

    def pick(self, options: int) -> int:
        """Choose one of `options` ways to go on, counted from 0, the ordinary one."""
        if options <= 1:
            return 0
        chosen = self._random.randrange(options) if self._replay is None else self._next() % options
        self.made.append(chosen)
        return chosen

    def by_seed(self, options: int) -> int:
        """Choose by the seed itself, so that all other choices are what they are without this one."""
        chosen = self._seed % options if self._replay is None else self._next() % options
        self.made.append(chosen)
        return chosen

    def _next(self) -> int:
        assert self._replay is not None
        position = len(self.made)
        return self._replay[position] if position < len(self._replay) else 0
