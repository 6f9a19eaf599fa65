"""What Kryo writes of an object that holds no other objects."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from anchorbolt.storm.kryo.java_value import JavaValue
from anchorbolt.storm.kryo.object_reader import Kind, ObjectReader
from anchorbolt.storm.kryo.simple_values import (
    CheckPointState,
    JavaBoolean,
    JavaBytes,
    JavaCharacter,
    JavaDate,
    JavaDecimal,
    JavaEnum,
    JavaFloat,
    JavaInteger,
    JavaObject,
    JavaString,
    JavaUuid,
)

_MOST_INTEGER_BYTES = 1_660
"""Of a BigInteger: 4,000 digits, which Python is willing to write as text."""

_CHECKPOINT_STATE = "org.apache.storm.spout.CheckPointState"


def _int(reader: ObjectReader, _: str) -> JavaValue:
    return JavaInteger("int", reader.bytes.signed())


def _long(reader: ObjectReader, _: str) -> JavaValue:
    return JavaInteger("long", reader.bytes.signed_long())


def _short(reader: ObjectReader, _: str) -> JavaValue:
    return JavaInteger("short", _with_sign(reader.bytes.fixed(2), 16))


def _byte(reader: ObjectReader, _: str) -> JavaValue:
    return JavaInteger("byte", _with_sign(reader.bytes.byte(), 8))


def _char(reader: ObjectReader, _: str) -> JavaValue:
    return JavaCharacter(reader.bytes.fixed(2))


def _float(reader: ObjectReader, _: str) -> JavaValue:
    return JavaFloat("float", reader.bytes.fixed(4))


def _double(reader: ObjectReader, _: str) -> JavaValue:
    return JavaFloat("double", reader.bytes.fixed(8))


def _boolean(reader: ObjectReader, _: str) -> JavaValue:
    return JavaBoolean(reader.bytes.boolean())


PRIMITIVES: dict[str, Callable[[ObjectReader, str], JavaValue]] = {
    "I": _int,
    "J": _long,
    "S": _short,
    "C": _char,
    "F": _float,
    "D": _double,
    "Z": _boolean,
}
"""By the letter that stands for the primitive in an array's class name. An array of bytes is a scalar."""


def _string(reader: ObjectReader, class_name: str) -> JavaValue | None:
    text = reader.bytes.string()
    return None if text is None else JavaString(text, class_name)


def _bytes(reader: ObjectReader, _: str) -> JavaValue | None:
    length = reader.bytes.unsigned()
    return None if length == 0 else JavaBytes(reader.bytes.take(length - 1))


def _big_integer(reader: ObjectReader, _: str) -> JavaValue | None:
    number = _number(reader)
    return None if number is None else JavaInteger("biginteger", number)


def _big_decimal(reader: ObjectReader, _: str) -> JavaValue | None:
    unscaled = _number(reader)
    return None if unscaled is None else JavaDecimal(unscaled, reader.bytes.signed())


def _number(reader: ObjectReader) -> int | None:
    length = reader.bytes.unsigned() - 1
    if length < 0:
        return None
    if not 0 < length <= _MOST_INTEGER_BYTES:
        reader.bytes.fail(f"a BigInteger of {length} bytes, where 1 to {_MOST_INTEGER_BYTES} are read")
    return int.from_bytes(reader.bytes.take(length), "big", signed=True)


def _date(reader: ObjectReader, _: str) -> JavaValue:
    return JavaDate(_with_sign(reader.bytes.unsigned_long(), 64))


def _uuid(reader: ObjectReader, _: str) -> JavaValue:
    least, most = reader.bytes.signed_long(), reader.bytes.signed_long()
    return JavaUuid(uuid.UUID(int=(most % 2**64) << 64 | least % 2**64))


def _no_fields(reader: ObjectReader, class_name: str) -> JavaValue:
    return JavaObject(class_name)


def _checkpoint_state(reader: ObjectReader, _: str) -> JavaValue:
    state = reader.object(_STATE, nullable=True)
    if not isinstance(state, JavaEnum) or state.name is None:
        reader.bytes.fail("a CheckPointState without a state")
    return CheckPointState(reader.bytes.signed_long(), state.name)


def _with_sign(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number


def enum_class_of(class_name: str) -> str:
    """Return the enum's class of a constant's, which is another where the constant has a body: `Colour$1`."""
    outer, _, number = class_name.rpartition("$")
    return outer if outer and number.isdecimal() else class_name


def enum_kind(class_name: str, constants: Sequence[str] | None) -> Kind:
    """Return how an enum is written: which constant it is, and no more. None: the constants' names are not known."""

    def read(reader: ObjectReader, class_name: str) -> JavaValue | None:
        ordinal = reader.bytes.unsigned() - 1
        if ordinal < 0:
            return None
        if constants is None:
            return JavaEnum(class_name, ordinal, None)
        if ordinal >= len(constants):
            reader.bytes.fail(f"constant {ordinal} of {class_name[:200]!r}, which has {len(constants)}")
        return JavaEnum(class_name, ordinal, constants[ordinal])

    return Kind(class_name, read, has_null=True)


_STATE_CLASS = f"{_CHECKPOINT_STATE}$State"

_DAYS = "MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY"
_MONTHS = "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER"
_UNITS = "NANOSECONDS MICROSECONDS MILLISECONDS SECONDS MINUTES HOURS DAYS"

ENUMS: dict[str, Sequence[str]] = {
    _STATE_CLASS: ("COMMITTED", "COMMITTING", "PREPARING"),
    "java.time.DayOfWeek": _DAYS.split(),
    "java.time.Month": _MONTHS.split(),
    "java.util.Comparators$NaturalOrderComparator": ("INSTANCE",),
    "java.util.concurrent.TimeUnit": _UNITS.split(),
}
"""Storm's and Java's own: the constants in their order."""

FINAL_ENUMS = frozenset(ENUMS) - {"java.util.concurrent.TimeUnit"}
"""Enums whose constants have no bodies, so that no class extends theirs. Up to Java 8 those of TimeUnit had."""

_STATE = enum_kind(_STATE_CLASS, ENUMS[_STATE_CLASS])

SCALARS = {
    kind.class_name: kind
    for kind in (
        *(
            Kind(f"java.lang.{name}", read, boxed=True, final=True)
            for name, read in (
                ("Integer", _int),
                ("Long", _long),
                ("Short", _short),
                ("Byte", _byte),
                ("Character", _char),
                ("Float", _float),
                ("Double", _double),
                ("Boolean", _boolean),
            )
        ),
        *(
            Kind(f"java.lang.{name}", _string, has_null=True, final=True)
            for name in ("String", "StringBuilder", "StringBuffer")
        ),
        Kind("[B", _bytes, has_null=True, final=True),
        Kind("java.math.BigInteger", _big_integer, has_null=True),
        Kind("java.math.BigDecimal", _big_decimal, has_null=True),
        Kind("java.util.Date", _date),
        Kind("java.util.UUID", _uuid, final=True),
        Kind("java.util.Collections$ReverseComparator", _no_fields),
        Kind("java.lang.String$CaseInsensitiveComparator", _no_fields),
        Kind(_CHECKPOINT_STATE, _checkpoint_state),
    )
}
"""By class: what has one fixed form."""
