"""Whether bytes can be what Kryo 3 writes for a key or a value of Storm 1.0. Pure.

A look, not a decoder: it is to tell Base64 text from other text that happens to be Base64. Kryo begins with the class:
0 for null, 1 for a class by its name, an id + 2 otherwise, of which 10 and up are registered by the user.
"""

from __future__ import annotations

import string

_PRINTABLE = string.printable.encode()
_LONG_TEXT = 6
"""From how many bytes on text is no accident."""

_BY_NAME, _INT, _STRING, _LONG, _FIRST_OF_USER, _LAST_OF_USER = 1, 2, 3, 9, 12, 40
_WHOLE = {0: 1, 4: 5, 5: 2, 6: 2, 7: 3, 8: 3, 10: 9}
"""Of null and of the classes whose values are all of one length: that length, the class included."""

_MOST_BYTES = {_INT: 5, _LONG: 9}
_NAME_STARTS = string.ascii_letters.encode() + b"[$_"


def looks_serialised(data: bytes) -> bool | None:
    """Return whether Kryo can have written this, or a serializer of text, such as JSON; None for too little of it."""
    if not data.translate(None, _PRINTABLE):
        return True if len(data) >= _LONG_TEXT else None
    first = data[0]
    if first in _WHOLE:
        return len(data) == _WHOLE[first]
    if first in _MOST_BYTES:
        return _is_varint(data[1:], _MOST_BYTES[first])
    if first == _BY_NAME:
        return len(data) > 3 and data[1] == 0 and data[2] in _NAME_STARTS
    if first == _STRING:
        return len(data) > 2 and data[1] == 1
    return _FIRST_OF_USER <= first <= _LAST_OF_USER and data[1:2] == b"\x01"


def _is_varint(data: bytes, most_bytes: int) -> bool:
    if len(data) == most_bytes == 9:  # the ninth byte of a long is a whole one
        return all(byte >= 0x80 for byte in data[:-1])
    return 0 < len(data) <= most_bytes and data[-1] < 0x80 and all(byte >= 0x80 for byte in data[:-1])
