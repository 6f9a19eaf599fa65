"""Values of Storm's that hold no others: immutable, equal by what they are, losing nothing of what the bytes say."""

from __future__ import annotations

import base64
import datetime as dt
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from anchorbolt.storm.kryo.java_text import decimal_text, double_text, float_text
from anchorbolt.storm.kryo.java_value import JavaValue

_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class JavaNull(JavaValue):
    """Null."""

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "null"}

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
        yield "null"


NULL = JavaNull()


@dataclass(frozen=True)
class Tombstone(JavaValue):
    """Storm's mark that the key was deleted: not a value."""

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "tombstone"}

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
        yield "(deleted)"


@dataclass(frozen=True)
class Cycle(JavaValue):
    """The place where a collection holds itself, or one that it is in."""

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "cycle"}

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
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

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
        yield repr(self.value if len(self.value) < 10_000 else self.value[:10_000])


@dataclass(frozen=True)
class JavaBoolean(JavaValue):
    """A Boolean."""

    value: bool

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "boolean", "v": self.value}

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
        yield "true" if self.value else "false"


@dataclass(frozen=True)
class JavaCharacter(JavaValue):
    """A Character: one unit of UTF-16, by its code."""

    code: int

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "char", "v": chr(self.code), "code": self.code}

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
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

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
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

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
        yield double_text(self.bits) if self.kind == "double" else float_text(self.bits)


@dataclass(frozen=True)
class JavaBytes(JavaValue):
    """A byte array."""

    value: bytes

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "bytes", "v": base64.b64encode(self.value).decode()}

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
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

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
        yield decimal_text(self.unscaled, self.scale)


@dataclass(frozen=True)
class JavaDate(JavaValue):
    """A java.util.Date: milliseconds since 1970 in UTC."""

    millis: int

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "date", "v": str(self.millis)}

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
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

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
        yield str(self.value)


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

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
        yield f"{self.class_name}.{self.name}" if self.name else f"{self.class_name}#{self.ordinal}"


@dataclass(frozen=True)
class JavaObject(JavaValue):
    """An object whose class has no fields, such as the comparator of a sorted collection."""

    class_name: str

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        return {"t": "object", "class": self.class_name, "fields": {}}

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
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

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
        yield f"{self.state} {self.txid}"
