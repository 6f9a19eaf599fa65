"""Readers of objects that hold no other objects."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from anchorbolt.storm.kryo.byte_reader import ByteReader
from anchorbolt.storm.kryo.object_reader import Kind, ObjectReader, Reader
from anchorbolt.storm.kryo.values import JavaScalar, JavaValue

_MOST_INTEGER_BYTES = 1_660  # 4,000 digits; Python refuses to convert many more to text
_CHECKPOINT_STATE = "org.apache.storm.spout.CheckPointState"

# By the primitive's letter in an array's class name: its name, its box in java.lang, and what reads it.
PRIMITIVES: dict[str, tuple[str, str, Callable[[ByteReader], Any]]] = {
    "I": ("int", "Integer", ByteReader.signed),
    "J": ("long", "Long", ByteReader.signed_long),
    "S": ("short", "Short", lambda data: _with_sign(data.fixed(2), 16)),
    "B": ("byte", "Byte", lambda data: _with_sign(data.byte(), 8)),
    "C": ("char", "Character", lambda data: data.fixed(2)),
    "F": ("float", "Float", lambda data: data.fixed(4)),
    "D": ("double", "Double", lambda data: data.fixed(8)),
    "Z": ("boolean", "Boolean", ByteReader.boolean),
}


def _scalar(tag: str, read_value: Callable[[ByteReader], Any]) -> Reader:
    def read(reader: ObjectReader, _: str) -> JavaValue | None:
        value = read_value(reader.bytes)
        return None if value is None else JavaScalar(tag, value)

    return read


def _string(reader: ObjectReader, class_name: str) -> JavaValue | None:
    text = reader.bytes.string()
    return None if text is None else JavaScalar("string", text, class_name)


def _bytes(data: ByteReader) -> bytes | None:
    length = data.unsigned()
    return None if length == 0 else data.take(length - 1)


def _big_decimal(reader: ObjectReader, _: str) -> JavaValue | None:
    unscaled = _number(reader.bytes)
    return None if unscaled is None else JavaScalar("bigdecimal", unscaled, detail=reader.bytes.signed())


def _number(data: ByteReader) -> int | None:
    length = data.unsigned() - 1
    if length < 0:
        return None
    if not 0 < length <= _MOST_INTEGER_BYTES:
        data.fail(f"a BigInteger of {length} bytes, where 1 to {_MOST_INTEGER_BYTES} are read")
    return int.from_bytes(data.take(length), "big", signed=True)


def _uuid(data: ByteReader) -> uuid.UUID:
    least, most = data.signed_long(), data.signed_long()
    return uuid.UUID(int=(most % 2**64) << 64 | least % 2**64)


def _no_fields(reader: ObjectReader, class_name: str) -> JavaValue:
    return JavaScalar("object", class_name=class_name)


def _checkpoint_state(reader: ObjectReader, _: str) -> JavaValue:
    state = reader.object(_STATE, nullable=True)
    if not isinstance(state, JavaScalar) or state.value is None:
        reader.bytes.fail("a CheckPointState without a state")
    return JavaScalar("checkpointstate", reader.bytes.signed_long(), detail=state.value)


def _with_sign(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number


def enum_class_of(class_name: str) -> str:
    """Return the class of a constant's enum. A constant with a body has a class of its own, such as `Colour$1`."""
    outer, _, number = class_name.rpartition("$")
    return outer if outer and number.isdecimal() else class_name


def enum_kind(class_name: str, constants: Sequence[str] | None) -> Kind:
    """Return the kind of an enum, which Kryo writes as the constant's number. `constants` is None if unknown."""

    def read(reader: ObjectReader, class_name: str) -> JavaValue | None:
        ordinal = reader.bytes.unsigned() - 1
        if ordinal < 0:
            return None
        if constants is None:
            return JavaScalar("enum", None, class_name, ordinal)
        if ordinal >= len(constants):
            reader.bytes.fail(f"constant {ordinal} of {class_name[:200]!r}, which has {len(constants)}")
        return JavaScalar("enum", constants[ordinal], class_name, ordinal)

    return Kind(class_name, read, has_null=True)


_STATE_CLASS = f"{_CHECKPOINT_STATE}$State"

_DAYS = "MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY"
_MONTHS = "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER"
_UNITS = "NANOSECONDS MICROSECONDS MILLISECONDS SECONDS MINUTES HOURS DAYS"

# Storm's and Java's own: the constants in their order.
ENUMS: dict[str, Sequence[str]] = {
    _STATE_CLASS: ("COMMITTED", "COMMITTING", "PREPARING"),
    "java.time.DayOfWeek": _DAYS.split(),
    "java.time.Month": _MONTHS.split(),
    "java.util.Comparators$NaturalOrderComparator": ("INSTANCE",),
    "java.util.concurrent.TimeUnit": _UNITS.split(),
}

# Enums without constants that have a body, so that no class extends them. Up to Java 8 TimeUnit's constants had bodies.
FINAL_ENUMS = frozenset(ENUMS) - {"java.util.concurrent.TimeUnit"}

_STATE = enum_kind(_STATE_CLASS, ENUMS[_STATE_CLASS])

SCALARS = {
    kind.class_name: kind
    for kind in (
        *(
            Kind(f"java.lang.{box}", _scalar(tag, read), boxed=True, final=True)
            for tag, box, read in PRIMITIVES.values()
        ),
        *(
            Kind(f"java.lang.{name}", _string, has_null=True, final=True)
            for name in ("String", "StringBuilder", "StringBuffer")
        ),
        Kind("[B", _scalar("bytes", _bytes), has_null=True, final=True),
        Kind("java.math.BigInteger", _scalar("biginteger", _number), has_null=True),
        Kind("java.math.BigDecimal", _big_decimal, has_null=True),
        Kind("java.util.Date", _scalar("date", lambda data: _with_sign(data.unsigned_long(), 64))),
        Kind("java.util.UUID", _scalar("uuid", _uuid), final=True),
        Kind("java.util.Collections$ReverseComparator", _no_fields),
        Kind("java.lang.String$CaseInsensitiveComparator", _no_fields),
        Kind(_CHECKPOINT_STATE, _checkpoint_state),
    )
}
