"""Decodes slices of updates that lie staged in a store. Their checksums say that they are whole, not who wrote them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgpack

Items = list[tuple[bytes, "bytes | None"]]
"""Updates: keys and values; None deletes."""


def unpacked_pairs(packed: bytes) -> Items:
    """Return the updates that msgpack packed as `[[key, value], …]`. Raises `ValueError` where that is not so."""
    return _checked(_unpacked(packed))


def unpacked_flat(packed: bytes) -> Items:
    """Return the updates that msgpack packed as `[key, value, key, …]`. Raises `ValueError` where that is not so."""
    flat = iter(_unpacked(packed))
    return _checked(zip(flat, flat, strict=True))


def _unpacked(packed: bytes) -> list[Any]:
    try:
        found = msgpack.unpackb(packed)
    except ValueError:
        raise
    except (TypeError, RecursionError, msgpack.UnpackException) as error:
        raise ValueError(f"no updates: {error}") from error
    if not isinstance(found, list):
        raise ValueError(f"a {type(found).__name__} in place of updates")
    return found


def _checked(pairs: Iterable[Any]) -> Items:
    items: Items = []
    try:
        for key, value in pairs:
            if type(key) is not bytes or not (value is None or type(value) is bytes):
                raise ValueError("an update that is no bytes")
            items.append((key, value))
    except TypeError as error:
        raise ValueError(f"no pair: {error}") from error
    return items
