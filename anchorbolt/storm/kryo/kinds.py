"""The classes whose objects can be read, and how Kryo writes the objects of each."""

import uuid
from collections.abc import Callable
from typing import Any

from anchorbolt.storm.kryo.object_reader import MAX_DEPTH, ByteReader, Kind, Layout, ObjectReader, Reader
from anchorbolt.storm.kryo.values import NULL, JavaCollection, JavaScalar, JavaValue

_MOST_INTEGER_BYTES = 1_660  # 4,000 digits; Python refuses to convert many more to text
_CHECKPOINT_STATE = "org.apache.storm.spout.CheckPointState"
_STATE = f"{_CHECKPOINT_STATE}$State"

# By the primitive's letter in an array's class name: its name, its box in java.lang, and its reader.
_PRIMITIVES: dict[str, tuple[str, str, Callable[[ByteReader], Any]]] = {
    "I": ("int", "Integer", ByteReader.signed),
    "J": ("long", "Long", ByteReader.signed_long),
    "S": ("short", "Short", lambda data: data.fixed(2, signed=True)),
    "B": ("byte", "Byte", lambda data: data.fixed(1, signed=True)),
    "C": ("char", "Character", lambda data: data.fixed(2)),
    "F": ("float", "Float", lambda data: data.fixed(4)),
    "D": ("double", "Double", lambda data: data.fixed(8)),
    "Z": ("boolean", "Boolean", ByteReader.boolean),
}

# The constants of Storm's and Java's own enums, in their order.
ENUMS = {
    name: constants.split()
    for name, constants in {
        _STATE: "COMMITTED COMMITTING PREPARING",
        "java.time.DayOfWeek": "MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY",
        "java.time.Month": "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER",
        "java.util.Comparators$NaturalOrderComparator": "INSTANCE",
        "java.util.concurrent.TimeUnit": "NANOSECONDS MICROSECONDS MILLISECONDS SECONDS MINUTES HOURS DAYS",
    }.items()
}

# Enums in which no constant has a body, so that no class extends them. Up to Java 8 TimeUnit's constants had bodies.
_FINAL_ENUMS = ENUMS.keys() - {"java.util.concurrent.TimeUnit"}

_COMPARATORS = {
    "java.lang.String$CaseInsensitiveComparator",
    "java.util.Collections$ReverseComparator",
    "java.util.Comparators$NaturalOrderComparator",
}


def kind_named(class_name: str, layout: Layout) -> Kind | None:
    """Return the kind of a class, or None if its objects cannot be read."""
    kind = _KINDS.get(class_name)
    if kind is not None:
        return kind
    if class_name.startswith("["):
        return _array(class_name, layout)
    return _enum_kind(class_name) if _enum_class_of(class_name) in layout.enums else None


def _array(class_name: str, layout: Layout) -> Kind | None:
    element = class_name[1:]
    if element in _PRIMITIVES:
        return _array_kind(class_name, None)
    if element.startswith("["):
        # Java nests arrays up to 255 deep. Deeper than MAX_DEPTH they are refused anyway.
        inner = kind_named(element, layout) if not class_name.startswith("[" * MAX_DEPTH) else None
        return None if inner is None else _array_kind(class_name, inner)
    if not (element.startswith("L") and element.endswith(";")):
        return None
    type_name = element[1:-1]
    if type_name in _OPEN_TYPES:
        return _array_kind(class_name, None)
    if type_name in _FINAL_ENUMS:
        return _array_kind(class_name, _enum_kind(type_name))
    # An array of a user's enum cannot be read: it names each element's class only if a constant has a body.
    kind = _KINDS.get(type_name)
    return None if kind is None else _array_kind(class_name, kind if kind.final else None)


def _array_kind(class_name: str, element: Kind | None) -> Kind:
    """Return the kind of an array: `[I`, `[Ljava.lang.String;`, `[[I`.

    `element` is the kind of the elements if their class is final, as every array class is. It is None if each element
    is written with its class, and for arrays of primitives.
    """
    primitive = _PRIMITIVES.get(class_name[1:])

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


def _scalar(tag: str, read_value: Callable[[ByteReader], Any], class_name: str = "") -> Reader:
    """Return the reader of objects that hold no other objects; `read_value` returns None for null."""

    def read(reader: ObjectReader, _: str) -> JavaValue | None:
        value = read_value(reader.bytes)
        return None if value is None else JavaScalar(tag, value, class_name)

    return read


def _bytes(data: ByteReader) -> bytes | None:
    length = data.unsigned()
    return None if length == 0 else data.take(length - 1)


def _big_integer(data: ByteReader) -> int | None:
    length = data.unsigned() - 1
    if length < 0:
        return None
    if not 0 < length <= _MOST_INTEGER_BYTES:
        data.fail(f"a BigInteger of {length} bytes, where 1 to {_MOST_INTEGER_BYTES} are read")
    return int.from_bytes(data.take(length), "big", signed=True)


def _big_decimal(reader: ObjectReader, _: str) -> JavaValue | None:
    unscaled = _big_integer(reader.bytes)
    return None if unscaled is None else JavaScalar("bigdecimal", unscaled, detail=reader.bytes.signed())


def _date(data: ByteReader) -> int:
    millis = data.unsigned_long()
    return millis - 2**64 if millis >= 2**63 else millis


def _uuid(data: ByteReader) -> uuid.UUID:
    least, most = data.signed_long(), data.signed_long()
    return uuid.UUID(int=(most % 2**64) << 64 | least % 2**64)


def _no_fields(reader: ObjectReader, class_name: str) -> JavaValue:
    return JavaScalar("object", class_name=class_name)


def _checkpoint_state(reader: ObjectReader, _: str) -> JavaValue:
    state = reader.object(_enum_kind(_STATE), nullable=True)
    if not isinstance(state, JavaScalar) or state.value is None:
        reader.bytes.fail("a CheckPointState without a state")
    return JavaScalar("checkpointstate", reader.bytes.signed_long(), detail=state.value)


def _enum_class_of(class_name: str) -> str:
    """Return the class of a constant's enum. A constant with a body has its own class, such as `Colour$1`."""
    outer, _, number = class_name.rpartition("$")
    return outer if outer and number.isdecimal() else class_name


def _enum_kind(class_name: str) -> Kind:
    return Kind(class_name, _enum, has_null=True)


def _enum(reader: ObjectReader, class_name: str) -> JavaValue | None:
    """Read an enum, which Kryo writes as the constant's number."""
    ordinal = reader.bytes.unsigned() - 1
    if ordinal < 0:
        return None
    constants = reader.layout.enums.get(_enum_class_of(class_name))
    if constants is None:
        return JavaScalar("enum", None, class_name, ordinal)
    if ordinal >= len(constants):
        reader.bytes.fail(f"constant {ordinal} of {class_name[:200]!r}, which has {len(constants)}")
    return JavaScalar("enum", constants[ordinal], class_name, ordinal)


def _enum_with_class(reader: ObjectReader) -> JavaValue:
    """Read an object that can only be an enum constant, even of an unknown enum."""
    name = reader.class_name()
    return NULL if name is None else reader.object(_enum_kind(name))


def _enum_set(reader: ObjectReader, class_name: str) -> JavaValue:
    constant = reader.class_name()
    if constant is None:
        reader.bytes.fail("an EnumSet without a class")
    # Kryo writes the class of one constant. A constant with a body has its own class.
    kind = _enum_kind(_enum_class_of(constant))
    count = reader.bytes.unsigned()
    reader.counted(count)
    return JavaCollection("set", class_name, tuple([reader.content(kind) for _ in range(count)]))


def _container(
    kind: str,
    *,
    sorted_in_kryo_5: bool = False,
    sorted_before: bool = False,
    nulls: bool = True,
    key: Callable[[ObjectReader], JavaValue] = ObjectReader.class_and_object,
) -> Reader:
    """Return the reader of a list (or queue), set or map. Kryo writes the comparator of a sorted one.

    `nulls`: if all elements are of one class, Kryo 5 writes whether some are null. `key` reads a map's keys.
    """

    def read(reader: ObjectReader, class_name: str) -> JavaValue | None:
        of_one_class = False
        if reader.layout.kryo_5:
            of_one_class, size = (False, reader.bytes.unsigned()) if kind == "map" else reader.bytes.flagged()
            if size == 0:
                return None
            count = size - 1
            if sorted_in_kryo_5:
                _comparator(reader)
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
    parts = (key, ObjectReader.class_and_object) if kind == "map" else (ObjectReader.class_and_object,)
    return JavaCollection(kind, class_name, tuple([read(reader) for _ in range(count) for read in parts]))


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


def _optional(reader: ObjectReader, class_name: str) -> JavaValue:
    value = reader.class_and_object()
    return JavaCollection("optional", class_name, () if value is NULL else (value,))


def _tuple(reader: ObjectReader, class_name: str) -> JavaValue:
    """Skip a Storm tuple: its contents can be read only with the topology's whole configuration."""
    reader.bytes.take(reader.bytes.fixed(4))
    reader.opaque.append(class_name)
    return NULL


def _kinds(read: Reader, names: str, *, has_null: bool = True, final: bool = False) -> list[Kind]:
    """Return the kinds of classes in java.util, or in the package at the beginning of a name."""
    classes = [name if name.startswith("org.") else f"java.util.{name}" for name in names.split()]
    return [Kind(name, read, has_null=has_null, final=final) for name in classes]


# Without arrays and most enums.
_KINDS = {
    kind.class_name: kind
    for kind in (
        *(
            Kind(f"java.lang.{box}", _scalar(tag, read), boxed=True, final=True)
            for tag, box, read in _PRIMITIVES.values()
        ),
        *(
            Kind(name, _scalar("string", ByteReader.string, name), has_null=True, final=True)
            for name in ("java.lang.String", "java.lang.StringBuilder", "java.lang.StringBuffer")
        ),
        Kind("[B", _scalar("bytes", _bytes), has_null=True, final=True),
        Kind("java.math.BigInteger", _scalar("biginteger", _big_integer), has_null=True),
        Kind("java.math.BigDecimal", _big_decimal, has_null=True),
        Kind("java.util.Date", _scalar("date", _date)),
        Kind("java.util.UUID", _scalar("uuid", _uuid), final=True),
        Kind("java.util.Collections$ReverseComparator", _no_fields),
        Kind("java.lang.String$CaseInsensitiveComparator", _no_fields),
        Kind(_CHECKPOINT_STATE, _checkpoint_state),
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
_OPEN_TYPES = frozenset(
    {
        "java.io.Serializable",
        *(f"java.lang.{name}" for name in ("Object", "Number", "Comparable", "CharSequence", "Iterable")),
        *(f"java.util.{name}" for name in ("Queue", "Deque", "SortedSet", "SortedMap", "NavigableSet", "NavigableMap")),
        *(f"java.util.{kind}{name}" for kind in ("", "Abstract") for name in ("Collection", "List", "Set", "Map")),
        "java.util.concurrent.ConcurrentMap",
    }
)
