"""Operations on arrays of roots in ascending order, each root once, and on parallel arrays of values."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Roots = NDArray[np.uint64]
Numbers = NDArray[Any]

NO_ROOTS: Roots = np.empty(0, np.uint64)


def is_ascending(roots: Roots) -> bool:
    """Return whether the roots are in ascending order, each once."""
    return len(roots) < 2 or bool((roots[1:] > roots[:-1]).all())


def xor_by_root(roots: Roots, values: Roots) -> tuple[Roots, Roots]:
    """Return the distinct roots in ascending order, and the XOR of each root's values; leave out roots with zero.

    May return the arrays that it got.
    """
    if not is_ascending(roots):
        order = np.argsort(roots)
        roots, values = roots[order], values[order]
        starts = _starts(roots)
        roots, values = roots[starts], np.bitwise_xor.reduceat(values, starts)
    if not values.all():
        open_ = values != 0
        roots, values = roots[open_], values[open_]
    return roots, values


def highest_by_root(roots: Roots, values: Numbers) -> tuple[Roots, Numbers]:
    """Return the distinct roots in ascending order, and the highest value of each root."""
    if is_ascending(roots):
        return roots, values
    order = np.argsort(roots)
    roots, values = roots[order], values[order]
    starts = _starts(roots)
    return roots[starts], np.maximum.reduceat(values, starts)


def union_of(arrays: Iterable[Roots]) -> Roots:
    """Return the roots of several arrays in ascending order, each once."""
    filled = [roots for roots in arrays if len(roots)]
    if not filled:
        return NO_ROOTS
    together = filled[0] if len(filled) == 1 else np.concatenate(filled)
    return together if is_ascending(together) else np.unique(together)


def value_of(wanted: Roots, roots: Roots, values: Numbers, default: int) -> Numbers:
    """Return the value of each of the `wanted` roots, or `default` if it is not in `roots`."""
    places = places_of(wanted, roots)
    known = places >= 0
    found = np.full(len(wanted), default, values.dtype)
    found[known] = values[places[known]]
    return found


def places_of(wanted: Roots, roots: Roots) -> NDArray[np.intp]:
    """Return the position of each of the `wanted` roots in `roots`, or -1 if it is not there."""
    if not len(roots):
        return np.full(len(wanted), -1, np.intp)
    places = np.searchsorted(roots, wanted)
    places[places == len(roots)] = 0
    places[roots[places] != wanted] = -1
    return places


def is_in(wanted: Roots, roots: Roots) -> NDArray[np.bool_]:
    """Return for each of the `wanted` roots whether it is in `roots`."""
    if not len(roots) or not len(wanted):
        return np.zeros(len(wanted), np.bool_)
    places = np.searchsorted(roots, wanted)
    places[places == len(roots)] = 0
    return np.asarray(roots[places] == wanted)


def _starts(ordered: Roots) -> NDArray[np.intp]:
    """Return the first position of each root, in sorted roots with repetitions."""
    return np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
