"""Plain values as msgpack and back: the default encoding of keys, values and the tuples between tasks.

Types are kept: a tuple stays a tuple, an int of any size an int. Decoding never runs code.
"""

import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgpack

from anchorbolt.errors import SerializationError, UnsupportedValue
from anchorbolt.util.messages import shortened
from anchorbolt.util.plain import PLAIN_TYPES, plain, unsupported

_LARGEST_INT_BYTES = 4096
_LEAST_INT, _MOST_INT = -(2**63), 2**64 - 1  # the integers that msgpack encodes itself
_UNREADABLE = (ValueError, TypeError, RecursionError, AttributeError, ArithmeticError)


def pack(value: Any) -> bytes:
    """Encode a value as msgpack.

    Supported: None, bool, int, float, str, bytes, list, tuple, dict, set, frozenset, datetime, date, time,
    timedelta, Decimal, UUID, complex, and values that `plain` converts to one of these, which decode to the converted
    value.

    Raises:
        UnsupportedValue: The value, or one inside it, is of another type, too deep, or text that is not valid Unicode.
    """
    try:
        return _packed(value)
    except REFUSALS as error:
        raise explained(value, _packed, error) from error


def pack_many(values: Iterable[Any]) -> list[bytes]:
    """Encode values one by one, four times as fast as `pack` does. Raises `UnsupportedValue`."""
    values = list(values)
    try:
        return list(map(_packer().pack, values))
    except REFUSALS:
        return [pack(value) for value in values]  # raises again, and names the value


def packed_tuple(value: tuple[Any, ...]) -> bytes | None:
    """Return what `pack` returns, several times as fast, for a tuple of simple values; None for any other tuple."""
    if not _SIMPLE.issuperset(map(type, value)):
        return None
    try:
        members: bytes = _simple_packer.pack(list(value))
    except REFUSALS:
        _renew_simple_packer()
        return None
    return _TUPLE_HEADS[len(members)] + members if len(members) < len(_TUPLE_HEADS) else None


def unpack(data: bytes) -> Any:
    """Decode the result of `pack`.

    Raises:
        SerializationError: The bytes are not a whole, valid encoding.
    """
    try:
        return msgpack.unpackb(data, raw=False, use_list=True, strict_map_key=False, ext_hook=_decode_extension)
    except SerializationError:
        raise
    except (*_UNREADABLE, msgpack.exceptions.UnpackException) as error:
        raise SerializationError(
            f"cannot decode {len(data)} bytes as msgpack: {str(error) or type(error).__name__}"
        ) from error


def unpack_many(parts: Sequence[bytes]) -> list[Any]:
    """Decode results of `pack`, several times as fast as `unpack` does. Raises `SerializationError`."""
    unpacker = msgpack.Unpacker(
        raw=False, use_list=True, strict_map_key=False, ext_hook=_decode_extension, max_buffer_size=0
    )
    try:
        unpacker.feed(b"".join(parts))
        values = list(unpacker)
    except (*_UNREADABLE, SerializationError, msgpack.exceptions.UnpackException):
        values = []
    return values if len(values) == len(parts) else [unpack(part) for part in parts]  # raises for the wrong one


def _packed(value: Any) -> bytes:
    return _packer().pack(value)  # type: ignore[no-any-return]


def _packer() -> msgpack.Packer:
    # A Packer that raised keeps its partial output. A new one costs 0.2 us, less than checking it.
    return msgpack.Packer(default=_encode_extension, strict_types=True, use_bin_type=True)


def _encode_extension(value: Any) -> Any:
    kind = type(value)
    if kind not in PLAIN_TYPES:
        value = plain(value)
        kind = type(value)
        # An int of more than 64 bits must not be returned as it is: this is not called again for it.
        if kind not in _EXTENSIONS or (kind is int and _LEAST_INT <= value <= _MOST_INT):
            return value
    if kind in _EXTENSIONS:
        code, encode, _ = _EXTENSIONS[kind]
        return msgpack.ExtType(code, encode(value))
    raise unsupported(value)


def _decode_extension(code: int, data: bytes) -> Any:
    if code not in _DECODERS:
        raise SerializationError(f"unknown extension type {code}, {len(data)} bytes: not written by this version")
    return _DECODERS[code](data)


def _encode_int(value: int) -> bytes:
    length = (value.bit_length() + 8) // 8
    if length > _LARGEST_INT_BYTES:
        raise UnsupportedValue(f"an int of {length} bytes is too large; the limit is {_LARGEST_INT_BYTES} bytes")
    return value.to_bytes(length, "big", signed=True)


def _decode_int(data: bytes) -> int:
    if len(data) > _LARGEST_INT_BYTES:
        raise SerializationError(f"an int of {len(data)} bytes is too large; the limit is {_LARGEST_INT_BYTES} bytes")
    return int.from_bytes(data, "big", signed=True)


def _decode_timedelta(data: bytes) -> dt.timedelta:
    days, seconds, microseconds = unpack(data)
    return dt.timedelta(days, seconds, microseconds)


def _decode_complex(data: bytes) -> complex:
    real, imaginary = unpack(data)
    return complex(real, imaginary)


def _encode_iso(value: Any) -> bytes:
    return value.isoformat().encode()  # type: ignore[no-any-return]


def _encode_set(value: Any) -> bytes:
    return _packed(sorted(map(_packed, value)))


# The code of a type never changes: it is stored.
_EXTENSIONS: dict[type, tuple[int, Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    tuple: (1, lambda value: _packed(list(value)), lambda data: tuple(unpack(data))),
    int: (2, _encode_int, _decode_int),  # beyond the 64 bits of msgpack
    set: (3, _encode_set, lambda data: set(map(unpack, unpack(data)))),
    frozenset: (4, _encode_set, lambda data: frozenset(map(unpack, unpack(data)))),
    dt.datetime: (5, _encode_iso, lambda data: dt.datetime.fromisoformat(data.decode())),
    dt.date: (6, _encode_iso, lambda data: dt.date.fromisoformat(data.decode())),
    dt.time: (7, _encode_iso, lambda data: dt.time.fromisoformat(data.decode())),
    dt.timedelta: (8, lambda value: _packed([value.days, value.seconds, value.microseconds]), _decode_timedelta),
    decimal.Decimal: (9, lambda value: str(value).encode(), lambda data: decimal.Decimal(data.decode())),
    uuid.UUID: (10, lambda value: value.bytes, lambda data: uuid.UUID(bytes=data)),
    complex: (11, lambda value: _packed([value.real, value.imag]), _decode_complex),
}
_DECODERS = {code: decode for code, _, decode in _EXTENSIONS.values()}


_SIMPLE = frozenset({str, int, bytes, bool, type(None)})
_TUPLE_HEADS = [bytes(msgpack.packb(msgpack.ExtType(1, bytes(size))))[: -size or None] for size in range(256)]
"""What comes before the members of a tuple, by their size."""
_simple_packer = msgpack.Packer(strict_types=True, use_bin_type=True)


def _renew_simple_packer() -> None:
    global _simple_packer
    _simple_packer = msgpack.Packer(strict_types=True, use_bin_type=True)


REFUSALS = (UnsupportedValue, ValueError, TypeError, OverflowError, RecursionError)
"""The exceptions of an encoder for an unsupported value."""


def explained(value: Any, encode: Callable[[Any], bytes], error: Exception) -> UnsupportedValue:
    """Return the error for a value that `encode` has refused with `error`."""
    path = ""
    while not _is_too_deep(error):
        found = _refused_part(value, encode)
        if found is None:
            break
        step, value, error = found
        path += step
    where = f"at {path}: " if path else ""
    if isinstance(error, UnsupportedValue):
        return UnsupportedValue(f"{where}{error.message}")
    what = f"{where}cannot encode {shortened(value)}, a value of type {type(value).__name__}"
    if _is_too_deep(error):
        return UnsupportedValue(f"{what}: it is nested too deep, or holds itself. Nest values less deep.")
    return UnsupportedValue(f"{what}: {str(error).rstrip('. ')}. Use plain values, and text that is valid Unicode.")


def _refused_part(value: Any, encode: Callable[[Any], bytes]) -> tuple[str, Any, Exception] | None:
    for step, part in _parts(value):
        try:
            encode(part)
        except REFUSALS as error:
            return step, part, error
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list | tuple):
        yield from ((f"[{position}]", part) for position, part in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from (("{…}", part) for part in value)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield ".keys()", key
            yield f"[{shortened(key, 40)}]", part


def _is_too_deep(error: Exception) -> bool:
    return isinstance(error, RecursionError) or "recursion limit" in str(error)


def refused_value(
    emitter: str, stream: str, fields: Sequence[str], columns: Sequence[Sequence[Any]]
) -> UnsupportedValue:
    """Return the error for the first value in these columns that cannot be encoded. There must be such a value.

    `emitter` names the emitter, such as "component 'a'".
    """
    where = f"{emitter} emitted to stream {stream!r}"
    for field, column in zip(fields, columns, strict=True):
        for value in column:
            try:
                pack(value)
                pack([[[value]]])  # it is sent at this depth
            except UnsupportedValue as error:
                return UnsupportedValue(
                    f"{where} for the field {field!r} the value {shortened(value)}, which cannot be sent: "
                    f"{error.message}"
                )
    return UnsupportedValue(f"{where} values that cannot be sent together: {shortened(columns, 200)}")
