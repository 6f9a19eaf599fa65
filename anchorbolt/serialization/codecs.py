"""The codecs of keys and values, and the tags with the schema version under which a value was written.

The codecs' names and versions are in the header of each namespace. A value of schema version 1 is stored without a tag.
A value of a later version is stored after a tag with which none of our encodings begins; a user's encoding that begins
with it gets a tag for version 1. See `docs/decisions/schema-versions.md`.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from anchorbolt.errors import SerializationError, UnsupportedValue
from anchorbolt.serialization.msgpack_values import pack, pack_many, unpack
from anchorbolt.util.keys import OF_ONE_FORM, canonical_key
from anchorbolt.util.messages import shortened
from anchorbolt.util.plain import plain

MAX_DEPTH = 64
"""The maximum nesting of a JSON value; msgpack has its own limit of 511."""


class Codec(ABC):
    """Encodes a namespace's keys or values. The namespace stores the codec's name and version.

    Attributes:
        name: Short name, the one in the configuration.
        version: Increased when the encoding changes.
        is_canonical: Whether it encodes the canonical form of keys: equal keys have equal bytes, and are not mutable.
    """

    name: str
    version: int
    is_canonical = False

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """Encode a value. Raises `UnsupportedValue`."""

    @abstractmethod
    def decode(self, data: bytes) -> Any:
        """Decode bytes from a store, which may be any bytes. Raises `SerializationError`."""

    def encode_many(self, values: Iterable[Any]) -> list[bytes]:
        """Encode values one by one. Raises `UnsupportedValue`."""
        return [self.encode(value) for value in values]

    @property
    def header(self) -> str:
        """Name and version, in the form stored in a namespace."""
        return f"{self.name}/{self.version}"


class MsgpackCodec(Codec):
    """The default codec: encodes with `pack`, and decodes with `unpack`."""

    name = "msgpack"
    version = 1
    encode = staticmethod(pack)
    encode_many = staticmethod(pack_many)
    decode = staticmethod(unpack)


class MsgpackKeyCodec(MsgpackCodec):
    """The default codec of keys. Version 1 did not make keys canonical; see docs/decisions/equal-keys.md."""

    version = 2
    is_canonical = True

    @staticmethod
    def encode(value: Any) -> bytes:
        return pack(canonical_key(value))

    @staticmethod
    def encode_many(values: Iterable[Any]) -> list[bytes]:
        keys = list(values)
        return pack_many(keys if OF_ONE_FORM.issuperset(map(type, keys)) else map(canonical_key, keys))


class JsonCodec(Codec):
    """JSON as text, readable with any tool. Supports JSON's types: None, bool, int, float, str, list, dict of str."""

    name = "json"
    version = 1

    def encode(self, value: Any) -> bytes:
        """Encode compactly with sorted names."""
        members = _json_members(value, 0)
        try:
            return json.dumps(
                members, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
            ).encode()
        except (ValueError, TypeError) as error:
            raise UnsupportedValue(f"cannot encode {shortened(value)} as JSON: {error}") from error

    def decode(self, data: bytes) -> Any:
        """Decode UTF-8 JSON text."""
        try:
            return json.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise SerializationError(f"cannot decode {len(data)} bytes as JSON: {error}") from error


class JsonKeyCodec(JsonCodec):
    """JSON for keys. In version 1, -0.0 and 0.0 were different keys."""

    version = 2
    is_canonical = True

    def encode(self, value: Any) -> bytes:
        return super().encode(canonical_key(value))


def _json_members(value: Any, depth: int) -> Any:
    """Convert a value to JSON's types. Raises `UnsupportedValue`."""
    if depth > MAX_DEPTH:
        raise UnsupportedValue(f"a value is nested more than {MAX_DEPTH} deep")
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [_json_members(member, depth + 1) for member in value]
    if kind is dict:
        named = {plain(name): _json_members(member, depth + 1) for name, member in value.items()}
        if all(type(name) is str for name in named):
            return named
    elif type(found := plain(value)) is not kind:
        return _json_members(found, depth)
    raise UnsupportedValue(
        f"type {kind.__module__}.{kind.__qualname__} has no JSON form that reads back as itself: "
        f"{shortened(value)}. Use str, int, float, bool, None, list or dict of str, or msgpack."
    )


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
