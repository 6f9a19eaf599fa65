"""Converts the entries of one hash from Base64 to binary, page by page. Pure.

Conversion is fast because it expects each entry to have the form of the first one. An entry that has another form
raises `Unfit` before anything is swapped; then `Recognition` reads the whole hash and says what it holds. A hash that
is converted to its end is Base64 by the rules of `stored_form`.
"""

from __future__ import annotations

from binascii import Error as BinasciiError
from binascii import a2b_base64, b2a_base64
from dataclasses import dataclass
from enum import Enum

from anchorbolt.storm.base64_text import decode, problem
from anchorbolt.storm.kryo.stored_form import Content, is_marked, looks_serialised, shown_field
from anchorbolt.storm.wrapper import first_in_storm_1_1_wrapper, rewrap_for_storm_1_2, wrap_for_storm_1_2


class Wrapper(Enum):
    """What a converted value is to be wrapped in: what Storm 1.2 reads, or what it is in already."""

    STORM_1_2 = "storm-1.2"
    KEEP = "keep"


@dataclass(frozen=True)
class MigrationOptions:
    """How to migrate.

    Attributes:
        wrapper: What to wrap the values in.
        content: What the hashes hold; None means to find out.
        dry_run: Whether to do all but write.
    """

    wrapper: Wrapper = Wrapper.STORM_1_2
    content: Content | None = None
    dry_run: bool = False


class Unfit(Exception):
    """The hash is not what its first entry, or the caller, says that it is. The text names the field and says why."""


class Conversion:
    """Converts the pages of one hash, in any order; entries that come twice do not matter.

    Attributes:
        content: What the hash holds: as the caller said, or as the first page shows; None before that.
    """

    def __init__(self, wrapper: Wrapper, content: Content | None = None) -> None:
        """Begin with a hash.

        Args:
            wrapper: What to wrap the values in.
            content: Base64 of which Storm; None means to find out, and to be sure that it is Base64.
        """
        self.content = content
        self._wrapper = wrapper
        self._told = content is not None
        self._marked = self._sure = self._unsure = False

    def page(self, page: list[bytes]) -> list[bytes]:
        """Return the fields and values of a page, converted.

        Raises:
            Unfit: A field or a value is not Base64, or a value is not wrapped as the others are.
        """
        decoded = _decoded(page)
        if self.content is None:
            is_1_1 = rewrap_for_storm_1_2(decoded[1:2]) != [None]
            self.content = Content.STORM_1_1 if is_1_1 else Content.STORM_1_0
        if self.content is Content.STORM_1_1:
            values = rewrap_for_storm_1_2(decoded[1::2])
            if None in values:
                raise self._other_wrapper(page[2 * values.index(None)])
            self._sure = True
        else:
            if not self._told:
                self._look(page, decoded)
            values = [wrap_for_storm_1_2(value) for value in decoded[1::2]] if self._wraps else []
        if self._wraps:
            decoded[1::2] = values  # type: ignore[assignment]  # None is not among them
        return decoded

    def finish(self) -> None:
        """Say that all pages have come.

        Raises:
            Unfit: It may be Base64, but it may be something else as well.
        """
        is_1_1 = self.content is Content.STORM_1_1
        if not (self._told or is_1_1 or self._marked or (self._sure and not self._unsure)):
            raise Unfit("it is not sure to be Base64")

    @property
    def _wraps(self) -> bool:
        return self._wrapper is Wrapper.STORM_1_2

    def _look(self, page: list[bytes], decoded: list[bytes]) -> None:
        """Refuse wrapped values, and search for a sign that this is Base64 until one is beyond doubt."""
        wrapped = first_in_storm_1_1_wrapper(decoded[1::2])
        if wrapped is not None:
            raise self._other_wrapper(page[2 * wrapped])
        if not self._marked:
            self._marked = any(map(is_marked, page))
        if not self._marked:
            looks = set(map(looks_serialised, decoded))
            self._sure = self._sure or True in looks
            self._unsure = self._unsure or False in looks

    def _other_wrapper(self, field: bytes) -> Unfit:
        not_ = "not " if self.content is Content.STORM_1_1 else ""
        return Unfit(f"the value of {shown_field(field)} is {not_}in the wrapper of Storm 1.1")


def _decoded(page: list[bytes]) -> list[bytes]:
    """Decode fields and values alike. What does not encode to the very same text again is looked at closely."""
    try:
        decoded = [a2b_base64(text) for text in page]
    except BinasciiError:
        raise _first_that_is_not(page) from None
    if [b2a_base64(data, newline=False) for data in decoded] != page:
        for text, data in zip(page, decoded, strict=True):
            if b2a_base64(data, newline=False) != text and decode(text) is None:
                raise _first_that_is_not(page)
    return decoded


def _first_that_is_not(page: list[bytes]) -> Unfit:
    for field, value in zip(page[::2], page[1::2], strict=True):
        for text, whose in ((field, ""), (value, "the value of ")):
            if decode(text) is None:
                return Unfit(f"{whose}{shown_field(field)} is not Base64: {problem(text)}")
    raise AssertionError("every field and value is Base64")
