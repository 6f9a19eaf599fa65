"""How Kryo writes the data of objects that hold no other objects."""

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from anchorbolt.storm.kryo.byte_streams import ByteReader, ByteWriter
from anchorbolt.storm.kryo.object_reader import ObjectReader, ReadWrite
from anchorbolt.storm.kryo.object_writer import ObjectWriter
from anchorbolt.storm.kryo.values import JavaScalar, JavaValue

_MOST_INTEGER_BYTES = 1_660  # 4,000 digits; Python refuses to convert many more to text


class Bare(NamedTuple):
    """How a value is read and written. `read` returns None for null."""

    read: Callable[[ByteReader], Any]
    write: Callable[[ByteWriter, Any], None]


def scalar(tag: str, bare: Bare, class_name: str = "") -> ReadWrite:
    """Return the form of objects of one value."""

    def read(reader: ObjectReader, _: str) -> JavaValue | None:
        value = bare.read(reader.bytes)
        return None if value is None else JavaScalar(tag, value, class_name)

    def write(writer: ObjectWriter, value: JavaScalar) -> None:
        bare.write(writer.bytes, value.value)

    return ReadWrite(read, write)


def _fixed(size: int, *, signed: bool = False) -> Bare:
    return Bare(lambda data: data.fixed(size, signed=signed), lambda data, number: data.fixed(size, number))


# By the primitive's letter in an array's class name: its name, its box in java.lang, and its form.
PRIMITIVES: dict[str, tuple[str, str, Bare]] = {
    "I": ("int", "Integer", Bare(ByteReader.signed, ByteWriter.signed)),
    "J": ("long", "Long", Bare(ByteReader.signed_long, ByteWriter.signed_long)),
    "S": ("short", "Short", _fixed(2, signed=True)),
    "B": ("byte", "Byte", _fixed(1, signed=True)),
    "C": ("char", "Character", _fixed(2)),
    "F": ("float", "Float", _fixed(4)),
    "D": ("double", "Double", _fixed(8)),
    "Z": ("boolean", "Boolean", Bare(ByteReader.boolean, lambda data, value: data.data.append(value))),
}

STRING = Bare(ByteReader.string, ByteWriter.string)
TEXT_BUFFER = Bare(ByteReader.string, ByteWriter.text_of_buffer)


def _read_bytes(data: ByteReader) -> bytes | None:
    length = data.unsigned()
    return None if length == 0 else data.take(length - 1)


def _write_bytes(data: ByteWriter, value: bytes) -> None:
    data.unsigned(len(value) + 1)
    data.data += value


def _read_big_integer(data: ByteReader) -> int | None:
    length = data.unsigned() - 1
    if length < 0:
        return None
    if not 0 < length <= _MOST_INTEGER_BYTES:
        data.fail(f"a BigInteger of {length} bytes, where 1 to {_MOST_INTEGER_BYTES} are read")
    return int.from_bytes(data.take(length), "big", signed=True)


def _write_big_integer(data: ByteWriter, value: int) -> None:
    length = (value if value >= 0 else ~value).bit_length() // 8 + 1
    _write_bytes(data, value.to_bytes(length, "big", signed=True))


def _read_date(data: ByteReader) -> int:
    millis = data.unsigned_long()
    return millis - 2**64 if millis >= 2**63 else millis


def _read_uuid(data: ByteReader) -> uuid.UUID:
    least, most = data.signed_long(), data.signed_long()
    return uuid.UUID(int=(most % 2**64) << 64 | least % 2**64)


def _write_uuid(data: ByteWriter, value: uuid.UUID) -> None:
    for half in (value.int % 2**64, value.int >> 64):
        data.signed_long(half - 2**64 if half >= 2**63 else half)


BYTES = Bare(_read_bytes, _write_bytes)
BIG_INTEGER = Bare(_read_big_integer, _write_big_integer)
DATE = Bare(_read_date, lambda data, millis: data.unsigned_long(millis % 2**64))
UUID = Bare(_read_uuid, _write_uuid)


def _read_big_decimal(reader: ObjectReader, _: str) -> JavaValue | None:
    unscaled = _read_big_integer(reader.bytes)
    return None if unscaled is None else JavaScalar("bigdecimal", unscaled, detail=reader.bytes.signed())


def _write_big_decimal(writer: ObjectWriter, value: JavaScalar) -> None:
    _write_big_integer(writer.bytes, value.value)
    writer.bytes.signed(value.detail)


BIG_DECIMAL = ReadWrite(_read_big_decimal, _write_big_decimal)
