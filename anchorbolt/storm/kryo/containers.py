"""How Kryo writes the elements of lists, queues, sets, maps and arrays."""

from collections.abc import Callable, Iterable, Sequence

from anchorbolt.storm.kryo.object_reader import Kind, ObjectReader, ReadWrite
from anchorbolt.storm.kryo.object_writer import ObjectWriter
from anchorbolt.storm.kryo.scalars import Bare
from anchorbolt.storm.kryo.values import NULL, JavaCollection, JavaScalar, JavaValue

_COMPARATORS = {
    "java.lang.String$CaseInsensitiveComparator",
    "java.util.Collections$ReverseComparator",
    "java.util.Comparators$NaturalOrderComparator",
}


def container(
    kind: str,
    *,
    sorted_in_kryo_5: bool = False,
    sorted_before: bool = False,
    nulls: bool = True,
    key: Callable[[ObjectReader], JavaValue] = ObjectReader.class_and_object,
) -> ReadWrite:
    """Return the form of a list (or queue), set or map. Kryo writes the comparator of a sorted one.

    `nulls`: if all elements are of one class, Kryo 5 writes whether some are null. `key` reads a map's keys.
    """

    def read(reader: ObjectReader, class_name: str) -> JavaValue | None:
        of_one_class, comparator = False, None
        if reader.layout.kryo_5:
            of_one_class, size = (False, reader.bytes.unsigned()) if kind == "map" else reader.bytes.flagged()
            if size == 0:
                return None
            count = size - 1
            if sorted_in_kryo_5:
                comparator = _comparator(reader)
        else:
            if sorted_before:
                comparator = _comparator(reader)
            count = reader.bytes.unsigned()
        items = _of_one_class(reader, count, nulls) if of_one_class else _filled(reader, kind, count, key)
        return JavaCollection(kind, class_name, items, comparator)

    def write(writer: ObjectWriter, value: JavaCollection) -> None:
        count, items = len(value.items), value.items
        if not writer.layout.kryo_5:
            if sorted_before:
                writer.class_and_object(value.detail or NULL)
            writer.bytes.unsigned(count // 2 if kind == "map" else count)
            _write_all(writer, items)
            return
        classes = {writer.class_of(item) for item in items if item is not NULL}
        of_one_class = kind != "map" and count > 0 and len(classes) <= 1
        if kind == "map":
            writer.bytes.unsigned(count // 2 + 1)
        else:
            writer.bytes.flagged(of_one_class, count + 1)
        if sorted_in_kryo_5:
            writer.class_and_object(value.detail or NULL)
        if of_one_class:
            _write_of_one_class(writer, items, classes, nulls)
        else:
            _write_all(writer, items)

    return ReadWrite(read, write)


def of_size(kind: str, count: int) -> ReadWrite:
    """Return the form of a list, set or map that always holds this many elements."""
    return ReadWrite(
        lambda reader, class_name: JavaCollection(kind, class_name, _filled(reader, kind, count)),
        lambda writer, value: _write_all(writer, value.items),
    )


def array(element: Kind | None) -> ReadWrite:
    """Return the form of an array of objects: `[Ljava.lang.String;`, `[[I`.

    `element` is the kind of the elements if their class is final, as every array class is. It is None if each element
    is written with its class.
    """

    def read(reader: ObjectReader, class_name: str) -> JavaValue | None:
        count = reader.bytes.unsigned() - 1
        if count < 0:
            return None
        if element is None:
            items = _filled(reader, "array", count)
        else:
            items = tuple([reader.object(element, nullable=True) for _ in range(count)])
        return JavaCollection("array", class_name, items)

    def write(writer: ObjectWriter, value: JavaCollection) -> None:
        writer.bytes.unsigned(len(value.items) + 1)
        if element is None:
            _write_all(writer, value.items)
            return
        for item in value.items:
            writer.object(item, element, nullable=True)

    return ReadWrite(read, write)


def primitive_array(tag: str, one: Bare) -> ReadWrite:
    """Return the form of an array of primitives; `one` is the form of an element."""

    def read(reader: ObjectReader, class_name: str) -> JavaValue | None:
        count = reader.bytes.unsigned() - 1
        if count < 0:
            return None
        reader.counted(count)
        return JavaCollection(
            "array", class_name, tuple([JavaScalar(tag, one.read(reader.bytes)) for _ in range(count)])
        )

    def write(writer: ObjectWriter, value: JavaCollection) -> None:
        writer.bytes.unsigned(len(value.items) + 1)
        for item in value.items:
            assert isinstance(item, JavaScalar)
            one.write(writer.bytes, item.value)

    return ReadWrite(read, write)


def _read_optional(reader: ObjectReader, class_name: str) -> JavaValue:
    value = reader.class_and_object()
    return JavaCollection("optional", class_name, () if value is NULL else (value,))


def _write_optional(writer: ObjectWriter, value: JavaCollection) -> None:
    _write_all(writer, value.items or (NULL,))


OPTIONAL = ReadWrite(_read_optional, _write_optional)


def _filled(
    reader: ObjectReader,
    kind: str,
    count: int,
    key: Callable[[ObjectReader], JavaValue] = ObjectReader.class_and_object,
) -> tuple[JavaValue, ...]:
    """Read elements, each with its class."""
    parts = (key, ObjectReader.class_and_object) if kind == "map" else (ObjectReader.class_and_object,)
    return tuple([read(reader) for _ in range(count) for read in parts])


def _write_all(writer: ObjectWriter, items: Iterable[JavaValue]) -> None:
    for item in items:
        writer.class_and_object(item)


def _of_one_class(reader: ObjectReader, count: int, nulls: bool) -> tuple[JavaValue, ...]:
    if count == 0:
        reader.bytes.fail("the class of the elements of an empty collection")
    name = reader.class_name()
    if name is None:
        reader.counted(count)
        return (NULL,) * count
    kind = reader.kind(name)
    nullable = nulls and reader.bytes.boolean()
    return tuple([reader.object(kind, nullable=nullable) for _ in range(count)])


def _write_of_one_class(writer: ObjectWriter, items: Sequence[JavaValue], classes: set[str], nulls: bool) -> None:
    if not classes:
        writer.class_and_object(NULL)
        return
    [name] = classes
    writer.class_name(name)
    kind, has_null = writer.kind(name), NULL in items
    if nulls:
        writer.bytes.data.append(has_null)
    for item in items:
        writer.object(item, kind, nullable=nulls and has_null)


def _comparator(reader: ObjectReader) -> JavaValue:
    comparator = reader.class_and_object()
    if comparator is not NULL and (not isinstance(comparator, JavaScalar) or comparator.class_name not in _COMPARATORS):
        reader.bytes.fail("another object where a comparator should be")
    return comparator
