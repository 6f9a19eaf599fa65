"""Readers of collections, maps, arrays and other objects that hold objects."""

from collections.abc import Callable

from anchorbolt.storm.kryo.object_reader import Kind, ObjectReader, Reader
from anchorbolt.storm.kryo.scalars import PRIMITIVES, enum_class_of, enum_kind
from anchorbolt.storm.kryo.values import NULL, JavaCollection, JavaMap, JavaOptional, JavaScalar, JavaValue

_COMPARATORS = {
    "java.lang.String$CaseInsensitiveComparator",
    "java.util.Collections$ReverseComparator",
    "java.util.Comparators$NaturalOrderComparator",
}


def _container(
    kind: str,
    *,
    sorted_in_kryo_5: bool = False,
    sorted_before: bool = False,
    nulls: bool = True,
    key: Callable[[ObjectReader], JavaValue] = ObjectReader.class_and_object,
) -> Reader:
    """Return the reader of a list (or queue), set or map. Kryo writes the comparator of a sorted one.

    `nulls`: if all elements are of one class, Kryo 5 writes whether nulls are among them. `key` reads a map's keys.
    """

    def read(reader: ObjectReader, class_name: str) -> JavaValue | None:
        of_one_class = False
        if reader.layout.kryo_5:
            of_one_class, size = (False, reader.bytes.unsigned()) if kind == "map" else reader.bytes.flagged()
            if size == 0:
                return None
            if sorted_in_kryo_5:
                _comparator(reader)
            count = size - 1
        else:
            if sorted_before:
                _comparator(reader)
            count = reader.bytes.unsigned()
        if of_one_class:
            return JavaCollection(kind, class_name, _of_one_class(reader, count, nulls))
        return _filled(reader, kind, class_name, count, key)

    return read


def _of_size(kind: str, count: int) -> Reader:
    """Return the reader of a list, set or map that always holds this many elements."""
    return lambda reader, class_name: _filled(reader, kind, class_name, count)


def _filled(
    reader: ObjectReader,
    kind: str,
    class_name: str,
    count: int,
    key: Callable[[ObjectReader], JavaValue] = ObjectReader.class_and_object,
) -> JavaValue:
    """Read elements, each with its class."""
    if kind == "map":
        return JavaMap(class_name, tuple([(key(reader), reader.class_and_object()) for _ in range(count)]))
    return JavaCollection(kind, class_name, tuple([reader.class_and_object() for _ in range(count)]))


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


def _comparator(reader: ObjectReader) -> None:
    comparator = reader.class_and_object()
    if comparator is not NULL and (not isinstance(comparator, JavaScalar) or comparator.class_name not in _COMPARATORS):
        reader.bytes.fail("another object where a comparator should be")


def _enum_with_class(reader: ObjectReader) -> JavaValue:
    """Read an object that can only be an enum constant, even of an unknown enum."""
    name = reader.class_name()
    return NULL if name is None else reader.object(_enum(reader, name))


def _enum(reader: ObjectReader, class_name: str) -> Kind:
    return enum_kind(class_name, reader.layout.enums.get(enum_class_of(class_name)))


def _enum_set(reader: ObjectReader, class_name: str) -> JavaValue:
    constant = reader.class_name()
    if constant is None:
        reader.bytes.fail("an EnumSet without a class")
    # Kryo writes the class of one constant, which is a class of its own if that constant has a body.
    kind = _enum(reader, enum_class_of(constant))
    count = reader.bytes.unsigned()
    reader.counted(count)
    return JavaCollection("set", class_name, tuple([reader.content(kind) for _ in range(count)]))


def _optional(reader: ObjectReader, _: str) -> JavaValue:
    value = reader.class_and_object()
    return JavaOptional(None if value is NULL else value)


def _tuple(reader: ObjectReader, class_name: str) -> JavaValue:
    """Skip a tuple of Storm's: to read its contents takes the topology's whole configuration."""
    reader.bytes.take(reader.bytes.fixed(4))
    reader.opaque.append(class_name)
    return NULL


def array_kind(class_name: str, element: Kind | None) -> Kind:
    """Return the kind of an array: `[I`, `[Ljava.lang.String;`, `[[I`.

    `element` is the kind of its elements if their class is final, as every array class is. It is None if each element
    comes with its class, and for arrays of primitives.
    """
    primitive = PRIMITIVES.get(class_name[1:])

    def read(reader: ObjectReader, class_name: str) -> JavaValue | None:
        count = reader.bytes.unsigned() - 1
        if count < 0:
            return None
        if primitive is not None:
            reader.counted(count)
            tag, _, read_value = primitive
            items: list[JavaValue] = [JavaScalar(tag, read_value(reader.bytes)) for _ in range(count)]
        elif element is not None:
            items = [reader.object(element, nullable=True) for _ in range(count)]
        else:
            return _filled(reader, "array", class_name, count)
        return JavaCollection("array", class_name, tuple(items))

    return Kind(class_name, read, has_null=True, final=True)


def _kinds(read: Reader, names: str, *, has_null: bool = True, final: bool = False) -> list[Kind]:
    """Return the kinds of classes in java.util, or in the package that a name begins with."""
    classes = [name if name.startswith("org.") else f"java.util.{name}" for name in names.split()]
    return [Kind(name, read, has_null=has_null, final=final) for name in classes]


# By class; without arrays.
CONTAINERS = {
    kind.class_name: kind
    for kind in (
        *_kinds(
            _container("list"),
            "ArrayList LinkedList ArrayDeque Vector Stack Arrays$ArrayList ArrayList$SubList "
            "concurrent.CopyOnWriteArrayList concurrent.ConcurrentLinkedQueue concurrent.ConcurrentLinkedDeque "
            "concurrent.LinkedBlockingQueue concurrent.LinkedBlockingDeque concurrent.ArrayBlockingQueue "
            "concurrent.PriorityBlockingQueue Collections$UnmodifiableList Collections$UnmodifiableRandomAccessList "
            "Collections$SynchronizedList Collections$SynchronizedRandomAccessList Collections$CopiesList "
            "org.apache.storm.tuple.Values",
        ),
        *_kinds(_container("list", sorted_in_kryo_5=True), "PriorityQueue"),
        *_kinds(
            _container("list", nulls=False),
            "ImmutableCollections$List12 ImmutableCollections$ListN ImmutableCollections$SubList",
        ),
        *_kinds(
            _container("set"),
            "HashSet LinkedHashSet concurrent.CopyOnWriteArraySet concurrent.ConcurrentSkipListSet "
            "concurrent.ConcurrentHashMap$KeySetView Collections$UnmodifiableSet Collections$SynchronizedSet "
            "Collections$SetFromMap",
        ),
        *_kinds(_container("set", sorted_in_kryo_5=True, sorted_before=True), "TreeSet"),
        *_kinds(_container("set", nulls=False), "ImmutableCollections$Set12 ImmutableCollections$SetN"),
        *_kinds(_enum_set, "RegularEnumSet JumboEnumSet", has_null=False),
        *_kinds(
            _container("map"),
            "HashMap LinkedHashMap Hashtable IdentityHashMap WeakHashMap Properties concurrent.ConcurrentHashMap "
            "Collections$UnmodifiableMap Collections$SynchronizedMap ImmutableCollections$Map1 "
            "ImmutableCollections$MapN",
        ),
        *_kinds(_container("map", sorted_in_kryo_5=True, sorted_before=True), "TreeMap"),
        *_kinds(_container("map", sorted_in_kryo_5=True), "concurrent.ConcurrentSkipListMap"),
        *_kinds(_container("map", key=_enum_with_class), "EnumMap"),
        *(
            kind
            for count, name in enumerate(("Empty", "Singleton"))
            for of in ("List", "Set", "Map")
            for kind in _kinds(_of_size(of.lower(), count), f"Collections${name}{of}", has_null=False)
        ),
        *_kinds(_optional, "Optional", has_null=False, final=True),
        *_kinds(_tuple, "org.apache.storm.tuple.TupleImpl", has_null=False),
    )
}

# Interfaces and abstract classes: an array of them names the class of each element.
OPEN_TYPES = frozenset(
    {
        "java.io.Serializable",
        *(f"java.lang.{name}" for name in ("Object", "Number", "Comparable", "CharSequence", "Iterable")),
        *(f"java.util.{name}" for name in ("Queue", "Deque", "SortedSet", "SortedMap", "NavigableSet", "NavigableMap")),
        *(f"java.util.{kind}{name}" for kind in ("", "Abstract") for name in ("Collection", "List", "Set", "Map")),
        "java.util.concurrent.ConcurrentMap",
    }
)
