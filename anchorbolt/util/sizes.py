"""Estimates how many bytes values have, without encoding them: from a few of them, in some microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_SAMPLE, _STEP = 4, 1024  # rows
_CONTAINERS = frozenset((tuple, list, dict))
_DEEPEST = 5  # containers in a row, with itself
_OTHER = 8  # bytes of a value that is neither text nor bytes nor a container


def estimated_bytes(rows: Sequence[Any], start: int = 0) -> int:
    """Estimate the bytes of the rows from a position on; a row of a direct stream is `(task id, values)`."""
    number = len(rows) - start
    sample = rows[start :: max(1, number // _SAMPLE)]
    return _size(sample, _DEEPEST) * number // len(sample) if sample else 0


def fitting(rows: Sequence[Any], most: int) -> int:
    """Return how many of the first rows have about `most` bytes together, at least 1."""
    total = 0
    for start in range(0, len(rows), _STEP):
        step = rows[start : start + _STEP]
        size = estimated_bytes(step)
        if total + size > most:
            return max(1, start + len(step) * (most - total) // size)
        total += size
    return max(1, len(rows))


def _size(values: Iterable[Any], depth: int) -> int:
    size = 0
    for value in values:
        kind = type(value)
        if kind is str or kind is bytes:
            size += len(value)
        elif kind in _CONTAINERS and depth:  # a list may hold itself: it is refused when it is sent
            size += _size(value.values() if kind is dict else value, depth - 1)
        else:
            size += _OTHER
    return size
