"""What Storm kept, as a tree of small immutable objects that lose nothing: each knows its Java class.

Every one has a JSON form, `to_json`, whose `t` says the type, and a short text for people, `describe`:

    JavaNull JavaString JavaBoolean JavaCharacter JavaInteger JavaFloat JavaBytes JavaDecimal JavaDate JavaUuid
    JavaCollection (lists, queues, sets, arrays)  JavaMap  JavaOptional  JavaEnum  JavaObject (without fields)
    CheckPointState   Storm's own, of its checkpoint spout
    Tombstone         no value: the mark of a deleted key
    Cycle             the collection holds itself, here

An object that Kryo wrote once and referred to later is one object here, and stands in the JSON form as often as it
occurs.
"""

from __future__ import annotations

import base64
import datetime as dt
import struct
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from anchorbolt.serialization.storm_kryo.java_text import decimal_text, double_text, float_text

__all__ = [
    "NULL",
    "CheckPointState",
    "Cycle",
    "JavaBoolean",
    "JavaBytes",
    "JavaCharacter",
    "JavaCollection",
    "JavaDate",
    "JavaDecimal",
    "JavaEnum",
    "JavaFloat",
    "JavaInteger",
    "JavaMap",
    "JavaNull",
    "JavaObject",
    "JavaOptional",
    "JavaString",
    "JavaUuid",
    "JavaValue",
    "Tombstone",
]

_EPOCH = dt.datetime(1970, 1, 1)
_LONGEST_TEXT = 200


class JavaValue(ABC):
    """A value of Java's, as it was kept."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the typed form, of plain dicts, lists, strings, numbers and booleans only; docs/storm_bytes.md."""

    def describe(self, limit: int = _LONGEST_TEXT) -> str:
        """Return a text for people, at most `limit` characters of it. It may not tell types apart."""
        text = ""
        for piece in self._pieces():
            text += piece[: limit + 1]
            if len(text) > limit:
                return text[:limit] + "…"
        return text

    def __str__(self) -> str:
        return self.describe()

    @abstractmethod
    def _pieces(self) -> Iterator[str]:
        """Yield the whole text in pieces, so that `describe` need not go through all of a large collection."""


@dataclass(frozen=True)
class JavaNull(JavaValue):
    """Null."""

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "null"}

    def _pieces(self) -> Iterator[str]:
        yield "null"


NULL = JavaNull()


@dataclass(frozen=True)
class Tombstone(JavaValue):
    """Storm's mark that the key was deleted: not a value."""

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "tombstone"}

    def _pieces(self) -> Iterator[str]:
        yield "(deleted)"


@dataclass(frozen=True)
class Cycle(JavaValue):
    """The place where a collection holds itself, or one that it is in."""

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "cycle"}

    def _pieces(self) -> Iterator[str]:
        yield "(cycle)"


@dataclass(frozen=True)
class JavaString(JavaValue):
    """Text.

    Attributes:
        value: The text; may hold lone surrogates.
        class_name: String, StringBuilder or StringBuffer.
    """

    value: str
    class_name: str = "java.lang.String"

    def to_json(self) -> dict[str, Any]:
        """Return the typed form; it names the class only where it is not String."""
        form = {"t": "string", "v": self.value}
        return form if self.class_name == "java.lang.String" else {**form, "class": self.class_name}

    def _pieces(self) -> Iterator[str]:
        yield repr(self.value if len(self.value) < 10_000 else self.value[:10_000])


@dataclass(frozen=True)
class JavaBoolean(JavaValue):
    """A Boolean."""

    value: bool

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "boolean", "v": self.value}

    def _pieces(self) -> Iterator[str]:
        yield "true" if self.value else "false"


@dataclass(frozen=True)
class JavaCharacter(JavaValue):
    """A Character: one unit of UTF-16, by its code."""

    code: int

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "char", "v": chr(self.code), "code": self.code}

    def _pieces(self) -> Iterator[str]:
        yield repr(chr(self.code))


@dataclass(frozen=True)
class JavaInteger(JavaValue):
    """A whole number.

    Attributes:
        kind: Its type, as in the JSON form: int, long, short, byte or biginteger.
        value: The number.
    """

    kind: str
    value: int

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": self.kind, "v": str(self.value)}

    def _pieces(self) -> Iterator[str]:
        yield str(self.value)


@dataclass(frozen=True)
class JavaFloat(JavaValue):
    """A Double or Float.

    Attributes:
        kind: double or float.
        bits: Its IEEE 754 bits, so that each NaN and zero stays what it was.
    """

    kind: str
    bits: int

    @property
    def value(self) -> float:
        """The number."""
        layout, size = (">d", 8) if self.kind == "double" else (">f", 4)
        number: float = struct.unpack(layout, self.bits.to_bytes(size, "big"))[0]
        return number

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {
            "t": self.kind,
            "v": self.describe(),
            "bits": f"{self.bits:0{16 if self.kind == 'double' else 8}x}",
        }

    def _pieces(self) -> Iterator[str]:
        yield double_text(self.bits) if self.kind == "double" else float_text(self.bits)


@dataclass(frozen=True)
class JavaBytes(JavaValue):
    """A byte array."""

    value: bytes

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "bytes", "v": base64.b64encode(self.value).decode()}

    def _pieces(self) -> Iterator[str]:
        yield f"bytes[{len(self.value)}] "
        yield self.value[:1000].hex()


@dataclass(frozen=True)
class JavaDecimal(JavaValue):
    """A BigDecimal: `unscaled` times ten to the power of minus `scale`."""

    unscaled: int
    scale: int

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {
            "t": "bigdecimal",
            "v": decimal_text(self.unscaled, self.scale),
            "unscaled": str(self.unscaled),
            "scale": self.scale,
        }

    def _pieces(self) -> Iterator[str]:
        yield decimal_text(self.unscaled, self.scale)


@dataclass(frozen=True)
class JavaDate(JavaValue):
    """A java.util.Date: milliseconds since 1970 in UTC."""

    millis: int

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "date", "v": str(self.millis)}

    def _pieces(self) -> Iterator[str]:
        try:
            yield f"{(_EPOCH + dt.timedelta(milliseconds=self.millis)).isoformat(timespec='milliseconds')}Z"
        except OverflowError:  # Java's years go on where Python's end
            yield f"{self.millis} ms since 1970"


@dataclass(frozen=True)
class JavaUuid(JavaValue):
    """A java.util.UUID."""

    value: uuid.UUID

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "uuid", "v": str(self.value)}

    def _pieces(self) -> Iterator[str]:
        yield str(self.value)


@dataclass(frozen=True)
class JavaCollection(JavaValue):
    """A list, queue, set or array.

    Attributes:
        kind: list (a queue, too), set or array.
        class_name: Its class; an array's in Java's notation, such as `[I` or `[Ljava.lang.String;`.
        items: What it holds, in the order in which it was written.
    """

    kind: str
    class_name: str
    items: tuple[JavaValue, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": self.kind, "class": self.class_name, "v": [item.to_json() for item in self.items]}

    def _pieces(self) -> Iterator[str]:
        start, end = ("{", "}") if self.kind == "set" else ("[", "]")
        yield start
        for number, item in enumerate(self.items):
            if number:
                yield ", "
            yield from item._pieces()
        yield end


@dataclass(frozen=True)
class JavaMap(JavaValue):
    """A map.

    Attributes:
        class_name: Its class.
        items: Pairs of key and value, in the order in which they were written.
    """

    class_name: str
    items: tuple[tuple[JavaValue, JavaValue], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        pairs = [[key.to_json(), value.to_json()] for key, value in self.items]
        return {"t": "map", "class": self.class_name, "v": pairs}

    def _pieces(self) -> Iterator[str]:
        yield "{"
        for number, (key, value) in enumerate(self.items):
            if number:
                yield ", "
            yield from key._pieces()
            yield ": "
            yield from value._pieces()
        yield "}"


@dataclass(frozen=True)
class JavaOptional(JavaValue):
    """A java.util.Optional; `value` is None where it is empty."""

    value: JavaValue | None

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        value = NULL if self.value is None else self.value
        return {"t": "optional", "v": value.to_json(), "present": self.value is not None}

    def _pieces(self) -> Iterator[str]:
        yield "Optional("
        if self.value is not None:
            yield from self.value._pieces()
        yield ")"


@dataclass(frozen=True)
class JavaEnum(JavaValue):
    """A constant of an enum.

    Attributes:
        class_name: Its class; of a constant with a body, that is one of its own, such as `Colour$1`.
        ordinal: Which constant it is, from 0: all that the bytes hold.
        name: The constant's name, or None where it is not known.
    """

    class_name: str
    ordinal: int
    name: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the typed form; `v` is None where the name is not known."""
        return {"t": "enum", "class": self.class_name, "v": self.name, "ordinal": self.ordinal}

    def _pieces(self) -> Iterator[str]:
        yield f"{self.class_name}.{self.name}" if self.name else f"{self.class_name}#{self.ordinal}"


@dataclass(frozen=True)
class JavaObject(JavaValue):
    """An object whose class has no fields, such as the comparator of a sorted collection."""

    class_name: str

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "object", "class": self.class_name, "fields": {}}

    def _pieces(self) -> Iterator[str]:
        yield f"{self.class_name}()"


@dataclass(frozen=True)
class CheckPointState(JavaValue):
    """What Storm's checkpoint spout keeps: where the topology's checkpoint stands.

    Attributes:
        txid: The transaction.
        state: COMMITTED, COMMITTING or PREPARING.
    """

    txid: int
    state: str

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "checkpointstate", "txid": str(self.txid), "state": self.state}

    def _pieces(self) -> Iterator[str]:
        yield f"{self.state} {self.txid}"
