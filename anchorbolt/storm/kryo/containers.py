"""Readers of collections, maps, arrays and other objects that hold objects."""

from anchorbolt.storm.kryo.object_reader import Kind, ObjectReader, Reader
from anchorbolt.storm.kryo.scalars import PRIMITIVES, enum_class_of, enum_kind
from anchorbolt.storm.kryo.values import NULL, JavaCollection, JavaMap, JavaOptional, JavaScalar, JavaValue

_COMPARATORS = {
    "java.lang.String$CaseInsensitiveComparator",
    "java.util.Collections$ReverseComparator",
    "java.util.Comparators$NaturalOrderComparator",
}


def _collection(
    kind: str, *, sorted_in_kryo_5: bool = False, sorted_before: bool = False, nulls: bool = True
) -> Reader:
    """Return the reader of a list, queue or set.

    Args:
        kind: As in the JSON form: list or set.
        sorted_in_kryo_5: Kryo 5 writes its comparator.
        sorted_before: Kryo 3 and 4 write its comparator.
        nulls: If all elements are of one class, Kryo 5 writes whether nulls are among them.
    """

    def read(reader: ObjectReader, class_name: str) -> JavaValue | None:
        if not reader.layout.kryo_5:
            if sorted_before:
                _comparator(reader)
            count = reader.bytes.unsigned()
            return JavaCollection(kind, class_name, _each_with_class(reader, count))
        of_one_class, count = reader.bytes.flagged()
        if count == 0:
            return None
        if sorted_in_kryo_5:
            _comparator(reader)
        items = _of_one_class(reader, count - 1, nulls) if of_one_class else _each_with_class(reader, count - 1)
        return JavaCollection(kind, class_name, items)

    return read


def _each_with_class(reader: ObjectReader, count: int) -> tuple[JavaValue, ...]:
    return tuple([reader.class_and_object() for _ in range(count)])


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


def _map(*, sorted_in_kryo_5: bool = False, sorted_before: bool = False, enum_keys: bool = False) -> Reader:
    def read(reader: ObjectReader, class_name: str) -> JavaValue | None:
        if reader.layout.kryo_5:
            count = reader.bytes.unsigned() - 1
            if count < 0:
                return None
            if sorted_in_kryo_5:
                _comparator(reader)
        else:
            if sorted_before:
                _comparator(reader)
            count = reader.bytes.unsigned()
        key = _enum_with_class if enum_keys else ObjectReader.class_and_object
        return JavaMap(class_name, tuple([(key(reader), reader.class_and_object()) for _ in range(count)]))

    return read


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
    found = [kind.read(reader, kind.class_name) for _ in range(count)]
    constants = [each for each in found if each is not None]
    if len(constants) < count:
        reader.bytes.fail("null in an EnumSet")
    return JavaCollection("set", class_name, tuple(constants))


def _nothing(kind: str) -> Reader:
    return lambda reader, class_name: JavaCollection(kind, class_name, ())


def _singleton(kind: str) -> Reader:
    return lambda reader, class_name: JavaCollection(kind, class_name, (reader.class_and_object(),))


def _singleton_map(reader: ObjectReader, class_name: str) -> JavaValue:
    return JavaMap(class_name, ((reader.class_and_object(), reader.class_and_object()),))


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
            tag, read_value = primitive
            items: list[JavaValue] = [JavaScalar(tag, read_value(reader.bytes)) for _ in range(count)]
        elif element is not None:
            items = [reader.object(element, nullable=True) for _ in range(count)]
        else:
            items = [reader.class_and_object() for _ in range(count)]
        return JavaCollection("array", class_name, tuple(items))

    return Kind(class_name, read, has_null=True, final=True)


def _kinds(prefix: str, names: str, read: Reader, *, has_null: bool = True, final: bool = False) -> list[Kind]:
    return [Kind(prefix + name, read, has_null=has_null, final=final) for name in names.split()]


_LIST, _SET = _collection("list"), _collection("set")
_IMMUTABLE_LIST, _IMMUTABLE_SET = _collection("list", nulls=False), _collection("set", nulls=False)

# By class; without arrays.
CONTAINERS = {
    kind.class_name: kind
    for kind in (
        *_kinds("java.util.", "ArrayList LinkedList ArrayDeque Vector Stack Arrays$ArrayList ArrayList$SubList", _LIST),
        *_kinds(
            "java.util.concurrent.",
            "CopyOnWriteArrayList ConcurrentLinkedQueue ConcurrentLinkedDeque LinkedBlockingQueue LinkedBlockingDeque "
            "ArrayBlockingQueue PriorityBlockingQueue",
            _LIST,
        ),
        *_kinds("java.util.", "PriorityQueue", _collection("list", sorted_in_kryo_5=True)),
        *_kinds(
            "java.util.Collections$",
            "UnmodifiableList UnmodifiableRandomAccessList SynchronizedList SynchronizedRandomAccessList CopiesList",
            _LIST,
        ),
        *_kinds("java.util.ImmutableCollections$", "List12 ListN SubList", _IMMUTABLE_LIST),
        *_kinds("org.apache.storm.tuple.", "Values", _LIST),
        *_kinds("java.util.", "HashSet LinkedHashSet", _SET),
        *_kinds("java.util.", "TreeSet", _collection("set", sorted_in_kryo_5=True, sorted_before=True)),
        *_kinds(
            "java.util.concurrent.", "CopyOnWriteArraySet ConcurrentSkipListSet ConcurrentHashMap$KeySetView", _SET
        ),
        *_kinds("java.util.Collections$", "UnmodifiableSet SynchronizedSet SetFromMap", _SET),
        *_kinds("java.util.ImmutableCollections$", "Set12 SetN", _IMMUTABLE_SET),
        *_kinds("java.util.", "RegularEnumSet JumboEnumSet", _enum_set, has_null=False),
        *_kinds("java.util.", "HashMap LinkedHashMap Hashtable IdentityHashMap WeakHashMap Properties", _map()),
        *_kinds("java.util.concurrent.", "ConcurrentHashMap", _map()),
        *_kinds("java.util.", "TreeMap", _map(sorted_in_kryo_5=True, sorted_before=True)),
        *_kinds("java.util.concurrent.", "ConcurrentSkipListMap", _map(sorted_in_kryo_5=True)),
        *_kinds("java.util.", "EnumMap", _map(enum_keys=True)),
        *_kinds("java.util.Collections$", "UnmodifiableMap SynchronizedMap", _map()),
        *_kinds("java.util.ImmutableCollections$", "Map1 MapN", _map()),
        *_kinds("java.util.Collections$", "EmptyList", _nothing("list"), has_null=False),
        *_kinds("java.util.Collections$", "EmptySet", _nothing("set"), has_null=False),
        *_kinds(
            "java.util.Collections$", "EmptyMap", lambda reader, class_name: JavaMap(class_name, ()), has_null=False
        ),
        *_kinds("java.util.Collections$", "SingletonList", _singleton("list"), has_null=False),
        *_kinds("java.util.Collections$", "SingletonSet", _singleton("set"), has_null=False),
        *_kinds("java.util.Collections$", "SingletonMap", _singleton_map, has_null=False),
        *_kinds("java.util.", "Optional", _optional, has_null=False, final=True),
        *_kinds("org.apache.storm.tuple.", "TupleImpl", _tuple, has_null=False),
    )
}
_OPEN_IN_LANG = "Object Number Comparable CharSequence Iterable"
_OPEN_IN_UTIL = (
    "Collection List Set Map Queue Deque SortedSet SortedMap NavigableSet NavigableMap "
    "AbstractCollection AbstractList AbstractSet AbstractMap concurrent.ConcurrentMap"
)

# Interfaces and abstract classes: an array of them names the class of each element.
OPEN_TYPES = frozenset(
    {
        "java.io.Serializable",
        *(f"java.lang.{name}" for name in _OPEN_IN_LANG.split()),
        *(f"java.util.{name}" for name in _OPEN_IN_UTIL.split()),
    }
)
