"""Decodes a namespace's keys and values for inspection, with the codecs that its format header names.

If no known codec can decode a key or value, the result keeps the bytes and the reason. Values are unpickled only if the
configuration chooses pickle: unpickling runs code, and anyone who can write to the store could have put it there.
"""

import ast
import json
import re
from dataclasses import dataclass
from typing import Any

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.errors import SerializationError, StateError
from anchorbolt.serialization import Codec, JsonCodec, MsgpackCodec
from anchorbolt.serialization.schema import FIRST_VERSION, untagged
from anchorbolt.state_backends.encoding import EntryEncoding

_HEADER = re.compile(r"keys (\S+), values (\S+)")


@dataclass(frozen=True)
class Codecs:
    """The configured codecs."""

    keys: Codec
    values: Codec


@dataclass(frozen=True)
class Decoded:
    """A decoded key or value."""

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


class EntryDecoder:
    """Decodes the entries of one namespace; `notes` say why keys or values cannot be decoded."""

    def __init__(self, namespace: str, header: str, configured: Codecs) -> None:
        self._namespace = namespace
        match = _HEADER.fullmatch(header)
        named = match.groups() if match else ("", "")
        self._keys, key_problem = _codec(named[0], configured.keys, "key")
        self._values, value_problem = _codec(named[1], configured.values, "value")
        if header == CUSTOM_HEADER:
            key_problem = value_problem = "the namespace belongs to a custom state, and has no entries"
        elif not match:
            key_problem = value_problem = f"the namespace has the unknown format header {header!r}"
        self._problems = key_problem, value_problem
        self.notes = tuple(dict.fromkeys(problem for problem in self._problems if problem))

    def entry(self, key: bytes, value: bytes | None) -> Entry:
        return Entry(self.key(key), None if value is None else self.value(value))

    def key(self, data: bytes) -> Decoded:
        return _decoded(self._keys, self._problems[0], data, data, FIRST_VERSION)

    def value(self, data: bytes) -> Decoded:
        """Decode a value as it was written; no `upcast` is applied."""
        try:
            version, encoded = untagged(data)
        except SerializationError as error:
            return Decoded(data, problem=str(error))
        return _decoded(self._values, self._problems[1], data, encoded, version)

    def key_bytes(self, key: Any) -> bytes:
        """Encode a key. Raises `StateError` if the codec is unknown, `UnsupportedValue` if it cannot be a key."""
        if self._keys is None:
            raise StateError(
                f"{self._namespace}: {self._problems[0]}. Give the stored key in hexadecimal digits, with --hex.",
                namespace=self._namespace,
            )
        encoding = EntryEncoding(self._namespace, self._keys, MsgpackCodec())
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


def _codec(named: str, configured: Codec, what: str) -> tuple[Codec | None, str]:
    if named == configured.header:
        return configured, ""
    for ours in (MsgpackCodec(), JsonCodec()):
        if named == ours.header:
            return ours, ""
    name = named.rpartition("/")[0]
    if name == "pickle":
        return None, (
            "its values are pickles, which can run code: they are shown as bytes, unless the given configuration sets "
            "valueSerializerClass to pickle"
        )
    return None, (
        f"its {what}s were written by {named!r}, but {what}SerializerClass in the given configuration is "
        f"{configured.header!r}"
    )


def _decoded(codec: Codec | None, problem: str, data: bytes, encoded: bytes, version: int) -> Decoded:
    if codec is None:
        return Decoded(data, problem=problem, version=version)
    try:
        return Decoded(data, codec.decode(encoded), version=version)
    except SerializationError as error:
        return Decoded(data, problem=str(error), version=version)
