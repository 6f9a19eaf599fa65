"""What a hash holds: Base64 text of Storm 1.0 or 1.1, binary data, or something that cannot be told. Pure.

Decided for the hash as a whole, never for a single field, by the first of these that applies:

1. Each value is in the wrapper of a Storm from 1.1 on: binary.
2. Each field and value is Base64, and
   a. each value decodes to the wrapper of Storm 1.1: Base64 of Storm 1.1;
   b. no value does, and one of them is padded by `=` or broken into lines, or all decode to what Kryo or a serializer
      of text writes: Base64 of Storm 1.0.
3. Nothing is surely Base64 (by 2b, looking at each field and value alone), and something cannot be: binary.

All else is refused by name. What Storm itself keeps in binary falls under 1, and can never be Base64, because each
value begins with a control character. So rule 2 leaves room for one mistake: a hash that is not Storm's, or was written
by serializers of the user's own and lost its wrappers, and consists of words of the Base64 alphabet. Of such words,
unless padded, 2b asks that all decode to something that a serializer writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from anchorbolt.migration_tools.base64_to_binary.kryo_look import looks_serialised
from anchorbolt.storm.base64_text import decode, looks_like_base64, problem
from anchorbolt.storm.wrapper import Generation, unwrap

_SHOWN = 60


class Content(Enum):
    """What a hash holds."""

    STORM_1_0 = "storm-1.0"
    STORM_1_1 = "storm-1.1"
    BINARY = "binary"


@dataclass(frozen=True)
class Verdict:
    """What was found.

    Attributes:
        content: What the hash holds; None where that cannot be told, or where something is wrong with it.
        reason: Why it cannot be told, as a clause that names the field; empty where it can.
        wrapped_as_1_1: Whether it is binary, but still in the wrapper of Storm 1.1.
    """

    content: Content | None
    reason: str = ""
    wrapped_as_1_1: bool = False


class Recognition:
    """Looks at all entries of a hash, page by page."""

    def __init__(self) -> None:
        self._entries = 0
        self._binary = self._binary_as_1_1 = 0
        self._wrapped = self._odd = self._sure = self._unsure = self._marked = 0
        self._foreign = 0
        self._first_odd = self._first_bare = self._first_wrapped = self._first_base64 = ""

    def add(self, page: list[bytes]) -> None:
        """Look at fields and values, in turn."""
        for field, value in zip(page[::2], page[1::2], strict=True):
            self._entries += 1
            wrapped = unwrap(value)
            if wrapped is not None:
                self._binary += 1
                self._binary_as_1_1 += wrapped.generation is Generation.STORM_1_1
            self._look(field, field, "")
            data = self._look(value, field, "the value of ")
            if data is not None:
                self._look_for_wrapper(data, field)

    def verdict(self) -> Verdict:
        """Return what all that was looked at is."""
        if self._entries and self._binary == self._entries:
            return Verdict(Content.BINARY, wrapped_as_1_1=self._binary_as_1_1 > 0)
        if not self._odd:
            return self._of_base64()
        if not (self._sure or self._wrapped) and self._foreign:
            return Verdict(Content.BINARY)
        if self._odd > self._entries and self._first_base64:  # of twice as many fields and values
            return Verdict(None, f"{self._first_base64} is Base64, and most of the others are not")
        return Verdict(None, self._first_odd)

    def _of_base64(self) -> Verdict:
        if self._wrapped == self._entries and self._wrapped:
            return Verdict(Content.STORM_1_1)
        if self._wrapped:
            few = self._first_bare if 2 * self._wrapped > self._entries else self._first_wrapped
            return Verdict(None, few)
        if self._marked or (self._sure and not self._unsure):
            return Verdict(Content.STORM_1_0)
        return Verdict(
            None,
            "all of it could be Base64, but it does not decode to what Storm writes, so it may be binary as well",
        )

    def _look(self, text: bytes, field: bytes, whose: str) -> bytes | None:
        data = decode(text)
        if data is None:
            self._odd += 1
            # Binary data has bytes that no Base64 has; what has not is taken for damaged Base64.
            self._foreign += not looks_like_base64(text)
            self._first_odd = self._first_odd or f"{whose}{shown_field(field)} is no Base64: {problem(text)}"
            return None
        marked = is_marked(text)
        looks = marked or looks_serialised(data)
        self._marked += marked
        self._sure += looks is True
        self._unsure += looks is False
        if looks:
            self._first_base64 = self._first_base64 or f"{whose}{shown_field(field)}"
        return data

    def _look_for_wrapper(self, data: bytes, field: bytes) -> None:
        if unwrap(data, Generation.STORM_1_1) is not None:
            self._wrapped += 1
            self._first_wrapped = self._first_wrapped or (
                f"the value of {shown_field(field)} is in the wrapper of Storm 1.1, and most of the others are not"
            )
        else:
            self._first_bare = self._first_bare or (
                f"the value of {shown_field(field)} is not in the wrapper of Storm 1.1 as most of the others are"
            )


def is_marked(text: bytes) -> bool:
    """Whether a Base64 text has what other text hardly has by chance: padding, or a line break."""
    return text.endswith((b"=", b"\n")) or b"\n" in text


def shown_field(field: bytes) -> str:
    """Return a field's name for a message, shortened where it is long."""
    shortened = field if len(field) <= _SHOWN else field[:_SHOWN] + b"..."
    return f"field {shortened.decode('latin-1')!r}" if shortened.isascii() else f"field {shortened!r}"
