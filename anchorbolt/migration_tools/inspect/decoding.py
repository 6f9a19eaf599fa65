"""Decodes a namespace's keys and values for inspection, with the codecs that its format header names.

If no known codec can decode a key or value, the result keeps the bytes and the reason. Values are unpickled only if the
configuration chooses pickle: unpickling runs code, and anyone who can write to the store may have written it.
"""

import re
from dataclasses import dataclass
from typing import Any

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.errors import SerializationError, StateError
from anchorbolt.serialization.codecs import Codec, JsonCodec, JsonKeyCodec, MsgpackCodec, MsgpackKeyCodec
from anchorbolt.serialization.schema import FIRST_VERSION, untagged
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.tracking.stored_trees import OpenTreeCodec, RootCodec

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
    prepared: bool | None = None  # for an entry of Storm: whether it is in `ns$prepare`


class EntryDecoder:
    """Decodes the entries of one namespace; `notes` say why keys or values cannot be decoded."""

    def __init__(self, namespace: str, header: str, configured: Codecs) -> None:
        self._namespace = namespace
        self._keys: Codec | str = configured.keys
        self._values: Codec | str = configured.values
        if match := _HEADER.fullmatch(header):
            self._keys = _codec(match[1], configured.keys, "key")
            self._values = _codec(match[2], configured.values, "value")
        elif header:  # without a header, the namespace has no entries yet
            self._keys = self._values = f"the namespace has the unknown format header {header!r}"
            if header == CUSTOM_HEADER:
                self._keys = self._values = "the namespace belongs to a custom state, and has no entries"
        self.notes = tuple(dict.fromkeys(each for each in (self._keys, self._values) if isinstance(each, str)))

    def entry(self, key: bytes, value: bytes | None) -> Entry:
        """Decode an entry without applying `upcast`."""
        shown_value = None if value is None else _decoded(self._values, value, is_tagged=True)
        return Entry(_decoded(self._keys, key, is_tagged=False), shown_value)

    def key_bytes(self, key: Any) -> bytes:
        """Encode a key. Raises `StateError` if the codec is unknown, `UnsupportedValue` if it cannot be a key."""
        if isinstance(self._keys, str):
            raise StateError(
                f"{self._namespace}: {self._keys}. Give the stored key in hexadecimal digits, with --hex.",
                namespace=self._namespace,
            )
        encoding = EntryEncoding(self._namespace, self._keys, MsgpackCodec())
        return encoding.key_bytes([encoding.cache_key(key)])[0]


def _codec(named: str, configured: Codec, what: str) -> Codec | str:
    """Return the codec of a name, or the reason why none is known."""
    ours = (MsgpackKeyCodec(), MsgpackCodec(), JsonKeyCodec(), JsonCodec(), RootCodec(), OpenTreeCodec())
    for codec in (configured, *ours):
        if named == codec.header:
            return codec
    if named.startswith("pickle/"):
        return (
            "its values are pickles, which can run code: they are shown as bytes, unless the given configuration sets "
            "valueSerializerClass to pickle"
        )
    return (
        f"its {what}s were written by {named!r}, but {what}SerializerClass in the given configuration is "
        f"{configured.header!r}"
    )


def _decoded(codec: Codec | str, data: bytes, *, is_tagged: bool) -> Decoded:
    version, encoded = FIRST_VERSION, data
    try:
        if is_tagged:
            version, encoded = untagged(data)
        if isinstance(codec, str):
            return Decoded(data, problem=codec, version=version)
        return Decoded(data, codec.decode(encoded), version=version)
    except SerializationError as error:
        return Decoded(data, problem=str(error), version=version)
