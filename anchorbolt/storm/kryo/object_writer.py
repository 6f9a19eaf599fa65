"""Writes the grammar of a Kryo stream, as `object_reader` describes it. `Kind` writes the data of each class.

It writes exactly the bytes that Kryo writes for an equal object: Storm finds a key by its bytes.
"""

from __future__ import annotations

from typing import NoReturn

from anchorbolt.errors import SerializationError
from anchorbolt.storm.kryo.byte_streams import ByteWriter
from anchorbolt.storm.kryo.object_reader import Kind, Layout
from anchorbolt.storm.kryo.values import NULL, JavaCollection, JavaScalar, JavaValue

# The classes of scalars that do not hold the name of their class.
CLASSES = {
    **{
        tag: f"java.lang.{box}"
        for tag, box in (
            *(("int", "Integer"), ("long", "Long"), ("short", "Short"), ("byte", "Byte")),
            *(("char", "Character"), ("float", "Float"), ("double", "Double"), ("boolean", "Boolean")),
        )
    },
    "bytes": "[B",
    "biginteger": "java.math.BigInteger",
    "bigdecimal": "java.math.BigDecimal",
    "date": "java.util.Date",
    "uuid": "java.util.UUID",
    "checkpointstate": "org.apache.storm.spout.CheckPointState",
}
_TEXTS = ("java.lang.String", "java.lang.StringBuilder", "java.lang.StringBuffer")
_NULL_TEXT = 0x80


class ObjectWriter:
    """Writes one stream."""

    def __init__(self, layout: Layout) -> None:
        """`layout.kind_named` must return a kind for the class of each enum constant."""
        self.bytes = ByteWriter(kryo_5=layout.kryo_5)
        self.layout = layout
        self.own_ids_used = False  # whether a class had an id that is not Kryo's own
        self._names: dict[str, int] = {}
        self._numbers: dict[int, int] = {}  # of the objects that a later reference may point to, by `id`
        self._open: list[JavaValue] = []  # the objects that are being written

    def class_and_object(self, value: JavaValue) -> None:
        """Write a class and an object of it, or null."""
        if value is NULL:
            self.bytes.unsigned(0)
        else:
            name = self.class_of(value)
            self.class_name(name)
            self.object(value, self.kind(name))

    def class_of(self, value: JavaValue) -> str:
        """Return the Java class of an object."""
        if isinstance(value, JavaScalar):
            if value.tag == "cycle":
                return self.class_of(self._cycle(value))
            return CLASSES.get(value.tag) or value.class_name
        assert isinstance(value, JavaCollection)
        return value.class_name

    def class_name(self, name: str) -> None:
        """Write the id or name of a class."""
        number = self.layout.numbers.get(name)
        if number is not None:
            self.own_ids_used |= number >= self.layout.own_ids
            self.bytes.unsigned(number + 2)
            return
        self.bytes.unsigned(1)
        index = self._names.get(name)
        if index is not None:
            self.bytes.unsigned(index)
            return
        self.bytes.unsigned(len(self._names))
        self._names[name] = len(self._names)
        self.bytes.class_name(name)

    def kind(self, class_name: str) -> Kind:
        kind = self.layout.kind_named(class_name, self.layout)
        if kind is None:
            self.fail(f"objects of the Java class {class_name!r} cannot be written")
        return kind

    def object(self, value: JavaValue, kind: Kind, *, nullable: bool = False) -> None:
        """Write an object after its class. `nullable`: whether Kryo writes it as an object that may be null."""
        if self.layout.kryo_5:
            self._unmarked(value, kind, nullable)
        else:
            self._marked(value, kind, nullable)

    def fail(self, problem: str) -> NoReturn:
        raise SerializationError(f"Storm cannot keep the value: {problem}")

    def _marked(self, value: JavaValue, kind: Kind, nullable: bool) -> None:
        if kind.boxed:
            if nullable:
                self.bytes.data.append(value is not NULL)
            if value is not NULL:
                kind.write(self, value)
            return
        number = 0 if value is NULL else self._number(value)
        if number is not None:
            self.bytes.unsigned(number)
            return
        self._numbers[id(value)] = len(self._numbers)
        self.bytes.unsigned(1)
        self._open.append(value)
        kind.write(self, value)
        self._open.pop()

    def _number(self, value: JavaValue) -> int | None:
        """Return the marker of an object that was written before."""
        if isinstance(value, JavaScalar) and value.tag == "cycle":
            value = self._cycle(value)
        number = self._numbers.get(id(value))
        return None if number is None else number + 2

    def _unmarked(self, value: JavaValue, kind: Kind, nullable: bool) -> None:
        if nullable and kind.has_null:
            if value is NULL:
                self.bytes.data.append(_NULL_TEXT if kind.class_name in _TEXTS else 0)
                return
        elif nullable:
            self.bytes.data.append(value is not NULL)
            if value is NULL:
                return
        kind.write(self, value)

    def _cycle(self, value: JavaScalar) -> JavaValue:
        """Return the collection that a cycle stands for."""
        if self.layout.kryo_5:
            self.fail("it contains itself, which Storm 2.6 and later cannot write")
        levels: int = value.value
        return self._open[-1 - levels]
