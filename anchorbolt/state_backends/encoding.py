"""How a state's keys and values are held in memory, and how they become a namespace's bytes.

Held keys make distinct what Python's dictionaries mix up (`1`, `True` and `1.0`), and held values cannot be changed
from outside: what is mutable is held as bytes and decoded anew for each reader.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final

from anchorbolt.errors import SerializationError, StateCorrupted, UnsupportedValue
from anchorbolt.serialization import Codec
from anchorbolt.state_backends.base import START_OVER, SizeLimits

__all__ = ["ABSENT", "EncodedValue", "EntryEncoding", "HeldKey"]

_LEAST_INT, _MOST_INT = -(2**63), 2**64 - 1  # what msgpack has a form of its own for

_GROWTH = 8  # no codec makes more bytes of a character, or of a byte, than that
_SIZED = frozenset({str, bytes})

HeldKey = Any
"""A str or int as it is, anything else as a 1-tuple of its encoded bytes (a user's tuple is never held as it is)."""


class _Absent:
    """Marks a key that is known to have no value."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


class EncodedValue:
    """A value held as bytes, because its Python form could be changed in place."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


_HELD_AS_THEY_ARE: dict[str, frozenset[type]] = {
    "msgpack": frozenset({int, float, bool, bytes, type(None)}),
    "json": frozenset({int, bool}),
}


class EntryEncoding:
    """Encodes the entries of one namespace with its two codecs.

    Attributes:
        header: The format header that the namespace keeps.
    """

    def __init__(
        self, namespace: str, key_codec: Codec, value_codec: Codec, limits: SizeLimits | None = None
    ) -> None:
        self._namespace = namespace
        self._limits = limits
        # What is shorter need not be encoded to know that it is within the limits.
        self._short_key = limits.key // _GROWTH if limits else sys.maxsize
        self._short_value = limits.value // _GROWTH if limits else sys.maxsize
        self._key_codec = key_codec
        self._value_codec = value_codec
        self._plain = _HELD_AS_THEY_ARE.get(value_codec.name, frozenset())
        self.header = f"keys {key_codec.header}, values {value_codec.header}"

    def hold_key(self, key: Any) -> HeldKey:
        """Return how `key` is held.

        Raises:
            UnsupportedValue: It is mutable, of a type that cannot be encoded, or larger than the store takes.
        """
        kind = type(key)
        if (kind is str and len(key) <= self._short_key and key.isascii()) or (
            kind is int and _LEAST_INT <= key <= _MOST_INT
        ):
            return key
        if kind.__module__ == "numpy" and getattr(key, "ndim", None) == 0:
            return self.hold_key(key.item())
        try:
            hash(key)
        except TypeError:
            raise UnsupportedValue(
                f"state {self._namespace!r}: a key must not be mutable, but this one is, or holds, a "
                f"{kind.__name__}: {_shown(key)}. Use a tuple of plain values instead."
            ) from None
        try:
            encoded = self._key_codec.encode(key)
        except SerializationError as error:
            raise UnsupportedValue(f"state {self._namespace!r}, key {_shown(key)}: {error}") from error
        if self._limits is not None and len(encoded) > self._limits.key:
            raise UnsupportedValue(
                f"state {self._namespace!r}: the key {_shown(key)} has {len(encoded)} bytes, and the store takes "
                f"{self._limits.key} at most. Use a shorter one, such as a digest of it."
            )
        return key if kind is str else (encoded,)

    def hold_value(self, key: Any, value: Any) -> Any:
        """Return how `value` is held, so that nothing done to it later changes the state.

        Raises:
            UnsupportedValue: It cannot be encoded, or is larger than the store takes.
        """
        kind = type(value)
        if kind is int and not _LEAST_INT <= value <= _MOST_INT:
            pass  # encoded now, so that one too large is refused here
        elif ((kind is str and value.isascii()) or kind in self._plain) and (
            kind not in _SIZED or len(value) <= self._short_value
        ):
            return value
        try:
            encoded = self._value_codec.encode(value)
        except SerializationError as error:
            raise UnsupportedValue(
                f"state {self._namespace!r}, value for key {_shown(key)}: {error}"
            ) from error
        if self._limits is not None and len(encoded) > self._limits.value:
            raise UnsupportedValue(
                f"state {self._namespace!r}: the value for key {_shown(key)} has {len(encoded)} bytes, and the store "
                f"takes {self._limits.value} at most. {self._limits.advice}, or keep less under one key."
            )
        return value if kind is str or (kind is bytes and kind in self._plain) else EncodedValue(encoded)

    def key_bytes(self, held: Iterable[HeldKey]) -> list[bytes]:
        """Encode held keys."""
        keys = list(held)
        if any(type(key) is tuple for key in keys):
            encode = self._key_codec.encode
            return [key[0] if type(key) is tuple else encode(key) for key in keys]
        return self._key_codec.encode_many(keys)

    def value_bytes(self, held: Iterable[Any]) -> list[bytes | None]:
        """Encode held values; `ABSENT` becomes None."""
        values = list(held)
        if any(type(value) is EncodedValue or value is ABSENT for value in values):
            encode = self._value_codec.encode
            return [
                value.data if type(value) is EncodedValue else None if value is ABSENT else encode(value)
                for value in values
            ]
        return list(self._value_codec.encode_many(values))

    def key_from(self, data: bytes) -> Any:
        """Decode a stored key. Raises `StateCorrupted`."""
        try:
            return self._key_codec.decode(data)
        except SerializationError as error:
            raise StateCorrupted(
                f"state {self._namespace!r}: the key {_shown(data)} cannot be decoded: "
                f"{str(error).rstrip('. ')}. {START_OVER}.",
                namespace=self._namespace,
            ) from error

    def held_from(self, key: Any, data: bytes | None) -> Any:
        """Turn stored bytes into a held value, None into `ABSENT`. Raises `StateCorrupted`."""
        if data is None:
            return ABSENT
        value = self._decode(key, data)
        kind = type(value)
        return value if kind in self._plain or kind is str else EncodedValue(data)

    def value_from(self, key: Any, held: Any) -> Any:
        """Return a held value as the user may have it; never `ABSENT`."""
        return self._decode(key, held.data) if type(held) is EncodedValue else held

    def _decode(self, key: Any, data: bytes) -> Any:
        try:
            return self._value_codec.decode(data)
        except SerializationError as error:
            raise StateCorrupted(
                f"state {self._namespace!r}: the value of key {_shown(key)} cannot be decoded: "
                f"{str(error).rstrip('. ')}. {START_OVER}.",
                namespace=self._namespace,
            ) from error


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"
