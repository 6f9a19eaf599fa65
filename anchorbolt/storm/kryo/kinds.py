"""The classes whose objects can be read and written, and how Kryo writes the objects of each."""

from anchorbolt.storm.kryo.containers import OPTIONAL, array, container, of_size, primitive_array
from anchorbolt.storm.kryo.object_reader import MAX_DEPTH, Kind, Layout, ObjectReader, ReadWrite
from anchorbolt.storm.kryo.object_writer import CLASSES, ObjectWriter
from anchorbolt.storm.kryo.scalars import (
    BIG_DECIMAL,
    BIG_INTEGER,
    BYTES,
    DATE,
    PRIMITIVES,
    STRING,
    TEXT_BUFFER,
    UUID,
    scalar,
)
from anchorbolt.storm.kryo.values import NULL, JavaCollection, JavaScalar, JavaValue

_CHECKPOINT_STATE = CLASSES["checkpointstate"]
_STATE = f"{_CHECKPOINT_STATE}$State"

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

_STATES = {name: JavaScalar("enum", name, _STATE, number) for number, name in enumerate(ENUMS[_STATE])}

# Enums in which no constant has a body, so that no class extends them. Up to Java 8 TimeUnit's constants had bodies.
_FINAL_ENUMS = ENUMS.keys() - {"java.util.concurrent.TimeUnit"}


def kind_named(class_name: str, layout: Layout) -> Kind | None:
    """Return the kind of a class, or None if its objects cannot be read."""
    kind = _KINDS.get(class_name)
    if kind is not None:
        return kind
    if class_name.startswith("["):
        return _array(class_name, layout)
    return _enum_kind(class_name) if _enum_class_of(class_name) in layout.enums else None


def written_kind(class_name: str, layout: Layout) -> Kind:
    """Return the kind of a class of an object that was read. Only constants of enums have another class."""
    return kind_named(class_name, layout) or _enum_kind(class_name)


def _array(class_name: str, layout: Layout) -> Kind | None:
    element = class_name[1:]
    if element in PRIMITIVES:
        tag, _, one = PRIMITIVES[element]
        return _array_kind(class_name, primitive_array(tag, one))
    if element.startswith("["):
        # Java nests arrays up to 255 deep. Deeper than MAX_DEPTH they are refused anyway.
        inner = kind_named(element, layout) if not class_name.startswith("[" * MAX_DEPTH) else None
        return None if inner is None else _array_kind(class_name, array(inner))
    if not (element.startswith("L") and element.endswith(";")):
        return None
    type_name = element[1:-1]
    if type_name in _OPEN_TYPES:
        return _array_kind(class_name, array(None))
    if type_name in _FINAL_ENUMS:
        return _array_kind(class_name, array(_enum_kind(type_name)))
    # An array of a user's enum cannot be read: it names each element's class only if a constant has a body.
    kind = _KINDS.get(type_name)
    return None if kind is None else _array_kind(class_name, array(kind if kind.final else None))


def _array_kind(class_name: str, form: ReadWrite) -> Kind:
    return Kind(class_name, *form, has_null=True, final=True)


def _read_no_fields(reader: ObjectReader, class_name: str) -> JavaValue:
    return JavaScalar("object", class_name=class_name)


def _read_checkpoint_state(reader: ObjectReader, _: str) -> JavaValue:
    state = reader.object(_enum_kind(_STATE), nullable=True)
    if not isinstance(state, JavaScalar) or state.value is None:
        reader.bytes.fail("a CheckPointState without a state")
    return JavaScalar("checkpointstate", reader.bytes.signed_long(), detail=state.value)


def _write_checkpoint_state(writer: ObjectWriter, value: JavaScalar) -> None:
    writer.object(_STATES[value.detail], _enum_kind(_STATE), nullable=True)
    writer.bytes.signed_long(value.value)


def _enum_class_of(class_name: str) -> str:
    """Return the class of a constant's enum. A constant with a body has its own class, such as `Colour$1`."""
    outer, _, number = class_name.rpartition("$")
    return outer if outer and number.isdecimal() else class_name


def _enum_kind(class_name: str) -> Kind:
    return Kind(class_name, _read_enum, _write_enum, has_null=True)


def _read_enum(reader: ObjectReader, class_name: str) -> JavaValue | None:
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


def _write_enum(writer: ObjectWriter, value: JavaScalar) -> None:
    writer.bytes.unsigned(value.detail + 1)


def _enum_with_class(reader: ObjectReader) -> JavaValue:
    """Read an object that can only be an enum constant, even of an unknown enum."""
    name = reader.class_name()
    return NULL if name is None else reader.object(_enum_kind(name))


def _read_enum_set(reader: ObjectReader, class_name: str) -> JavaValue:
    constant = reader.class_name()
    if constant is None:
        reader.bytes.fail("an EnumSet without a class")
    # Kryo writes the class of one constant. A constant with a body has its own class.
    kind = _enum_kind(_enum_class_of(constant))
    count = reader.bytes.unsigned()
    reader.counted(count)
    return JavaCollection("set", class_name, tuple([reader.content(kind) for _ in range(count)]), constant)


def _write_enum_set(writer: ObjectWriter, value: JavaCollection) -> None:
    writer.class_name(value.detail)
    writer.bytes.unsigned(len(value.items))
    for item in value.items:
        assert isinstance(item, JavaScalar)
        _write_enum(writer, item)


def _skip_tuple(reader: ObjectReader, class_name: str) -> JavaValue:
    """Skip a Storm tuple: its contents can be read only with the topology's whole configuration."""
    reader.bytes.take(reader.bytes.fixed(4))
    reader.opaque.append(class_name)
    return NULL


def _write_nothing(writer: ObjectWriter, value: JavaValue) -> None:
    """Write an object without fields."""


def _kinds(form: ReadWrite, names: str, *, has_null: bool = True, final: bool = False) -> list[Kind]:
    """Return the kinds of classes in java.util, or in the package at the beginning of a name."""
    classes = [name if name.startswith("org.") else f"java.util.{name}" for name in names.split()]
    return [Kind(name, *form, has_null=has_null, final=final) for name in classes]


_NO_FIELDS = ReadWrite(_read_no_fields, _write_nothing)

# Without arrays and most enums.
_KINDS = {
    kind.class_name: kind
    for kind in (
        *(
            Kind(f"java.lang.{box}", *scalar(tag, bare), boxed=True, final=True)
            for tag, box, bare in PRIMITIVES.values()
        ),
        *(
            Kind(f"java.lang.{name}", *scalar("string", bare, f"java.lang.{name}"), has_null=True, final=True)
            for name, bare in (("String", STRING), ("StringBuilder", TEXT_BUFFER), ("StringBuffer", TEXT_BUFFER))
        ),
        Kind("[B", *scalar("bytes", BYTES), has_null=True, final=True),
        Kind("java.math.BigInteger", *scalar("biginteger", BIG_INTEGER), has_null=True),
        Kind("java.math.BigDecimal", *BIG_DECIMAL, has_null=True),
        Kind("java.util.Date", *scalar("date", DATE)),
        Kind("java.util.UUID", *scalar("uuid", UUID), final=True),
        Kind("java.util.Collections$ReverseComparator", *_NO_FIELDS),
        Kind("java.lang.String$CaseInsensitiveComparator", *_NO_FIELDS),
        Kind(_CHECKPOINT_STATE, _read_checkpoint_state, _write_checkpoint_state),
        *_kinds(
            container("list"),
            "ArrayList LinkedList ArrayDeque Vector Stack Arrays$ArrayList ArrayList$SubList "
            "concurrent.CopyOnWriteArrayList concurrent.ConcurrentLinkedQueue concurrent.ConcurrentLinkedDeque "
            "concurrent.LinkedBlockingQueue concurrent.LinkedBlockingDeque concurrent.ArrayBlockingQueue "
            "concurrent.PriorityBlockingQueue Collections$UnmodifiableList Collections$UnmodifiableRandomAccessList "
            "Collections$SynchronizedList Collections$SynchronizedRandomAccessList Collections$CopiesList "
            "org.apache.storm.tuple.Values",
        ),
        *_kinds(container("list", sorted_in_kryo_5=True), "PriorityQueue"),
        *_kinds(
            container("list", nulls=False),
            "ImmutableCollections$List12 ImmutableCollections$ListN ImmutableCollections$SubList",
        ),
        *_kinds(
            container("set"),
            "HashSet LinkedHashSet concurrent.CopyOnWriteArraySet concurrent.ConcurrentSkipListSet "
            "concurrent.ConcurrentHashMap$KeySetView Collections$UnmodifiableSet Collections$SynchronizedSet "
            "Collections$SetFromMap",
        ),
        *_kinds(container("set", sorted_in_kryo_5=True, sorted_before=True), "TreeSet"),
        *_kinds(container("set", nulls=False), "ImmutableCollections$Set12 ImmutableCollections$SetN"),
        *_kinds(ReadWrite(_read_enum_set, _write_enum_set), "RegularEnumSet JumboEnumSet", has_null=False),
        *_kinds(
            container("map"),
            "HashMap LinkedHashMap Hashtable IdentityHashMap WeakHashMap Properties concurrent.ConcurrentHashMap "
            "Collections$UnmodifiableMap Collections$SynchronizedMap ImmutableCollections$Map1 "
            "ImmutableCollections$MapN",
        ),
        *_kinds(container("map", sorted_in_kryo_5=True, sorted_before=True), "TreeMap"),
        *_kinds(container("map", sorted_in_kryo_5=True), "concurrent.ConcurrentSkipListMap"),
        *_kinds(container("map", key=_enum_with_class), "EnumMap"),
        *(
            kind
            for count, name in enumerate(("Empty", "Singleton"))
            for of in ("List", "Set", "Map")
            for kind in _kinds(of_size(of.lower(), count), f"Collections${name}{of}", has_null=False)
        ),
        *_kinds(OPTIONAL, "Optional", has_null=False, final=True),
        *_kinds(ReadWrite(_skip_tuple, _write_nothing), "org.apache.storm.tuple.TupleImpl", has_null=False),
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
