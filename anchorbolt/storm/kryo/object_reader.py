"""Reads the grammar of a Kryo stream: classes by id or name, null, references. `Kind` reads the data of each class.

Kryo 3 and 4 put a marker before each object that is not a boxed primitive: 0 for null, 1 for a new object, n + 2 for
the n-th object of this stream. Kryo 5, as Storm configures it, has no references: it writes an object as often as it
occurs. Before an object that may be null it writes a byte 0 or 1, unless the class has its own form of null.

No count is trusted: memory is allocated only for bytes that exist. Two limits protect against hostile bytes: the
depth of nested objects (64), and the number of objects after each reference is expanded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, TypeAlias

from anchorbolt.errors import UnsupportedJavaClass
from anchorbolt.storm.kryo.byte_streams import ByteReader
from anchorbolt.storm.kryo.values import NULL, JavaScalar, JavaValue, is_constant

MAX_DEPTH = 64  # of nested objects
_MORE_OBJECTS_THAN_BYTES = 100_000
_LONGEST_NAME = 300


Reader: TypeAlias = "Callable[[ObjectReader, str], JavaValue | None]"
Writer: TypeAlias = "Callable[[Any, Any], None]"  # gets an `ObjectWriter` and a value


class ReadWrite(NamedTuple):
    """How the data of an object are read and written."""

    read: Reader
    write: Writer


@dataclass(frozen=True)
class Kind:
    """Kryo's encoding of the objects of a class."""

    class_name: str
    read: Reader  # reads the bytes after class and marker; returns None if they say null
    write: Writer  # writes them; never called for null
    boxed: bool = False  # a boxed primitive, which never has a marker
    has_null: bool = False  # in Kryo 5 the class writes null itself, so no byte 0 or 1 precedes it
    final: bool = False  # no class extends it, so its arrays do not name the classes of the elements


@dataclass(frozen=True)
class Layout:
    """The facts that the bytes of a stream do not contain."""

    kryo_5: bool  # otherwise Kryo 3 or 4
    ids: Sequence[str | None]  # the class of each id; None if no object has the id
    own_ids: int  # the first id that is not Kryo's own
    kind_named: Callable[[str, Layout], Kind | None]  # returns None for an unknown class
    enums: Mapping[str, Sequence[str]]  # constants by class

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The id of each class that has one."""
        return {name: number for number, name in enumerate(self.ids) if name is not None}


@dataclass
class _Seen:
    """An object that a later reference may point to. It has no value while it is being read."""

    class_name: str
    value: JavaValue | None = None
    count: int = 0
    height: int = 0


class ObjectReader:
    """Reads one stream."""

    def __init__(self, data: bytes, layout: Layout) -> None:
        self.bytes = ByteReader(data, little_endian=layout.kryo_5)
        self.layout = layout
        self.own_ids_used = False  # whether a class had an id that is not Kryo's own
        self.opaque: list[str] = []  # classes of objects that were skipped by their length
        self._names: list[str] = []
        self._kinds: dict[str, Kind] = {}
        self._objects: list[_Seen] = []
        self._open: list[int] = []  # the objects that are being read, as indexes of `_objects`
        self._constants: dict[JavaValue, JavaValue] = {}
        self._depth = 0
        self._reached = 0  # the depth of the deepest object inside the current one
        self._count = 0
        self._most = len(data) + _MORE_OBJECTS_THAN_BYTES

    def whole(self) -> JavaValue:
        """Read the only object of the stream, to the last byte."""
        value = self.class_and_object()
        if self.bytes.remaining:
            self.bytes.fail(f"{self.bytes.remaining} bytes too many")
        return value

    def class_and_object(self) -> JavaValue:
        """Read a class and an object of it, or null."""
        name = self.class_name()
        if name is None:
            self.counted(1)
            return NULL
        return self.object(self.kind(name))

    def object(self, kind: Kind, *, nullable: bool = False) -> JavaValue:
        """Read an object after its class. `nullable`: whether Kryo wrote it as an object that may be null."""
        self.counted(1)
        self._depth += 1
        self._reach(self._depth)
        value = self._unmarked(kind, nullable) if self.layout.kryo_5 else self._marked(kind, nullable)
        self._depth -= 1
        return value

    def content(self, kind: Kind) -> JavaValue:
        """Read the data of an object after its class and marker."""
        value = kind.read(self, kind.class_name)
        if value is None:
            self.bytes.fail(f"null where a {kind.class_name[:_LONGEST_NAME]} should be")
        return value

    def class_name(self) -> str | None:
        """Read the id or name of a class; None means a null object."""
        number = self.bytes.unsigned()
        if number == 0:
            return None
        if number > 1:
            return self._registered(number - 2)
        index = self.bytes.unsigned()
        if index > len(self._names):
            self.bytes.fail(f"name {index} of {len(self._names)}")
        if index == len(self._names):
            name = self.bytes.string()
            if not name or " " in name or not name.isprintable():
                self.bytes.fail("a class without a name that a class can have")
            self._names.append(name)
        return self._names[index]

    def kind(self, class_name: str) -> Kind:
        kind = self._kinds.get(class_name) or self.layout.kind_named(class_name, self.layout)
        if kind is None:
            self.unsupported(class_name)
        self._kinds[class_name] = kind
        return kind

    def unsupported(self, class_name: str) -> NoReturn:
        shown = repr(class_name[:_LONGEST_NAME])
        raise UnsupportedJavaClass(
            f"an object is of the Java class {shown}, which cannot be read without its code (docs/storm_bytes.md lists "
            "the classes that can). If it is an enum, name its constants in their order; otherwise let a program that "
            "has the class write the object in another form",
            java_class=class_name[:_LONGEST_NAME],
        )

    def counted(self, objects: int) -> None:
        """Count objects before reading them, and refuse too many."""
        self._count += objects
        if self._count > self._most:
            self.bytes.fail(f"more than {self._most} objects after each reference is expanded")

    def _registered(self, number: int) -> str:
        self.own_ids_used |= number >= self.layout.own_ids
        name = self.layout.ids[number] if number < len(self.layout.ids) else None
        if name is None:
            raise UnsupportedJavaClass(
                f"an object is of the class with the id {number}, which no known class has. Name the "
                "classes that Storm's configuration registers: keyClass, valueClass, topology.state.kryo.register",
                java_class=f"id {number}",
                class_id=number,
            )
        return name

    def _marked(self, kind: Kind, nullable: bool) -> JavaValue:
        if kind.boxed:
            return self.content(kind) if not nullable or self.bytes.boolean() else NULL
        marker = self.bytes.unsigned()
        if marker == 0 and nullable:
            return NULL
        if marker != 1:
            return self._referred(marker - 2, kind)
        seen = _Seen(kind.class_name)
        self._open.append(len(self._objects))
        self._objects.append(seen)
        before, outside = self._count, self._reached
        self._reached = self._depth
        value = self.content(kind)
        self._open.pop()
        seen.value, seen.count, seen.height = value, self._count - before, self._reached - self._depth
        self._reached = max(self._reached, outside)
        return value

    def _referred(self, index: int, kind: Kind) -> JavaValue:
        if not 0 <= index < len(self._objects):
            self.bytes.fail(f"a reference to object {index} of {len(self._objects)}")
        seen = self._objects[index]
        if seen.class_name != kind.class_name:
            self.bytes.fail(f"a reference to an object of another class than {kind.class_name[:_LONGEST_NAME]!r}")
        if seen.value is None:
            return JavaScalar("cycle", len(self._open) - 1 - bisect_left(self._open, index))
        self.counted(seen.count)
        self._reach(self._depth + seen.height)
        return seen.value

    def _reach(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.bytes.fail(f"objects are nested more than {MAX_DEPTH} deep")
        self._reached = max(self._reached, depth)

    def _unmarked(self, kind: Kind, nullable: bool) -> JavaValue:
        if not nullable:
            value = self.content(kind)
        elif kind.has_null:
            value = kind.read(self, kind.class_name) or NULL
        else:
            value = self.content(kind) if self.bytes.boolean() else NULL
        # Kryo 5 does not say what was one object. Constants were.
        return self._constants.setdefault(value, value) if is_constant(value) else value
