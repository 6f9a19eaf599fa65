"""Finds the form in which Storm stored a hash, from its fields and values.

`detect` names the generation and judges a sample: every entry has to agree. `Recognition` judges a whole hash before a
migration and tells Base64 text from binary data by the first of these rules that applies:

1. Each value is in the wrapper of Storm 1.1 or later: binary.
2. Each field and value is Base64, and
   a. each value decodes to the wrapper of Storm 1.1: Base64 of Storm 1.1;
   b. no value does, and one field or value is padded by `=` or broken into lines, or all decode to what Kryo or a
      serializer of text writes: Base64 of Storm 1.0.
3. No field or value is surely Base64 (by 2b, each judged alone), and one of them cannot be Base64: binary.

Any other hash is refused. Binary data of Storm falls under 1, and is never Base64, because each value begins with a
control character. So rule 2 can be wrong only for a hash that Storm did not write, or that lost its wrappers, and that
consists of words of the Base64 alphabet. If no such word is padded, 2b requires that all of them decode to the output
of a serializer.
"""

import string
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from anchorbolt.errors import SerializationError, UnsupportedJavaClass
from anchorbolt.storm import base64_text
from anchorbolt.storm.kryo.decoder import StormDecoder
from anchorbolt.storm.wrapper import Generation, unwrap

# No configuration registers thirty classes, and printable characters begin at 32.
_HIGHEST_ID = 40
_BY_NAME = 1  # the first byte of an object with a named class
_FIRST_OF_USER = 12  # the first byte of an object of the first class that the user registered
_PRINTABLE = string.printable.encode()
_LONG_TEXT = 6  # bytes: printable text of this length is not by chance
_SHOWN = 60


class StoredForm(NamedTuple):
    """Which Storm serialised a hash's keys and values, and whether they are Base64 text.

    After a migration that only decoded the text, data of Storm 1.0 and 1.1 are not Base64.
    """

    generation: Generation
    base64: bool


_FORMS = (
    *(StoredForm(generation, base64=False) for generation in Generation if generation is not Generation.STORM_1_0),
    StoredForm(Generation.STORM_1_1, base64=True),
    StoredForm(Generation.STORM_1_0, base64=True),
    StoredForm(Generation.STORM_1_0, base64=False),
)
_STORM_1_0 = StormDecoder(Generation.STORM_1_0)


def detect(entries: Iterable[tuple[bytes, bytes]]) -> StoredForm | None:
    """Return the form of a hash, or None if it is empty, or its entries do not agree or are not from Storm.

    `entries` are stored fields and values of a namespace or its `$prepare`, not of its `$txid`. Some
    hundred are enough; `detect` reads all. The classes that Storm's configuration registered need not be known.
    """
    certain = dict.fromkeys(_FORMS, False)
    for field, value in entries:
        for form in list(certain):
            is_certain = _is_certain(form, field, value)
            if is_certain is None:
                del certain[form]
            else:
                certain[form] |= is_certain
    return next((form for form in certain if certain[form]), None)


def _is_certain(form: StoredForm, field: bytes, value: bytes) -> bool | None:
    """Return whether an entry can be only in this form; None if it cannot be in this form."""
    if form.base64:
        decoded = base64_text.decode(field), base64_text.decode(value)
        if decoded[0] is None or decoded[1] is None:
            return None
        field, value = decoded[0], decoded[1]
    if form.generation is not Generation.STORM_1_0:
        return None if unwrap(value, form.generation) is None else True
    key_is, value_is = _is_kryo_3(field), _is_kryo_3(value)
    if key_is is False or value_is is False or unwrap(value, Generation.STORM_1_1) is not None:
        return None
    if form.base64:
        return bool(key_is or value_is)
    # The keys of Storm 1.2 look like keys of 1.0, and its values like an object of a user's class.
    return bool(value_is) and unwrap(value) is None


def _is_kryo_3(data: bytes) -> bool | None:
    """Return whether Kryo 3 wrote these bytes; None if it is unclear because of an unknown registered class."""
    try:
        _STORM_1_0.decode_key(data)
    except UnsupportedJavaClass as unsupported:
        if unsupported.class_id is None:
            return True
        return None if unsupported.class_id <= _HIGHEST_ID else False
    except SerializationError:
        return False
    return True


def looks_serialised(data: bytes) -> bool | None:
    """Return whether Kryo 3 or a serializer of text, such as JSON, can have written this; None for a short text."""
    if not data.translate(None, _PRINTABLE):
        return True if len(data) >= _LONG_TEXT else None
    is_kryo = _is_kryo_3(data)
    if is_kryo is not None:
        return is_kryo
    # A new object of a registered class begins with the class and the marker 1.
    return data[0] == _BY_NAME or (data[0] >= _FIRST_OF_USER and data[1:2] == b"\x01")


class Content(Enum):
    """The content of a hash."""

    STORM_1_0 = "storm-1.0"
    STORM_1_1 = "storm-1.1"
    BINARY = "binary"


@dataclass(frozen=True)
class Verdict:
    """The content of a hash, or the reason why it is unclear."""

    content: Content | None
    reason: str = ""  # a clause that names the field; empty if `content` is known
    wrapped_as_1_1: bool = False  # binary, but still in the wrapper of Storm 1.1


class Recognition:
    """Judges all entries of a hash, page by page."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.first: dict[str, str] = {}  # by count, the first text as the subject of a clause; for `odd`, a clause

    def add(self, page: list[bytes]) -> None:
        """Take the fields and values of a page, alternating."""
        for field, value in zip(page[::2], page[1::2], strict=True):
            self._counts["entries"] += 1
            wrapped = unwrap(value)
            if wrapped is not None:
                self._counts["binary"] += 1
                self._counts["binary as 1.1"] += wrapped.generation is Generation.STORM_1_1
            self._decoded(field, field)
            data = self._decoded(value, field, whose="the value of ")
            if data is not None:
                self._count("bare" if unwrap(data, Generation.STORM_1_1) is None else "wrapped", field, "the value of ")

    def verdict(self) -> Verdict:
        """Return the judgement on all pages added so far."""
        counts, first = self._counts, self.first
        entries, wrapped = counts["entries"], counts["wrapped"]
        if entries and counts["binary"] == entries:
            return Verdict(Content.BINARY, wrapped_as_1_1=counts["binary as 1.1"] > 0)
        if counts["odd"]:
            if not (counts["sure"] or wrapped) and counts["foreign"]:
                return Verdict(Content.BINARY)
            if counts["odd"] > entries and "sure" in first:  # of twice as many fields and values
                return Verdict(None, f"{first['sure']} is Base64, and most of the others are not")
            return Verdict(None, first["odd"])
        if wrapped and wrapped == entries:
            return Verdict(Content.STORM_1_1)
        if 2 * wrapped > entries:
            return Verdict(None, f"{first['bare']} is not in the wrapper of Storm 1.1 as most of the others are")
        if wrapped:
            return Verdict(None, f"{first['wrapped']} is in the wrapper of Storm 1.1, and most of the others are not")
        if counts["marked"] or (counts["sure"] and not counts["unsure"]):
            return Verdict(Content.STORM_1_0)
        return Verdict(
            None, "all of it could be Base64, but it does not decode to what Storm writes, so it may be binary as well"
        )

    def _decoded(self, text: bytes, field: bytes, whose: str = "") -> bytes | None:
        data = base64_text.decode(text)
        if data is None:
            # A text with only Base64 characters counts as damaged Base64, any other text as binary.
            self._counts["foreign"] += not base64_text.looks_like_base64(text)
            self._counts["odd"] += 1
            if "odd" not in self.first:
                self.first["odd"] = f"{whose}{shown_field(field)} is not Base64: {base64_text.problem(text)}"
            return None
        marked = is_marked(text)
        looks = marked or looks_serialised(data)
        self._counts["marked"] += marked
        if looks is not None:
            self._count("sure" if looks else "unsure", field, whose)
        return data

    def _count(self, what: str, field: bytes, whose: str) -> None:
        self._counts[what] += 1
        if what not in self.first:
            self.first[what] = f"{whose}{shown_field(field)}"


def is_marked(text: bytes) -> bool:
    """Return whether a Base64 text has padding or a line break, which are hardly ever there by chance."""
    return text.endswith((b"=", b"\n")) or b"\n" in text


def shown_field(field: bytes) -> str:
    """Return a field's name for a message, shortened if it is long."""
    shortened = field if len(field) <= _SHOWN else field[:_SHOWN] + b"..."
    return f"field {shortened.decode('latin-1')!r}" if shortened.isascii() else f"field {shortened!r}"
