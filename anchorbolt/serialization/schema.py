"""The version of the schema that a value was written under: kept in each value, and nothing where there is only one.

A value of version 1 is stored as its codec encodes it. A later version is stored behind a tag, which no encoding of
ours begins with; a user's encoding that does gets a tag for version 1. See `docs/decisions/schema-versions.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anchorbolt.errors import SerializationError

FIRST_VERSION = 1
LAST_VERSION = 65_535

# 0xC1 is the byte that msgpack never uses, and no UTF-8 text, so no JSON, begins with.
_TAG = b"\xc1v"
_TAG_BYTES = len(_TAG) + 2


@dataclass(frozen=True)
class Schema:
    """The schema that a bolt's values have now, and the way to it from older ones.

    Attributes:
        version: Its version, from 1.
        upcast: Turns a key's value of an older version into one of the next: `upcast(key, value, version)`.
    """

    version: int = FIRST_VERSION
    upcast: Callable[[Any, Any, int], Any] | None = None


SINGLE_SCHEMA = Schema()
"""The schema of values that never had another one."""


def tagged(data: bytes, version: int) -> bytes:
    """Return an encoded value as it is stored."""
    if version == FIRST_VERSION and not data.startswith(_TAG):
        return data
    return _TAG + version.to_bytes(2, "big") + data


def untagged(data: bytes) -> tuple[int, bytes]:
    """Return the version of a stored value, and its encoding.

    Raises:
        SerializationError: It has a tag, but no version.
    """
    if not data.startswith(_TAG):
        return FIRST_VERSION, data
    version = int.from_bytes(data[len(_TAG) : _TAG_BYTES], "big")
    if len(data) < _TAG_BYTES or version < FIRST_VERSION:
        raise SerializationError(f"{len(data)} bytes have the tag of a schema version, but none follows")
    return version, data[_TAG_BYTES:]
