"""The codecs that a configuration can choose for keys and values: one of ours, or a user's `Serializer`."""

import pickle
import re
from abc import ABC, abstractmethod
from functools import partial
from typing import Any, Generic, TypeVar
from zlib import crc32

from anchorbolt.errors import ConfigError, SerializationError, UnsupportedValue
from anchorbolt.serialization.codecs import Codec, JsonCodec, JsonKeyCodec, MsgpackCodec, MsgpackKeyCodec
from anchorbolt.util.imports import load_class

V = TypeVar("V")

_PICKLE = b"p"  # the first byte of our pickles; different from the first byte of a schema version's tag
_PICKLE_HEAD = len(_PICKLE) + 4
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,128}")


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
