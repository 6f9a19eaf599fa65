"""Assigns trees to ackers, by the root modulo the number of ackers as in Storm; moves them if the number changes."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from typing import Protocol

from anchorbolt.errors import SerializationError
from anchorbolt.serialization import pack, unpack
from anchorbolt.tracking.stored_trees import OpenTree, OpenTreeCodec

_CODEC = OpenTreeCodec()


class Trees(Protocol):
    """The trees of one acker."""

    def put(self, root: int, tree: OpenTree, /) -> None:
        """Add a tree."""

    def delete(self, root: int, /) -> object:
        """Remove a tree."""


def acker_of(root: int, ackers: int) -> int:
    """Return the index of the acker that keeps the tree of `root`, out of `ackers` (at least 1)."""
    return root % ackers


def moves_to(
    ackers: int,
    trees: Iterable[tuple[int, int, OpenTree]],
    changed: Container[int] = (),
    dropped: Iterable[tuple[int, int]] = (),
) -> Mapping[int, bytes]:
    """Return the moves of trees between ackers for a new number of ackers.

    Args:
        ackers: The new number.
        trees: The index of the acker that keeps the tree now, its root, and the tree.
        changed: Roots of trees that their acker must replace, even if they do not move.
        dropped: The index of the acker and the root of each tree to remove.

    Returns: The moves for `apply_moves`, by index of the acker; includes ackers that are not needed any more.
    """
    removed: defaultdict[int, list[int]] = defaultdict(list)
    added: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for before, root in dropped:
        removed[before].append(root)
    for before, root, tree in trees:
        owner = acker_of(root, ackers)
        if owner != before:
            removed[before].append(root)
        if owner != before or root in changed:
            added[owner].append((root, _CODEC.encode(tree)))
    return {acker: pack([removed[acker], added[acker]]) for acker in {*removed, *added}}


def apply_moves(moves: bytes, trees: Trees) -> None:
    """Remove and add trees, at the start of a wave. Raises `SerializationError` if the bytes are damaged."""
    try:
        removed, added = unpack(moves)
        for root in removed:
            trees.delete(root)
        for root, tree in added:
            trees.put(root, _CODEC.decode(tree))
    except (TypeError, ValueError) as error:
        raise SerializationError(f"the moves of tuple trees, {len(moves)} bytes, cannot be read: {error}") from error
