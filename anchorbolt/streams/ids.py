"""64-bit ids of tuples and of trees. They are drawn in blocks; only the first number of a block is sent."""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint64]

_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # odd factors of splitmix64's finaliser
_END = 1 << 64
_MASK = _END - 1
_FIRST_INVERSE, _SECOND_INVERSE = pow(_FIRST, -1, _END), pow(_SECOND, -1, _END)


def mix(numbers: Ids) -> Ids:
    """Map each number to a number that looks random: the finaliser of splitmix64.

    Different numbers have different results. Only zero becomes zero.
    """
    mixed: Ids = numbers ^ (numbers >> np.uint64(30))
    mixed *= np.uint64(_FIRST)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(_SECOND)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def number_of(id: int) -> int:
    """Return the number that `mix` maps to this id."""
    mixed = id ^ (id >> 31) ^ (id >> 62)
    mixed = mixed * _SECOND_INVERSE & _MASK
    mixed = mixed ^ (mixed >> 27) ^ (mixed >> 54)
    mixed = mixed * _FIRST_INVERSE & _MASK
    return mixed ^ (mixed >> 30) ^ (mixed >> 60)


def ids_of(base: int, count: int) -> Ids:
    """Return the ids of a block: one for each number from `base` on, modulo 2**64."""
    numbers = np.arange(count, dtype=np.uint64)
    numbers += np.uint64(base)
    return mix(numbers)


class IdSource:
    """Hands out blocks of ids. Two blocks of one source share no id, unless it hands out 2**64 of them.

    Blocks of two sources may overlap. But each seed is used once (an attempt and a purpose), so sources start at random
    numbers, and an id only has to differ from the other ids of its tree.
    """

    def __init__(self, seed: str) -> None:
        self._next = int.from_bytes(blake2b(seed.encode(), digest_size=8).digest(), "little")

    def draw(self, count: int) -> int:
        """Draw a block of `count` ids; return its base, for `ids_of`. No id of a block is zero."""
        # A zero would change no XOR, so the loss of its tuple would not be detected.
        if self._next == 0 or self._next + count > _END:
            self._next = 1
        base = self._next
        self._next = (base + count) % _END
        return base
