"""The hash that assigns keys to tasks: the same in every process, Python version and machine.

It must never change, because it decides which task's namespace stores a key. Never use Python's `hash` of a string.
"""

from __future__ import annotations

import datetime
import decimal
import reprlib
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

from anchorbolt.errors import UnsupportedValue
from anchorbolt.util.keys import canonical_key, is_known_by_equality
from anchorbolt.util.plain import PLAIN_TYPES, plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MASK = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF
_SPREAD = 0x9E3779B1
"""An odd number near 2**32 / golden ratio: a multiplication by it spreads every bit of a CRC to the high bits."""
_SPREAD_64 = 0x9E3779B97F4A7C15
_STEP = 0x01000193
_SMALL = 2**61 - 1
"""Below this, Python's hash of an int is the int itself (except -1)."""

_BYTES, _TUPLE, _NONE, _NAN, _DATETIME, _DATE, _TIME, _TIMEDELTA, _UUID = range(2, 11)
"""Seed of each type, so that b"a" and "a", or None and 0, hash differently."""


def stable_hash(key: Any) -> int:
    """Return an unsigned 32-bit hash of a key: the same in every process, Python version and machine.

    Keys with the same canonical form (`util.keys`) have the same hash, and so do equal numbers of different types
    (`1 == True == 1.0 == Decimal(1)`; also in tuples). The high bits are well spread: `stable_hash(key) * n >> 32`
    distributes keys evenly over n tasks. The hash decides which task stores a key, so it never changes; the tests pin
    its values.

    Args:
        key: None, bool, int, float, str, bytes, Decimal, datetime, date, time, timedelta, UUID, a tuple of these, or a
            value that `plain` converts to one of these.

    Raises:
        UnsupportedValue: The key has another type, or its tuples are nested too deep.
    """
    if type(key) is str:
        try:
            return crc32(key.encode()) * _SPREAD & _MASK
        except UnicodeEncodeError:  # a lone surrogate
            return crc32(key.encode("utf-8", "surrogatepass")) * _SPREAD & _MASK
    try:
        return _hasher(key)(key) * _SPREAD & _MASK
    except RecursionError:
        raise UnsupportedValue("Cannot hash a key: its tuples are nested too deep. Group by a flat key.") from None


def destination_of(key_hash: int, destinations: int) -> int:
    """Map a `stable_hash` to an index below `destinations`."""
    return key_hash * destinations >> 32


def destinations_of(hashes: NDArray[np.uint32], destinations: int) -> NDArray[np.intp]:
    """Return `destination_of` for each of these hashes."""
    import numpy as np  # imported here: Spark workers import it anyway, a driver need not

    scaled = hashes.astype(np.uint64)
    scaled *= np.uint64(destinations)
    scaled >>= np.uint64(32)
    return scaled.astype(np.intp)


def combined_hashes(parts: Sequence[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    """Return the `stable_hash` of many keys; each part has the hashes of one field of the keys.

    A key of one field is its value, a key of several fields is their tuple.
    """
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    combined = np.full(len(parts[0]), _TUPLE, dtype=np.uint32)
    for part in parts:
        combined *= np.uint32(_STEP)
        combined ^= part
    combined *= np.uint32(_SPREAD)
    return combined


def hashes_of(column: Sequence[Any]) -> NDArray[np.uint32]:
    """Return the `stable_hash` of each value. For strings and small ints this is much faster than value by value."""
    import numpy as np

    size = len(column)
    try:
        hashes = np.fromiter(map(crc32, map(str.encode, column)), np.uint32, size)
        hashes *= np.uint32(_SPREAD)
        return hashes
    except (TypeError, UnicodeEncodeError):  # some values are not strings, or have lone surrogates
        pass
    if set(map(type, column)) == {int} and min(column) > -_SMALL and max(column) < _SMALL:
        numbers = np.fromiter(column, np.int64, size)
        numbers[numbers == -1] = -2  # as Python's hash does
        mixed = numbers.view(np.uint64)
        mixed ^= mixed >> np.uint64(32)
        mixed *= np.uint64(_SPREAD_64)
        mixed >>= np.uint64(32)
        hashes = mixed.astype(np.uint32)
        hashes *= np.uint32(_SPREAD)
        return hashes
    return np.fromiter(map(_remembering(column), column), np.uint32, size)


def _remembering(column: Sequence[Any]) -> Callable[[Any], int]:
    """Return `stable_hash`, with a memory if some values are equal and all equal ones have the same hash."""
    try:
        distinct = set(column)
    except TypeError:  # a value that is not hashable in Python, but perhaps by `stable_hash`
        return stable_hash
    if 2 * len(distinct) > len(column) or not all(map(is_known_by_equality, distinct)):
        return stable_hash
    return {key: stable_hash(key) for key in distinct}.__getitem__


def _hasher(key: Any) -> Callable[[Any], int]:
    hasher = _HASHERS.get(type(key))
    if hasher is None:
        if type(key) not in PLAIN_TYPES:
            return _hash_as_plain
        raise _refusal(key)
    return hasher


def _refusal(key: Any, reason: str = "") -> UnsupportedValue:
    return UnsupportedValue(
        f"Cannot hash a key of type {type(key).__name__} ({reprlib.repr(key)}). {reason}Group by a value that cannot "
        "change: a str, int, float, bool, bytes, Decimal, datetime, date, time, timedelta, UUID, None, or a tuple "
        "of these."
    )


def _hash_as_plain(key: Any) -> int:
    """Hash the value that the receiving task gets."""
    try:
        value = plain(key)
    except UnsupportedValue as error:
        raise _refusal(key, f"{error.message[:1].upper()}{error.message[1:]} ") from None
    if type(value) not in _HASHERS:
        raise _refusal(key)
    return _HASHERS[type(value)](value)


def _hash_number(key: float | decimal.Decimal) -> int:
    # Python documents its hash of numbers: without a seed, equal across numeric types, the same on all 64-bit builds
    # (PyArrow has no others). Only the hash of NaN is random or raises.
    if key != key:
        return _NAN
    bits = hash(key) & _MASK_64
    return ((bits ^ bits >> 32) * _SPREAD_64 & _MASK_64) >> 32


def _hash_decimal(key: decimal.Decimal) -> int:
    return _NAN if key.is_nan() else _hash_number(key)  # as in the canonical form; comparing a signalling NaN raises


def _hash_tuple(key: tuple[Any, ...]) -> int:
    combined = _TUPLE
    for part in key:
        combined = combined * _STEP & _MASK ^ stable_hash(part)
    return combined


def _hash_datetime(key: datetime.datetime) -> int:
    key = canonical_key(key)
    return crc32(b"%d,%d" % divmod(key.toordinal() * _DAY + _micros(key), _DAY), _DATETIME)


def _micros(key: datetime.datetime | datetime.time) -> int:
    """Return the microseconds since midnight, UTC for a key with a zone: may be below 0 or more than a day."""
    offset = key.utcoffset()
    micros = ((key.hour * 60 + key.minute) * 60 + key.second) * 1_000_000 + key.microsecond
    return micros if offset is None else micros - _timedelta_micros(offset)


def _timedelta_micros(key: datetime.timedelta) -> int:
    return (key.days * 86_400 + key.seconds) * 1_000_000 + key.microseconds


_DAY = 86_400_000_000

_HASHERS: dict[type[Any], Callable[[Any], int]] = {
    int: _hash_number,
    float: _hash_number,
    bool: _hash_number,
    str: lambda key: crc32(key.encode("utf-8", "surrogatepass")),  # of a subclass
    tuple: _hash_tuple,
    bytes: lambda key: crc32(key, _BYTES),
    type(None): lambda _: _NONE,
    decimal.Decimal: _hash_decimal,
    datetime.datetime: _hash_datetime,  # before date: datetime is a subclass of date
    datetime.date: lambda key: crc32(b"%d" % key.toordinal(), _DATE),
    datetime.time: lambda key: crc32(b"%d" % _micros(canonical_key(key)), _TIME),
    datetime.timedelta: lambda key: crc32(b"%d" % _timedelta_micros(key), _TIMEDELTA),
    uuid.UUID: lambda key: crc32(key.bytes, _UUID),
}
