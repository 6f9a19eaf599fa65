"""Reads and writes the numbers and strings of a Kryo stream.

The bytes are read strictly: bytes that Kryo would read but never writes are refused, such as a number or a character in
more bytes than it needs. No length is trusted: memory is allocated only for bytes that exist.
"""

import re
from array import array
from typing import NoReturn

from anchorbolt.errors import SerializationError

_LAST_OF_ASCII = re.compile(rb"[\x80-\xff]")


class ByteReader:
    """Reads bytes from the front. Each method raises `SerializationError` for bytes that Kryo does not write."""

    def __init__(self, data: bytes, *, little_endian: bool) -> None:
        """Numbers of fixed size are little-endian in Kryo 5, and big-endian before."""
        self.position = 0
        self._data = data
        self._little_endian = little_endian

    @property
    def remaining(self) -> int:
        return len(self._data) - self.position

    def fail(self, problem: str) -> NoReturn:
        raise SerializationError(
            f"cannot decode {len(self._data)} bytes as Storm's Kryo: {problem}, at byte {self.position}"
        )

    def byte(self) -> int:
        if self.position >= len(self._data):
            self.fail("they end too early")
        self.position += 1
        return self._data[self.position - 1]

    def take(self, count: int) -> bytes:
        if count > self.remaining:
            self.fail(f"{count} bytes should follow, and {self.remaining} do")
        self.position += count
        return self._data[self.position - count : self.position]

    def boolean(self) -> bool:
        byte = self.byte()
        if byte > 1:
            self.fail(f"{byte} where 0 or 1 should be")
        return byte == 1

    def unsigned(self) -> int:
        """Read a number of 32 bits in one to five bytes."""
        return self._rest_of_unsigned(self.byte(), 7)

    def signed(self) -> int:
        """Read a number of 32 bits with its sign in the lowest bit."""
        number = self.unsigned()
        return number >> 1 ^ -(number & 1)

    def flagged(self) -> tuple[bool, int]:
        """Read a flag and a number of 32 bits, which share their first byte."""
        first = self.byte()
        number = first & 0x3F
        if first & 0x40:
            number |= self._rest_of_unsigned(0x80, 6)
        return first >= 0x80, number

    def unsigned_long(self) -> int:
        """Read a number of 64 bits in one to nine bytes; the ninth holds eight bits, the others seven."""
        number, shift, byte = 0, 0, 0x80
        while byte >= 0x80 and shift <= 56:
            byte = self.byte()
            number |= (byte if shift == 56 else byte & 0x7F) << shift
            shift += 7
        if not byte and shift > 7:
            self.fail("a number in more bytes than it needs")
        return number

    def signed_long(self) -> int:
        """Read a number of 64 bits with its sign in the lowest bit."""
        number = self.unsigned_long()
        return number >> 1 ^ -(number & 1)

    def fixed(self, size: int, *, signed: bool = False) -> int:
        """Read a number of `size` bytes."""
        return int.from_bytes(self.take(size), "little" if self._little_endian else "big", signed=signed)

    def string(self) -> str | None:
        """Read a string; None is null. It may hold lone surrogates."""
        if not self.remaining:
            self.fail("they end too early")
        if self._data[self.position] < 0x80:
            return self._ascii()
        _, length = self.flagged()
        return None if length == 0 else self._units(length - 1)

    def _rest_of_unsigned(self, byte: int, shift: int) -> int:
        """Read the rest of a number after its first `shift` bits."""
        number = byte & 0x7F
        while byte >= 0x80:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if not byte:
                self.fail("a number in more bytes than it needs")
            if number >> 32 or shift > 28:
                self.fail("a number of more than 32 bits")
            shift += 7
        return number

    def _ascii(self) -> str:
        last = _LAST_OF_ASCII.search(self._data, self.position)
        if last is None:
            self.fail("a string that does not end")
        text = self.take(last.end() - self.position)
        return (text[:-1] + bytes([text[-1] & 0x7F])).decode("ascii")

    def _units(self, count: int) -> str:
        """Read `count` units of UTF-16. Kryo writes each unit by itself, as one to three bytes."""
        if count > self.remaining:
            self.fail(f"a string of {count} characters should follow, and {self.remaining} bytes do")
        start = end = self.position
        if self._data[start : start + count].isascii():
            return self.take(count).decode("ascii")
        for _ in range(count):
            first = self._data[end] if end < len(self._data) else 0
            end += 1 if first < 0x80 else 2 if first < 0xE0 else 3
        try:
            units = self.take(end - start).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            self.fail("a string with bytes that are no characters")
        if len(units) != count:
            self.fail("a string with a character that is not of UTF-16")
        # Joins each pair of surrogates into one character.
        return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class ByteWriter:
    """Writes numbers and strings to `data`."""

    def __init__(self, *, kryo_5: bool) -> None:
        """Numbers of fixed size are little-endian in Kryo 5, and big-endian before."""
        self.data = bytearray()
        self._kryo_5 = kryo_5
        self._longest_ascii = 32 if kryo_5 else 63

    def unsigned(self, number: int) -> None:
        """Write a number of 32 bits in one to five bytes."""
        while number >= 0x80:
            self.data.append(number & 0x7F | 0x80)
            number >>= 7
        self.data.append(number)

    def signed(self, number: int) -> None:
        """Write a number of 32 bits with its sign in the lowest bit."""
        self.unsigned((number << 1 ^ number >> 31) & 0xFFFF_FFFF)

    def flagged(self, flag: bool, number: int) -> None:
        """Write a flag and a number of 32 bits, which share their first byte."""
        first = flag << 7 | number & 0x3F
        if number < 0x40:
            self.data.append(first)
        else:
            self.data.append(first | 0x40)
            self.unsigned(number >> 6)

    def unsigned_long(self, number: int) -> None:
        """Write a number of 64 bits in one to nine bytes; the ninth holds eight bits, the others seven."""
        for _ in range(8):
            if number < 0x80:
                break
            self.data.append(number & 0x7F | 0x80)
            number >>= 7
        self.data.append(number)

    def signed_long(self, number: int) -> None:
        """Write a number of 64 bits with its sign in the lowest bit."""
        self.unsigned_long((number << 1 ^ number >> 63) & 0xFFFF_FFFF_FFFF_FFFF)

    def fixed(self, size: int, number: int) -> None:
        """Write a number of `size` bytes."""
        self.data += number.to_bytes(size, "little" if self._kryo_5 else "big", signed=number < 0)

    def class_name(self, name: str) -> None:
        """Write the name of a class. Kryo 5 writes it without its length, unlike a string, even if it is long."""
        self.string(name, len(name) if self._kryo_5 else self._longest_ascii)

    def string(self, text: str, longest_ascii: int | None = None) -> None:
        """Write a string. Kryo marks the last byte of short ASCII, and writes the length of other texts."""
        if 1 < len(text) <= (longest_ascii or self._longest_ascii) and text.isascii():
            self.data += text.encode("ascii")
            self.data[-1] |= 0x80
        else:
            self._units(text)

    def text_of_buffer(self, text: str) -> None:
        """Write the text of a StringBuilder. Before Kryo 5 it has a length even if it is short ASCII."""
        if self._kryo_5:
            self.string(text)
        else:
            self._units(text)

    def _units(self, text: str) -> None:
        """Write the length, and each unit of UTF-16 by itself, as one to three bytes."""
        if not text.isascii():
            codes = array("H", text.encode("utf-16", "surrogatepass")[2:])  # without the mark of the byte order
            text = "".join(map(chr, codes))
        self.flagged(True, len(text) + 1)
        self.data += text.encode("utf-8", "surrogatepass")
