"""A small encoder of Kryo's atoms, after the description of the format and apart from the decoder."""

import struct

__all__ = ["Encoder"]


class Encoder:
    """Writes what Kryo 3 and 4 write, or Kryo 5."""

    def __init__(self, *, kryo_5: bool) -> None:
        self.kryo_5 = kryo_5
        self.marker = b"" if kryo_5 else b"\x01"

    def number(self, value: int, most_bytes: int = 5) -> bytes:
        """Seven bits a byte, lowest first; the ninth byte of a long has eight."""
        encoded = bytearray()
        while value >= 0x80 and len(encoded) < most_bytes - 1:
            encoded.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*encoded, value])

    def signed(self, value: int, most_bytes: int = 5) -> bytes:
        return self.number(value * 2 if value >= 0 else -value * 2 - 1, most_bytes)

    def flagged(self, flag: bool, value: int) -> bytes:
        first = flag << 7 | value & 0x3F
        return bytes([first]) if value < 0x40 else bytes([first | 0x40]) + self.number(value >> 6)

    def fixed(self, letter: str, value: float) -> bytes:
        return struct.pack(("<" if self.kryo_5 else ">") + letter, value)

    def text(self, value: str) -> bytes:
        """A string's characters, with the length or end."""
        if value.isascii() and 1 < len(value) <= (32 if self.kryo_5 else 63):
            return value[:-1].encode() + bytes([ord(value[-1]) | 0x80])
        units = value.encode("utf-16-le", "surrogatepass")
        codes = struct.unpack(f"<{len(units) // 2}H", units)
        return self.flagged(True, len(codes) + 1) + b"".join(
            chr(code).encode("utf-8", "surrogatepass") for code in codes
        )

    def string(self, value: str) -> bytes:
        return b"\x03" + self.marker + self.text(value)

    def named(self, class_name: str, index: int = 0) -> bytes:
        """A class that is new in the stream, and the marker."""
        return b"\x01" + self.number(index) + self.text(class_name) + self.marker

    def again(self, index: int) -> bytes:
        """A class that was named before, and the marker."""
        return b"\x01" + self.number(index) + self.marker
