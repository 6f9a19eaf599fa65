"""Encodes a state's keys and values, for the cache and for the store.

Python's dictionaries treat `1`, `True` and `1.0` as one key; the cache has three keys for them. All spellings of a key
(`util.keys`) have one encoding, and so one cache key. Cached values cannot be changed from outside: a mutable value is
kept as bytes and decoded for each reader.
"""

import re
import sys
import traceback
from collections.abc import Iterable
from typing import Any, Final

from anchorbolt.errors import CodecMismatch, SerializationError, StateCorrupted, UnsupportedValue
from anchorbolt.serialization import Codec
from anchorbolt.serialization.codecs import (
    FIRST_VERSION,
    SINGLE_SCHEMA,
    MsgpackKeyCodec,
    Schema,
    SerializerCodec,
    tagged,
    untagged,
)
from anchorbolt.serialization.msgpack_values import packed_tuple
from anchorbolt.state_backends.contract import START_OVER, SizeLimits
from anchorbolt.util.keys import check_hashable
from anchorbolt.util.messages import shortened
from anchorbolt.util.plain import PLAIN_TYPES, plain

_LEAST_INT, _MOST_INT = -(2**63), 2**64 - 1  # the integers that msgpack encodes itself

_GROWTH = 8  # the maximum bytes that a codec makes of one character or byte
_SIZED = frozenset({str, bytes})

CacheKey = Any
"""A str or int itself, or a 1-tuple of the encoded bytes of any other key (so it never equals a user's tuple)."""

_CANONICAL = re.compile(r"keys (msgpack|json)/2, ")

ABSENT: Final = object()
"""Marks a key that has no value in the store."""


class EncodedValue:
    """A value kept as bytes, because its Python form could be changed in place."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


_NOT_PLAIN = frozenset({EncodedValue, type(ABSENT)})  # other objects in the cache than values
_IMMUTABLE: frozenset[type] = frozenset({int, float, bool, bytes, str, type(None)})
_KEPT_AS_THEY_ARE: dict[str, frozenset[type]] = {
    "msgpack": _IMMUTABLE,
    "json": frozenset({int, bool, str}),
    "pickle": _IMMUTABLE,
}
"""By codec. A user's codec may decode an int to another value, so the cache keeps its bytes."""


def older_header(header: str) -> str:
    """Return the header of older namespaces that can also be read, or `header` itself.

    An older namespace was written before keys had a canonical form. It may hold several spellings of one key.
    """
    return _CANONICAL.sub(r"keys \1/1, ", header)


def older_keys(namespace: str) -> CodecMismatch:
    """Return the error for a key that an older namespace may hold under several spellings."""
    return CodecMismatch(
        f"state {namespace!r} was written by a version that stored equal keys under several spellings, such as "
        "Decimal('1.0') and Decimal('1.00'), or one instant in two time zones. Floats that are zero or NaN, Decimals, "
        "and times with a zone cannot be used as its keys. Nothing was written. Stop the run and rewrite its keys: "
        "anchorbolt migrate copy to a new store, which names keys that were stored twice.",
        namespace=namespace,
    )


class EntryEncoding:
    """Encodes the entries of one namespace. The schema's version is kept in each value, not in the header."""

    def __init__(
        self,
        namespace: str,
        key_codec: Codec,
        value_codec: Codec,
        schema: Schema = SINGLE_SCHEMA,
        limits: SizeLimits | None = None,
    ) -> None:
        self.namespace = namespace
        self._limits = limits
        # Shorter keys and values are within the limits in any encoding.
        self._short_key = limits.key // _GROWTH if limits else sys.maxsize
        self._short_value = limits.value // _GROWTH if limits else sys.maxsize
        self._key_codec = key_codec
        self._value_codec = value_codec
        self._schema = schema
        self._plain = _KEPT_AS_THEY_ARE.get(value_codec.name, frozenset())
        self._most_key = limits.key if limits else sys.maxsize
        self._packs_tuples = isinstance(key_codec, MsgpackKeyCodec)
        self._keys_are_ours = not isinstance(key_codec, SerializerCodec)
        # The bytes of a user's serializer may begin like a tag, so they are checked even without versions.
        self._is_tagged = schema.version > FIRST_VERSION or isinstance(value_codec, SerializerCodec)
        self.header = f"keys {key_codec.header}, values {value_codec.header}"

    @property
    def kept_as_they_are(self) -> frozenset[type]:
        """The types of values that the cache keeps as they are, and that are encoded only when they are staged."""
        return self._plain

    @property
    def keeps_ints(self) -> bool:
        """Whether the cache keeps an int as an int."""
        return int in self._plain

    def cache_key(self, key: Any) -> CacheKey:
        """Return the cache key of `key`.

        Raises `UnsupportedValue` if it is mutable, of a type that cannot be encoded, or too large for the store.
        """
        kind = type(key)
        ours = self._keys_are_ours
        if ours and (
            (kind is str and len(key) <= self._short_key and key.isascii())
            or (kind is int and _LEAST_INT <= key <= _MOST_INT)
        ):
            return key
        packed = packed_tuple(key) if kind is tuple and self._packs_tuples else None
        if packed is not None and len(packed) <= self._most_key:
            return (packed,)
        is_canonical = self._key_codec.is_canonical
        try:
            if kind not in PLAIN_TYPES and (is_canonical or kind.__module__ == "numpy"):
                plain_key = plain(key)
            else:
                plain_key = key
                if not is_canonical:  # otherwise the codec refuses a mutable key
                    check_hashable(key)
                encoded = self._key_codec.encode(key)
        except SerializationError as error:
            raise UnsupportedValue(f"state {self.namespace!r}, key {shortened(key)}: {error}") from error
        if plain_key is not key:
            return self.cache_key(plain_key)
        if self._limits is not None and len(encoded) > self._limits.key:
            raise UnsupportedValue(
                f"state {self.namespace!r}: the key {shortened(key)} has {len(encoded)} bytes, and the store takes "
                f"{self._limits.key} at most. Use a shorter one, such as a digest of it."
            )
        return key if kind is str and ours else (encoded,)

    def are_cache_keys(self, keys: list[Any]) -> bool:
        """Whether each of these keys is supported and is its own cache key; False if it is not known at once."""
        kinds = set(map(type, keys)) if self._keys_are_ours else ()
        if kinds == {int}:
            return _are_of_64_bits(keys)
        if kinds != {str}:
            return False
        text = "".join(keys)
        return _is_unicode(text) and (len(text) <= self._short_key or max(map(len, keys)) <= self._short_key)

    def values_to_cache(self, keys: list[Any], values: list[Any]) -> list[Any]:
        """Return the cached forms of the values of keys. Raises the errors of `value_to_cache`."""
        kinds = set(map(type, values))
        if len(kinds) == 1 and kinds <= self._plain - _SIZED and (kinds != {int} or _are_of_64_bits(values)):
            return values
        return list(map(self.value_to_cache, keys, values))

    def value_to_cache(self, key: Any, value: Any) -> Any:
        """Return the cached form of `value`, which a later change of `value` does not affect.

        Raises `UnsupportedValue` if it cannot be encoded, or is too large for the store.
        """
        kind = type(value)
        is_plain = kind in self._plain
        if is_plain and not (
            # Encode these now, so that an int out of range, invalid Unicode or a large value is refused here.
            (kind is int and not _LEAST_INT <= value <= _MOST_INT)
            or (kind is str and not value.isascii())
            or (kind in _SIZED and len(value) > self._short_value)
        ):
            return value
        try:
            encoded = self._encode(value)
        except SerializationError as error:
            raise UnsupportedValue(f"state {self.namespace!r}, value for key {shortened(key)}: {error}") from error
        if self._limits is not None and len(encoded) > self._limits.value:
            raise UnsupportedValue(
                f"state {self.namespace!r}: the value for key {shortened(key)} has {len(encoded)} bytes, and the "
                f"store takes {self._limits.value} at most. {self._limits.advice}, or keep less under one key."
            )
        return value if is_plain and kind in _SIZED else EncodedValue(encoded)

    def key_bytes(self, cache_keys: Iterable[CacheKey]) -> list[bytes]:
        keys = list(cache_keys)
        if tuple in set(map(type, keys)):
            encode = self._key_codec.encode
            return [key[0] if type(key) is tuple else encode(key) for key in keys]
        return self._key_codec.encode_many(keys)

    def value_bytes(self, cached: Iterable[Any]) -> list[bytes | None]:
        """Encode cached values; `ABSENT` becomes None."""
        values = list(cached)
        if not _NOT_PLAIN.isdisjoint(map(type, values)):
            encode = self._encode
            return [
                value.data if type(value) is EncodedValue else None if value is ABSENT else encode(value)
                for value in values
            ]
        encoded = self._value_codec.encode_many(values)
        return [tagged(data, self._schema.version) for data in encoded] if self._is_tagged else list(encoded)

    def key_from(self, data: bytes) -> Any:
        """Decode a stored key. Raises `StateCorrupted`."""
        try:
            return self._key_codec.decode(data)
        except SerializationError as error:
            raise self._corrupted("", data, error) from error

    def entry_from(self, key_data: bytes, data: bytes) -> tuple[Any, Any]:
        """Decode a stored entry. Raises the errors of `cached_value` and `value_from`."""
        key = self.key_from(key_data)
        return key, self.value_from(key, self.cached_value(key, data))

    def cached_value(self, key: Any, data: bytes | None) -> Any:
        """Convert stored bytes to a cached value, None to `ABSENT`.

        Raises `StateCorrupted` if the bytes cannot be decoded, `CodecMismatch` if they were written under a later
        schema.
        """
        if data is None:
            return ABSENT
        if self._is_tagged:
            version, encoded = self._untag(key, data)
            if version < self._schema.version or not self._plain:
                return EncodedValue(data)  # the user's code decodes it when the bolt reads it
        else:
            encoded = data
        value = self._decode(key, encoded)
        return value if type(value) in self._plain else EncodedValue(data)

    def value_from(self, key: Any, cached: Any) -> Any:
        """Convert a cached value, other than `ABSENT`, to the user's value.

        Raises `StateCorrupted` if it cannot be decoded, `SerializationError` if `upcast` raised.
        """
        if type(cached) is not EncodedValue:
            return cached
        if not self._is_tagged:
            return self._decode(key, cached.data)
        written, encoded = self._untag(key, cached.data)
        value = self._decode(key, encoded)
        for version in range(written, self._schema.version):
            value = self._upcast(key, value, version)
        return value

    def _encode(self, value: Any) -> bytes:
        data = self._value_codec.encode(value)
        return tagged(data, self._schema.version) if self._is_tagged else data

    def _decode(self, key: Any, encoded: bytes) -> Any:
        try:
            return self._value_codec.decode(encoded)
        except SerializationError as error:
            if not self._is_tagged:
                self._untag(key, encoded)  # raises if the tag is the reason
            raise self._corrupted("value of ", key, error) from error

    def _untag(self, key: Any, data: bytes) -> tuple[int, bytes]:
        try:
            version, encoded = untagged(data)
        except SerializationError as error:
            raise self._corrupted("value of ", key, error) from error
        if version > self._schema.version:
            raise CodecMismatch(
                f"state {self.namespace!r}: the value of key {shortened(key)} was written under schema version "
                f"{version}, but this job has state_schema_version {self._schema.version}. Run the job that wrote "
                "it, or a later one.",
                namespace=self.namespace,
            )
        return version, encoded

    def _upcast(self, key: Any, value: Any, version: int) -> Any:
        assert self._schema.upcast is not None, "a schema with a version above 1 needs an upcast"
        try:
            return self._schema.upcast(key, value, version)
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            raise SerializationError(
                f"state {self.namespace!r}: the value of key {shortened(key)} was written under schema version "
                f"{version}, and upcast(key, value, {version}) raised {type(error).__name__}: {error}, in "
                f"{at.filename}, line {at.lineno}. Fix upcast: it must convert such a value to version {version + 1}."
            ) from error

    def _corrupted(self, part: str, key: Any, error: SerializationError) -> StateCorrupted:
        return StateCorrupted(
            f"state {self.namespace!r}: the {part}key {shortened(key)} cannot be decoded: "
            f"{str(error).rstrip('. ')}. {START_OVER}.",
            namespace=self.namespace,
        )


def _are_of_64_bits(numbers: list[int]) -> bool:
    return min(numbers) >= _LEAST_INT and max(numbers) <= _MOST_INT


def _is_unicode(text: str) -> bool:
    """Return whether text can be encoded: lone surrogates cannot."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
