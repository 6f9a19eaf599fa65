"""The codecs of keys and values, ours or a user's, and the tags with the schema version of a value.

The codecs' names and versions are in the header of each namespace. A value of schema version 1 is stored without a tag.
A value of a later version is stored after a tag with which none of our encodings begins; a user's encoding that begins
with it gets a tag for version 1. See `docs/decisions/schema-versions.md`.
"""

import json
import pickle
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar
from zlib import crc32

from anchorbolt.errors import ConfigError, SerializationError, UnsupportedValue
from anchorbolt.serialization.msgpack_values import pack, pack_many, unpack, unpack_many
from anchorbolt.util.imports import load_class
from anchorbolt.util.keys import OF_ONE_FORM, canonical_key
from anchorbolt.util.messages import shortened
from anchorbolt.util.plain import plain

V = TypeVar("V")

MAX_DEPTH = 64
"""The maximum nesting of a JSON value; msgpack has its own limit of 511."""

FIRST_VERSION = 1
LAST_VERSION = 65_535

# msgpack never uses the byte 0xC1, and no UTF-8 text, so no JSON, begins with it.
_TAG = b"\xc1v"
DUE_TAG = b"\xc1d"
"""The first bytes of a stored value that expires, see `state_backends.timed.expiry`."""
INDEX_TAG = b"\xc1t"
"""The first bytes of the stored keys of timers and of the index by time, see `state_backends.timed`."""
_TAG_BYTES = len(_TAG) + 2

_PICKLE = b"p"  # the first byte of our pickles; different from the first byte of a schema version's tag
_PICKLE_HEAD = len(_PICKLE) + 4
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,128}")


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

    def decode_many(self, parts: Sequence[bytes]) -> list[Any]:
        """Decode stored values one by one. Raises `SerializationError`."""
        return [self.decode(part) for part in parts]

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
    decode_many = staticmethod(unpack_many)


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


@dataclass(frozen=True)
class Schema:
    """The current schema of a bolt's values, and the function that converts older values."""

    version: int = FIRST_VERSION
    upcast: Callable[[Any, Any, int], Any] | None = None  # (key, value, version) to the value of the next version


SINGLE_SCHEMA = Schema()


def tagged(data: bytes, version: int) -> bytes:
    if version == FIRST_VERSION and not data.startswith((_TAG, DUE_TAG)):
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


def untagged_many(parts: Sequence[bytes]) -> Sequence[bytes]:
    """Return the encodings of stored values without their versions. Raises as `untagged`."""
    if _TAG not in b"".join(parts) or not any(part.startswith(_TAG) for part in parts):
        return parts
    return [untagged(part)[1] for part in parts]


class Serializer(ABC, Generic[V]):
    """Encodes keys or values of your own classes. The configuration refers to it by its dotted name.

    An instance is made without arguments on the driver and in every worker, and used by one thread. Exceptions of its
    methods are reported with the namespace, the key and this class. `loads` gets the result of `dumps`, or any other
    bytes from a damaged store: then it should raise, and never run code that the bytes name.

    For values: `loads` must return a new object, never one shared with other readers.

    For keys: equal keys must give equal bytes in every process and Python version, different keys must give different
    bytes, and `loads(dumps(key))` must equal `key`. A key's bytes are not empty. Each used key is checked, except that
    two equal keys of your own class give equal bytes: this cannot be checked.

    Attributes:
        name: Written to the format header of each namespace: `[A-Za-z0-9_.-]`, 1 to 128 characters. By default the
            dotted name of the class, so set it before you move or rename the class.
        version: Also written there; at least 1. Increase it when `loads` can no longer read the results of an older
            `dumps`: a namespace written under another version is refused.
    """

    name: str = ""
    version: int = 1

    @abstractmethod
    def dumps(self, value: V) -> bytes:
        """Encode a value. Raise any exception for an unsupported value; the state then does not change."""

    @abstractmethod
    def loads(self, data: bytes) -> V:
        """Decode the result of `dumps`."""


class SerializerCodec(Codec):
    """A user's `Serializer` as a codec: checks its results and translates its exceptions."""

    def __init__(self, kind: type[Serializer[Any]], key: str, *, for_keys: bool) -> None:
        """Create an instance of the user's class, the value of the configuration key `key`. Keys must be canonical.

        Raises `ConfigError` if it cannot be created, or its name or version cannot be written in a header.
        """
        self._made_of = (kind, key)
        self._for_keys = for_keys
        self._shown = shown = f"{kind.__module__}.{kind.__qualname__}"
        try:
            self._serializer = kind()
        except Exception as error:
            raise ConfigError(
                f"{key} is {shown}, which could not be made without arguments: {type(error).__name__}: {error}.",
                key=key,
            ) from error
        self.name = self._serializer.name or shown
        self.version = self._serializer.version
        named = isinstance(self.name, str) and _NAME.fullmatch(self.name) and self.name not in _OURS
        if not named or type(self.version) is not int or self.version < 1:
            raise ConfigError(
                f"{key} is {shown}, whose name is {self.name!r} and version {self.version!r}. The name must be 1 to "
                f"128 of the characters A-Z a-z 0-9 _ . - and none of {', '.join(_OURS)}; the version a whole number, "
                "at least 1.",
                key=key,
            )

    def __reduce__(self) -> tuple[Any, ...]:
        # Only the class is pickled: each process creates its own instance.
        return partial(SerializerCodec, for_keys=self._for_keys), self._made_of

    def encode(self, value: Any) -> bytes:
        data = self._dumps(value)
        if self._for_keys:
            self._check_canonical(value, data)
        return data

    def decode(self, data: bytes) -> Any:
        try:
            return self._serializer.loads(data)
        except Exception as error:
            raise SerializationError(
                f"{self._shown}.loads raised {type(error).__name__}: {error}, on {len(data)} bytes"
            ) from error

    def _dumps(self, value: Any) -> bytes:
        try:
            data = self._serializer.dumps(value)
        except Exception as error:
            raise UnsupportedValue(f"{self._shown}.dumps raised {type(error).__name__}: {error}") from error
        if type(data) is not bytes:
            raise UnsupportedValue(f"{self._shown}.dumps returned {type(data).__name__}. It must return bytes.")
        return data

    def _check_canonical(self, key: Any, data: bytes) -> None:
        if not data:
            raise UnsupportedValue(f"{self._shown}.dumps returned no bytes for a key. Return at least one.")
        if data.startswith(INDEX_TAG):
            raise UnsupportedValue(f"{self._shown}.dumps returned {INDEX_TAG!r} at the start of a key. It is reserved.")
        again = self.decode(data)
        if type(again) is not type(key) or again != key or self._dumps(again) != data:
            raise UnsupportedValue(
                f"{self._shown} is not canonical: loads(dumps(key)) gives another key, or one with other bytes. Equal "
                "keys must give equal bytes, and different keys different ones."
            )


class PickleCodec(Codec):
    """Python's pickle, for values only, and only if configured: who can write to the store can run code in workers.

    A checksum comes first, so that damaged bytes never reach the unpickler. It does not protect against forged bytes.
    """

    name = "pickle"
    version = 1

    def encode(self, value: Any) -> bytes:
        try:
            data = pickle.dumps(value, protocol=5)
        except Exception as error:  # whatever a user's __reduce__ or __getstate__ raises
            raise UnsupportedValue(
                f"a value of type {type(value).__name__} cannot be pickled: {type(error).__name__}: {error}"
            ) from error
        return _PICKLE + crc32(data).to_bytes(4, "big") + data

    def decode(self, data: bytes) -> Any:
        pickled = data[_PICKLE_HEAD:]
        if not pickled or data[:_PICKLE_HEAD] != _PICKLE + crc32(pickled).to_bytes(4, "big"):
            raise SerializationError(f"{len(data)} bytes are no pickle of a value: their checksum is wrong")
        try:
            return pickle.loads(pickled)  # noqa: S301 - the user chose it, and is warned at the start
        except Exception as error:  # whatever a user's __setstate__ raises, or the import of their module
            raise SerializationError(
                f"{len(pickled)} bytes cannot be unpickled: {type(error).__name__}: {error}"
            ) from error


_OURS: dict[str, type[Codec]] = {codec.name: codec for codec in (MsgpackCodec, JsonCodec, PickleCodec)}
_FOR_KEYS: dict[str, type[Codec]] = {codec.name: codec for codec in (MsgpackKeyCodec, JsonKeyCodec)}


def codec_named(name: str, key: str, *, for_keys: bool) -> Codec:
    """Return a new codec: `msgpack`, `json`, `pickle`, or the dotted name of a `Serializer` class.

    `key` is the configuration key with this value. Raises `ConfigError` if the codec is unknown or cannot be used.
    """
    if name == PickleCodec.name and for_keys:
        raise ConfigError(
            f"{key} is pickle, which is for values only: equal keys can have different pickles, so an entry would not "
            "be found again. Use msgpack or json, or a Serializer of yours.",
            key=key,
        )
    if name in _OURS:
        return (_FOR_KEYS if for_keys else _OURS)[name]()
    return SerializerCodec(load_class(name, Serializer, key), key, for_keys=for_keys)
