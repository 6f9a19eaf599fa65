"""Converts the entries of one hash from Base64 to binary, page by page, and the results of the commands. Pure.

Conversion is fast because it expects each entry to have the form of the first one. An entry with another form raises
`Unfit` before anything is swapped; then `Recognition` reads the whole hash and reports its content. A completely
converted hash is Base64 by the rules of `stored_form`.
"""

from binascii import Error as BinasciiError
from binascii import a2b_base64, b2a_base64
from dataclasses import dataclass
from enum import Enum
from typing import Any

from anchorbolt.errors import AnchorboltError
from anchorbolt.storm.base64_text import decode
from anchorbolt.storm.kryo.stored_form import Content, Recognition, is_marked, looks_serialised, shown_field
from anchorbolt.storm.wrapper import first_in_storm_1_1_wrapper, rewrap_for_storm_1_2, wrap_for_storm_1_2


class Action(Enum):
    """The result of a command for one hash; of a dry run, the result that it would have."""

    CONVERTED = "converted"
    WOULD_CONVERT = "would be converted"
    LEFT_BINARY = "binary already, left alone"
    LEFT_AS_IS = "in this format already, left alone"
    CONVERTED_BEFORE = "converted by an earlier run, left alone"
    SAME = "equal to the conversion of its backup"
    DIFFERENT = "differs from the conversion of its backup"
    NOT_CONVERTED = "equal to its backup: not converted"
    PUT_BACK = "put back"
    WOULD_PUT_BACK = "would be put back"
    BACKUP_DISCARDED = "backup discarded"
    WOULD_DISCARD_BACKUP = "backup would be discarded"


@dataclass(frozen=True)
class HashResult:
    """The result for one hash.

    Attributes:
        key: The name of the hash.
        action: What the command did, or would do.
        entries: The number of entries.
        content: The format before the command: `storm-1.0`, `storm-1.1` or `binary`, for a conversion to another Storm
            the first release with it; None if it was not recognised.
        kept_as: The name of the hash that keeps the earlier data, in HBase with its table, or None.
        note: A sentence for the user, or an empty string.
    """

    key: str
    action: Action
    entries: int
    content: str | None = None
    kept_as: str | None = None
    note: str = ""


@dataclass(frozen=True)
class NamespaceResult:
    """The result for one namespace.

    Attributes:
        namespace: The name of the namespace.
        hashes: The results for its hashes; after an error nothing was done to them.
        error: Why nothing was done, or None.
    """

    namespace: str
    hashes: tuple[HashResult, ...] = ()
    error: AnchorboltError | None = None


@dataclass(frozen=True)
class Report:
    """The result of one command.

    Attributes:
        namespaces: The results in the order in which the caller named the namespaces.
        warnings: Sentences for the user.
        dry_run: Whether the command changed nothing on purpose.
    """

    namespaces: tuple[NamespaceResult, ...]
    warnings: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def error(self) -> AnchorboltError | None:
        """The first error, or None."""
        return next((each.error for each in self.namespaces if each.error is not None), None)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain data for `json.dumps`."""
        return {
            "done": self.error is None,
            "dry_run": self.dry_run,
            "warnings": list(self.warnings),
            "namespaces": [
                {
                    "namespace": each.namespace,
                    "error": None if each.error is None else each.error.message,
                    "hashes": [{**vars(one), "action": one.action.value} for one in each.hashes],
                }
                for each in self.namespaces
            ],
        }


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a command.

    Attributes:
        report: What the command had done by then. Each namespace that was not finished has an error.
    """

    def __init__(self, report: Report) -> None:
        super().__init__("interrupted")
        self.report = report


class Wrapper(Enum):
    """The wrapper of a converted value: that of Storm 1.2, or the value's existing wrapper."""

    STORM_1_2 = "storm-1.2"
    KEEP = "keep"


@dataclass(frozen=True)
class MigrationOptions:
    """How to migrate.

    Attributes:
        wrapper: The wrapper of the converted values.
        content: The format of the hashes; None to recognise it.
        dry_run: Do everything except writing.
    """

    wrapper: Wrapper = Wrapper.STORM_1_2
    content: Content | None = None
    dry_run: bool = False


class Unfit(Exception):
    """An entry does not have the form of the first entry or of the caller's `content`. The text names the field."""


class Conversion:
    """Converts the pages of one hash, in any order. Entries may come twice.

    The first page sets `content`, unless the caller sets it. If the caller sets it, `finish` requires no sign that the
    hash is Base64.
    """

    def __init__(self, wrapper: Wrapper, content: Content | None = None) -> None:
        self.content = content
        self._wraps = wrapper is Wrapper.STORM_1_2
        self._named = content is not None
        self._marked = self._sure = self._unsure = False

    def page(self, page: list[bytes]) -> list[bytes]:
        """Convert alternating fields and values. Raise `Unfit` for an entry that is not like the first one."""
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
            if not self._named:
                self._check_base64(page, decoded)
            values = [wrap_for_storm_1_2(value) for value in decoded[1::2]] if self._wraps else []
        if self._wraps:
            decoded[1::2] = values  # type: ignore[assignment]  # None is not among them
        return decoded

    def finish(self) -> None:
        """Raise `Unfit` if no page has shown beyond doubt that the hash is Base64. Call it after the last page."""
        is_1_1 = self.content is Content.STORM_1_1
        if not (self._named or is_1_1 or self._marked or (self._sure and not self._unsure)):
            raise Unfit("it is not sure to be Base64")

    def _check_base64(self, page: list[bytes], decoded: list[bytes]) -> None:
        """Refuse wrapped values, and search for a certain sign that this is Base64 until one is found."""
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
    """Decode fields and values. If the bytes do not encode to the same text, check it for line breaks or faults."""
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
    recognition = Recognition()
    recognition.add(page)
    return Unfit(recognition.first["odd"])
