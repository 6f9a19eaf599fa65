"""What Storm kept, as a tree of small immutable objects that lose nothing.

    JavaNull JavaString JavaBoolean JavaCharacter JavaInteger JavaFloat JavaBytes JavaDecimal JavaDate JavaUuid
    JavaEnum  JavaObject (without fields)
    JavaCollection (lists, queues, sets, arrays)  JavaMap  JavaOptional
    CheckPointState   Storm's own, of its checkpoint spout
    Tombstone         no value: the mark of a deleted key
    Cycle             the collection holds itself, here

An object that Kryo wrote once and referred to later is one object here, and stands in the JSON form as often as it
occurs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from anchorbolt.storm.kryo.java_value import JavaValue
from anchorbolt.storm.kryo.simple_values import (
    NULL,
)


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

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
        start, end = ("{", "}") if self.kind == "set" else ("[", "]")
        yield start
        for number, item in enumerate(self.items):
            if number:
                yield ", "
            yield from item.pieces()
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

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
        yield "{"
        for number, (key, value) in enumerate(self.items):
            if number:
                yield ", "
            yield from key.pieces()
            yield ": "
            yield from value.pieces()
        yield "}"


@dataclass(frozen=True)
class JavaOptional(JavaValue):
    """A java.util.Optional; `value` is None where it is empty."""

    value: JavaValue | None

    def to_json(self) -> dict[str, Any]:
        """Return the typed form."""
        value = NULL if self.value is None else self.value
        return {"t": "optional", "v": value.to_json(), "present": self.value is not None}

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
        yield "Optional("
        if self.value is not None:
            yield from self.value.pieces()
        yield ")"
