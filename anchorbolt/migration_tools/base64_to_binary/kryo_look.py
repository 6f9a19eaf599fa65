"""Whether bytes can be the beginning of what Kryo 3 writes for a key or a value of Storm 1.0. Pure.

A look, not a decoder: it is to tell Base64 text from other text that happens to be Base64. Kryo begins with the class:
0 for null, 1 for a class by its name, an id + 2 otherwise, of which 10 and up are registered by the user.
"""

from __future__ import annotations

import string

__all__ = ["could_be_kryo_or_text"]

_PRINTABLE = string.printable.encode()
_BY_NAME, _FIRST_OF_USER, _LAST_OF_USER = 1, 12, 40
# Of each class without a name: shortest and longest whole encoding, class included.
_LENGTHS = {
    0: (1, 1),
    2: (2, 6),
    4: (5, 5),
    5: (2, 2),
    6: (2, 2),
    7: (3, 3),
    8: (3, 3),
    9: (2, 10),
    10: (9, 9),
}
_STRING = b"\x03\x01"
_NAME_STARTS = string.ascii_letters.encode() + b"[$_"


def could_be_kryo_or_text(data: bytes) -> bool:
    """Whether Kryo can have written this, or a serializer that writes text, such as JSON; empty data can be both."""
    if not data.translate(None, _PRINTABLE):
        return True
    first = data[0]
    if first in _LENGTHS:
        shortest, longest = _LENGTHS[first]
        return shortest <= len(data) <= longest
    if first == _BY_NAME:
        return len(data) > 3 and data[1] == 0 and data[2] in _NAME_STARTS
    if first == _STRING[0]:
        return len(data) > 2 and data.startswith(_STRING)
    return _FIRST_OF_USER <= first <= _LAST_OF_USER and data[1:2] == b"\x01"
