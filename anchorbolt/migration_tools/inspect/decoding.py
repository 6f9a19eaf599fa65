"""A namespace's bytes as values, for who looks into a store: by the codecs that its format header names.

What no codec at hand can decode stays bytes, with the reason; nothing is guessed. A pickle is unpickled only where the
configuration chose pickle, since whoever can write to the store could otherwise run code in the looker's process.
"""

from __future__ import annotations

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
    """What the configuration chooses for keys and values."""

    keys: Codec
    values: Codec


@dataclass(frozen=True)
class Decoded:
    """A key or a value.

    Attributes:
        data: As it is stored.
        value: What it means; None where it could not be decoded.
        problem: Why it could not be decoded; empty where it was.
        version: The schema version that a value was written under.
    """

    data: bytes
    value: Any = None
    problem: str = ""
    version: int = FIRST_VERSION


@dataclass(frozen=True)
class Entry:
    """One entry; `value` is None for a key that the namespace does not hold."""

    key: Decoded
    value: Decoded | None


class EntryDecoder:
    """Decodes the entries of one namespace.

    Attributes:
        notes: What cannot be decoded in it and why, for people; empty where all can.
    """

    def __init__(self, namespace: str, header: str, configured: Codecs) -> None:
        """Choose the codecs that `header`, the namespace's format header, names."""
        self._namespace = namespace
        match = _HEADER.fullmatch(header)
        named = match.groups() if match else ("", "")
        self._keys, key_problem = _codec(named[0], configured.keys, "key")
        self._values, value_problem = _codec(named[1], configured.values, "value")
        if header == CUSTOM_HEADER:
            key_problem = value_problem = "the namespace stands beside a custom state, and holds no entries"
        elif not match:
            key_problem = value_problem = f"the namespace has the format header {header!r}, which is not ours"
        self._problems = key_problem, value_problem
        self.notes = tuple(dict.fromkeys(problem for problem in self._problems if problem))

    def entry(self, key: bytes, value: bytes | None) -> Entry:
        """Decode one entry; `value` is None where there is none."""
        return Entry(self.key(key), None if value is None else self.value(value))

    def key(self, data: bytes) -> Decoded:
        """Decode a key."""
        return _decoded(self._keys, self._problems[0], data, data, FIRST_VERSION)

    def value(self, data: bytes) -> Decoded:
        """Decode a value as it was written; no `upcast` is applied."""
        try:
            version, encoded = untagged(data)
        except SerializationError as error:
            return Decoded(data, problem=str(error))
        return _decoded(self._values, self._problems[1], data, encoded, version)

    def key_bytes(self, key: Any) -> bytes:
        """Encode a key as the namespace does.

        Raises:
            StateError: No codec at hand can.
            UnsupportedValue: It cannot be a key here.
        """
        if self._keys is None:
            raise StateError(
                f"{self._namespace}: {self._problems[0]}. Give the key as it is stored: --hex, and hexadecimal digits.",
                namespace=self._namespace,
            )
        encoding = EntryEncoding(self._namespace, self._keys, MsgpackCodec())
        return encoding.key_bytes([encoding.cache_key(key)])[0]


def key_from_text(text: str) -> Any:
    r"""Return the key that a text on a command line means.

    JSON is read as JSON (`7`, `true`, `"7"`), a list as a tuple; else a literal of Python's as that (`('a', 1)`,
    `b'\x00'`); all else is the text itself.
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
    raise ValueError(constant)  # NaN and Infinity are no JSON, but words that a key may be


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
            "its values are pickles, and a pickle can run code: they are shown as bytes, unless valueSerializerClass "
            "is pickle in the configuration given"
        )
    return None, (
        f"its {what}s were written by {named!r}, and {what}SerializerClass is {configured.header!r} in the "
        "configuration given"
    )


def _decoded(codec: Codec | None, problem: str, data: bytes, encoded: bytes, version: int) -> Decoded:
    if codec is None:
        return Decoded(data, problem=problem, version=version)
    try:
        return Decoded(data, codec.decode(encoded), version=version)
    except SerializationError as error:
        return Decoded(data, problem=str(error), version=version)
