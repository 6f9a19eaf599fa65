"""The 64-bit ids of tuples and of trees, and the roots and ids of the tuples of one blob, sent with its columns.

Ids are drawn in blocks; only the first number of a block is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchorbolt.errors import SerializationError
from anchorbolt.streams.tuple import Item

Ids = NDArray[np.uint64]
Roots = NDArray[np.uint64]

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


class Lineage:
    """Roots and ids of a blob's tuples. Immutable; `len` is the number of tuples.

    Attributes:
        base: First number of the block of the tuples' ids, see `ids_of`.
        roots: The roots of all tuples, tuple by tuple.
        counts: The number of roots of each tuple; None if each tuple has exactly one.
    """

    __slots__ = ("base", "counts", "roots")

    def __init__(self, base: int, roots: Roots, counts: NDArray[np.uint32] | None = None) -> None:
        self.base = base
        self.roots = roots
        self.counts = counts

    def __len__(self) -> int:
        return len(self.roots if self.counts is None else self.counts)

    def __getitem__(self, tuples: slice) -> Lineage:
        """Return the lineage of consecutive tuples; they keep their ids."""
        start, stop, step = tuples.indices(len(self))
        if step != 1:
            raise ValueError(f"a lineage is only sliced in steps of 1, not of {step}")
        stop = max(start, stop)
        base = (self.base + start) % (1 << 64)
        if self.counts is None:
            return Lineage(base, self.roots[start:stop])
        first = int(self.counts[:start].sum())
        last = first + int(self.counts[start:stop].sum())
        return Lineage(base, self.roots[first:last], self.counts[start:stop])

    def ids(self) -> Ids:
        """Return the id of each tuple."""
        return ids_of(self.base, len(self))

    def items(self) -> list[Item]:
        """Return the roots of each tuple in the form of an emitted row."""
        if self.counts is None:
            return list(self.roots.tolist())
        roots: list[int] = self.roots.tolist()
        ends = np.cumsum(self.counts).tolist()
        return [
            roots[start] if end - start == 1 else tuple(roots[start:end])
            for start, end in zip([0, *ends], ends, strict=False)
        ]

    def parts(self) -> list[Any]:
        """Return plain values for a message, see `from_parts`."""
        counts = None if self.counts is None else self.counts.astype("<u4", copy=False).tobytes()
        return [self.base, self.roots.astype("<u8", copy=False).tobytes(), counts]

    @classmethod
    def from_parts(cls, parts: Any, size: int) -> Lineage:
        """Decode the result of `parts` for a blob of `size` tuples. Raises `SerializationError` if it is damaged."""
        try:
            base, root_bytes, count_bytes = parts
            roots = np.frombuffer(root_bytes, "<u8").astype(np.uint64, copy=False)
            counts = None
            if count_bytes is not None:
                counts = np.frombuffer(count_bytes, "<u4").astype(np.uint32, copy=False)
            lineage = cls(base, roots, counts)
            if type(base) is not int or not 0 <= base < 1 << 64:
                raise ValueError(f"its ids begin at {base!r}")
            if len(lineage) != size or (counts is not None and int(counts.sum(dtype=np.uint64)) != len(roots)):
                raise ValueError("it has another number of roots or of tuples")
        except (TypeError, ValueError) as error:
            raise SerializationError(f"the lineage of {size} tuples cannot be read: {error}") from error
        return lineage


def lineage_of(items: Sequence[Item], ids: IdSource) -> Lineage | None:
    """Draw an id for each tuple; return None, and draw nothing, if no tuple has a root.

    Args:
        items: The roots of each tuple. A root is from 1 to 2**64 - 1; a repeated root of a tuple counts once.
        ids: The source of the ids.
    """
    if not any(items):
        return None
    try:
        single = np.fromiter(items, np.uint64, len(items))
    except (TypeError, ValueError):  # some tuple has several roots, or none
        pass
    else:
        return Lineage(ids.draw(len(items)), single)
    # With a repeated root, the tuple's id would be XORed twice, so its loss would not be detected.
    rows = [tuple(dict.fromkeys(item)) if isinstance(item, tuple) else (item,) for item in items]
    counts = np.fromiter(map(len, rows), np.uint32, len(rows))
    roots = np.fromiter(chain.from_iterable(rows), np.uint64, int(counts.sum()))
    return Lineage(ids.draw(len(items)), roots, None if (counts == 1).all() else counts)
