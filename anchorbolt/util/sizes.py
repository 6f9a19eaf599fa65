"""Estimates how many bytes values have, without encoding them: from a few of them, in some microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_SAMPLE = 4  # rows
_CONTAINERS = frozenset((tuple, list, dict))
_DEEPEST = 5  # containers in a row, with itself
_OTHER = 8  # bytes of a value that is neither text nor bytes nor a container


def estimated_bytes(values: Sequence[Any]) -> int:
    """Estimate the bytes of values, which may be rows."""
    number = len(values)
    sample = values[:: max(1, number // _SAMPLE)]
    return _size(sample, _DEEPEST) * number // len(sample) if sample else 0


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
