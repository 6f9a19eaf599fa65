"""Tags with the schema version under which a value was written.

A value of version 1 is stored without a tag. A value of a later version is stored after a tag with which none of our
encodings begins; a user's encoding that begins with it gets a tag for version 1. See
`docs/decisions/schema-versions.md`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anchorbolt.errors import SerializationError

FIRST_VERSION = 1
LAST_VERSION = 65_535

# msgpack never uses the byte 0xC1, and no UTF-8 text, so no JSON, begins with it.
_TAG = b"\xc1v"
_TAG_BYTES = len(_TAG) + 2


@dataclass(frozen=True)
class Schema:
    """The current schema of a bolt's values, and the function that converts older values."""

    version: int = FIRST_VERSION
    upcast: Callable[[Any, Any, int], Any] | None = None  # (key, value, version) to the value of the next version


SINGLE_SCHEMA = Schema()


def tagged(data: bytes, version: int) -> bytes:
    if version == FIRST_VERSION and not data.startswith(_TAG):
        return data
    return _TAG + version.to_bytes(2, "big") + data


def untagged(data: bytes) -> tuple[int, bytes]:
    """Return a stored value's version and encoding. Raises `SerializationError` for a tag without a version."""
    if not data.startswith(_TAG):
        return FIRST_VERSION, data
    version = int.from_bytes(data[len(_TAG) : _TAG_BYTES], "big")
    if len(data) < _TAG_BYTES or version < FIRST_VERSION:
        raise SerializationError(f"{len(data)} bytes have the tag of a schema version, but none follows")
    return version, data[_TAG_BYTES:]
