"""Wraps and unwraps the values that Storm's key-value state keeps in Redis, in the five generations of the format.

Since 1.1 Storm keeps `Optional.of(value)`, and `Optional.absent()` for a deleted key (a tombstone). The object inside
is a byte array, the payload: the serialised value, a separate Kryo stream.

    1.0        payload, without any wrapper
    1.1        Guava's Optional: class by its name, reference marker, class of the byte array, its marker, length + 1
    1.2        the same with the class names of Storm's shaded Guava
    2.0 - 2.5  java.util.Optional, registered as id 10
    2.6 - 2.8  the same with id 9, and without markers: Kryo 5

Storm 1.0 and 1.1 keep Base64 text. All functions here expect bytes after Base64 decoding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple


class Generation(Enum):
    """Releases of Storm with the same format, named by the first. No release reads another generation's state."""

    STORM_1_0 = "1.0"
    STORM_1_1 = "1.1"
    STORM_1_2 = "1.2"
    STORM_2_0 = "2.0"
    STORM_2_6 = "2.6"

    @property
    def label(self) -> str:
        """For messages: "Storm 1.1"."""
        return f"Storm {self.value}"

    @classmethod
    def of_release(cls, release: str) -> Generation | None:
        """Return the generation of a release, such as `2.8` or `1.2.4`; None if it is not from 1.0 to 2.8."""
        found = re.fullmatch(r"([12])\.([0-9])(\.[0-9]+)?", release)
        number = (found[1], found[2]) if found else ("0", "0")
        if not ("1", "0") <= number <= ("1", "2") and not ("2", "0") <= number <= ("2", "8"):
            return None
        return next(each for each in reversed(cls) if tuple(each.value.split(".")) <= number)

    @property
    def writes_base64(self) -> bool:
        """Whether these releases keep Base64 text in Redis."""
        return self in (Generation.STORM_1_0, Generation.STORM_1_1)


class Wrapped(NamedTuple):
    """One stored value without its wrapper."""

    generation: Generation
    payload: bytes | None  # None for a tombstone


class _Form(NamedTuple):
    before_length: bytes
    tombstone: bytes


_GUAVA = b"com.google.common.base."
_SHADED = b"org.apache.storm.shade." + _GUAVA
_ARRAY = b"[\xc2"  # the class name "[B", as Kryo writes short ASCII: the top bit of its last byte is set


def _guava(package: bytes) -> _Form:
    # 1: a class by name; 0: the stream's first name; the name; 1: a new object. The array's class is name 1.
    present, absent = b"\x01\x00" + package + b"Presen\xf4\x01", b"\x01\x00" + package + b"Absen\xf4\x01"
    return _Form(present + b"\x01\x01" + _ARRAY + b"\x01", absent)


_FORMS = {
    Generation.STORM_1_1: _guava(_GUAVA),
    Generation.STORM_1_2: _guava(_SHADED),
    Generation.STORM_2_0: _Form(b"\x0c\x01\x01\x00" + _ARRAY + b"\x01", b"\x0c\x01\x00"),
    Generation.STORM_2_6: _Form(b"\x0b\x01\x00" + _ARRAY, b"\x0b\x00"),
}


def unwrap(value: bytes, generation: Generation | None = None) -> Wrapped | None:
    """Remove the wrapper from a stored value. Return None if the whole value is not a wrapper.

    Pass the generation if you know it (Base64 text can have only the wrapper of 1.1): a value of Storm 1.0, without a
    wrapper, can look like a value of Storm 2. An empty list of a class with the registered id 10 has the same bytes as
    the tombstone of 2.0.
    """
    for each, form in _FORMS.items():
        if generation not in (None, each):
            continue
        if value == form.tombstone:
            return Wrapped(each, None)
        if value.startswith(form.before_length):
            start = end = len(form.before_length)
            while end < len(value) and value[end] >= 0x80:
                end += 1
            end += 1  # the last byte of the length is below 0x80
            # Compared as bytes, to reject a length in more bytes than Kryo needs.
            if value[start:end] == _encoded(len(value) - end + 1):
                return Wrapped(each, value[end:])
    return None


def wrap(payload: bytes | None, generation: Generation) -> bytes:
    """Wrap a serialised value as this generation does, or return its tombstone for None. Not for Storm 1.0."""
    form = _FORMS[generation]
    return form.tombstone if payload is None else form.before_length + _encoded(len(payload) + 1) + payload


def wrap_for_storm_1_2(payload: bytes | None) -> bytes:
    """Wrap a value that Storm 1.0, 1.1 or 1.2 serialised, or return the tombstone for None."""
    return _TOMBSTONE_1_2 if payload is None else _BEFORE_1_2 + _encoded(len(payload) + 1) + payload


def rewrap_for_storm_1_2(values: Sequence[bytes]) -> list[bytes | None]:
    """Replace the wrapper of Storm 1.1 by that of Storm 1.2; return None for each value that `unwrap` would refuse.

    Several times as fast as `unwrap` and `wrap_for_storm_1_2`.
    """
    before, after, start = _BEFORE_1_1, _BEFORE_1_2, _START_1_1
    # Inlined for the usual case: the payload's length + 1 takes one byte.
    return [
        after + value[start:]
        if value.startswith(before) and 0 < (length := len(value) - start) < 0x80 and value[start] == length
        else _rewrapped(value)
        for value in values
    ]


def first_in_storm_1_1_wrapper(values: Sequence[bytes]) -> int | None:
    """Return the index of the first value in the wrapper of Storm 1.1, or None."""
    starts = (index for index, value in enumerate(values) if value.startswith(_GUAVA_START))
    return next((index for index in starts if unwrap(values[index], Generation.STORM_1_1)), None)


def _rewrapped(value: bytes) -> bytes | None:
    wrapped = unwrap(value, Generation.STORM_1_1)
    return None if wrapped is None else wrap_for_storm_1_2(wrapped.payload)


# Looked up once, because hashing an enum member is slow and these are used for each of millions of values.
_BEFORE_1_1 = _FORMS[Generation.STORM_1_1].before_length
_BEFORE_1_2, _TOMBSTONE_1_2 = _FORMS[Generation.STORM_1_2]
_START_1_1 = len(_BEFORE_1_1)
_GUAVA_START = b"\x01\x00" + _GUAVA
_ONE_BYTE = [bytes([number]) for number in range(0x80)]


def _encoded(number: int) -> bytes:
    if number < 0x80:
        return _ONE_BYTE[number]
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
