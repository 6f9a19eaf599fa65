"""Decodes a namespace's keys and values for inspection, with the codecs that its format header names.

If no known codec can decode a key or value, the result keeps the bytes and the reason. Values are unpickled only if the
configuration chooses pickle: unpickling runs code, and anyone who can write to the store could have put it there.
"""

import ast
import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.errors import SerializationError, StateError
from anchorbolt.serialization import Codec, JsonCodec, MsgpackCodec
from anchorbolt.serialization.schema import FIRST_VERSION, untagged
from anchorbolt.state_backends.encoding import EntryEncoding

_HEADER = re.compile(r"keys (\S+), values (\S+)")


@dataclass(frozen=True)
class Codecs:
    keys: Codec
    values: Codec


@dataclass(frozen=True)
class Decoded:
    data: bytes  # as stored
    value: Any = None
    problem: str = ""  # why it could not be decoded; empty if it was
    version: int = FIRST_VERSION  # schema version of a value

    @property
    def shown(self) -> Any:
        """The value, or the stored bytes if they could not be decoded."""
        return self.data if self.problem else self.value


@dataclass(frozen=True)
class Entry:
    """One entry; `value` is None for a key without a value."""

    key: Decoded
    value: Decoded | None


class _Decoder(NamedTuple):
    codec: Codec | None
    problem: str  # why no codec is known; empty if one is


class EntryDecoder:
    """Decodes the entries of one namespace; `notes` say why keys or values cannot be decoded."""

    def __init__(self, namespace: str, header: str, configured: Codecs) -> None:
        self._namespace = namespace
        match = _HEADER.fullmatch(header)
        if match:
            self._keys = _codec(match[1], configured.keys, "key")
            self._values = _codec(match[2], configured.values, "value")
        else:
            problem = f"the namespace has the unknown format header {header!r}"
            if header == CUSTOM_HEADER:
                problem = "the namespace belongs to a custom state, and has no entries"
            self._keys = self._values = _Decoder(None, problem)
        self.notes = tuple(dict.fromkeys(each.problem for each in (self._keys, self._values) if each.problem))

    def entry(self, key: bytes, value: bytes | None) -> Entry:
        return Entry(self.key(key), None if value is None else self.value(value))

    def key(self, data: bytes) -> Decoded:
        return _decoded(self._keys, data, data)

    def value(self, data: bytes) -> Decoded:
        """Decode a value as it was written; no `upcast` is applied."""
        try:
            version, encoded = untagged(data)
        except SerializationError as error:
            return Decoded(data, problem=str(error))
        return _decoded(self._values, data, encoded, version)

    def key_bytes(self, key: Any) -> bytes:
        """Encode a key. Raises `StateError` if the codec is unknown, `UnsupportedValue` if it cannot be a key."""
        if self._keys.codec is None:
            raise StateError(
                f"{self._namespace}: {self._keys.problem}. Give the stored key in hexadecimal digits, with --hex.",
                namespace=self._namespace,
            )
        encoding = EntryEncoding(self._namespace, self._keys.codec, MsgpackCodec())
        return encoding.key_bytes([encoding.cache_key(key)])[0]


def key_from_text(text: str) -> Any:
    r"""Return the key for a text on a command line.

    The text is parsed as JSON (`7`, `true`, `"7"`; a list is a tuple), or else as a Python literal (`('a', 1)`,
    `b'\x00'`). If it is neither, the key is the text itself.
    """
    try:
        return _hashable(json.loads(text, parse_constant=_refuse))
    except (ValueError, RecursionError):
        pass
    try:
        return _hashable(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # NaN and Infinity are not JSON; as keys they are text


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


def _codec(named: str, configured: Codec, what: str) -> _Decoder:
    for codec in (configured, MsgpackCodec(), JsonCodec()):
        if named == codec.header:
            return _Decoder(codec, "")
    problem = (
        f"its {what}s were written by {named!r}, but {what}SerializerClass in the given configuration is "
        f"{configured.header!r}"
    )
    if named.startswith("pickle/"):
        problem = (
            "its values are pickles, which can run code: they are shown as bytes, unless the given configuration sets "
            "valueSerializerClass to pickle"
        )
    return _Decoder(None, problem)


def _decoded(decoder: _Decoder, data: bytes, encoded: bytes, version: int = FIRST_VERSION) -> Decoded:
    if decoder.codec is None:
        return Decoded(data, problem=decoder.problem, version=version)
    try:
        return Decoded(data, decoder.codec.decode(encoded), version=version)
    except SerializationError as error:
        return Decoded(data, problem=str(error), version=version)
