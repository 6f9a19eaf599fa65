"""Which acker is responsible for a root: the root modulo the number of ackers, as in Storm."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

ACKER_ID = "__acker"

MOST_ACKERS = 65_535


def acker_of(root: int, ackers: int) -> int:
    """Return the index of the acker that keeps the tree of `root`, out of `ackers` (at least 1)."""
    return root % ackers


def moved(entries: Iterable[tuple[int, T]], acker: int, ackers: int) -> Iterator[tuple[int, int, T]]:
    """Yield those of an acker's entries that belong to another acker if there are `ackers` now.

    Args:
        entries: Roots and their trees, as `acker` keeps them; it need not be one of the `ackers`.
        acker: The index of the acker that keeps them.
        ackers: The new number of ackers.

    Yields:
        The index of the acker that the entry belongs to, the root, and the tree.
    """
    for root, tree in entries:
        owner = acker_of(root, ackers)
        if owner != acker:
            yield owner, root, tree
