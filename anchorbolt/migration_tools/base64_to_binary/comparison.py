"""Compares a hash with the conversion of its backup, page by page."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from anchorbolt.errors import MigrationRefused
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.base64_to_binary.conversion import Conversion, Unfit, Wrapper
from anchorbolt.migration_tools.base64_to_binary.watched_namespace import pages_of
from anchorbolt.state_backends.redis.storm_hashes import RedisHashes, shown
from anchorbolt.storm.kryo.stored_form import Content, shown_field


@dataclass
class Comparison:
    """The differences between a hash and the conversion of its backup."""

    entries: int = 0  # of the backup
    wrapper: Wrapper = Wrapper.STORM_1_2  # of the converted values, judged by the first page
    content: Content | None = None  # of the backup
    missing: int = 0
    different: int = 0
    added: int = 0
    example: str = ""  # the first difference, as a clause
    unfit: str = ""  # why the backup cannot be converted at all
    unconverted: bool = False  # whether the hash is equal to its backup
    exists: bool = True  # whether there is such a hash

    @property
    def same(self) -> bool:
        """Whether the hash holds exactly the converted backup."""
        differs = self.missing or self.different or self.added or self.unfit
        return self.exists and not (differs or self.unconverted)

    @property
    def changed(self) -> bool:
        """Whether the hash exists, and is neither the conversion of its backup nor equal to it."""
        return self.exists and not (self.same or self.unconverted)

    @property
    def note(self) -> str:
        """A sentence to report about a hash that is the same, or an empty string."""
        if self.wrapper is Wrapper.STORM_1_2:
            return ""
        return (
            "Only its Base64 was decoded, as by --wrapper keep or by Storm's own tool, and no later Storm reads it: "
            "unless you want that, undo it and migrate again"
        )

    def __str__(self) -> str:
        if self.unfit:
            return f"the backup itself cannot be converted: {self.unfit}"
        counts = [(self.missing, "missing"), (self.different, "different"), (self.added, "added")]
        said = ", ".join(f"{count:,} {what}" for count, what in counts if count)
        return f"{said} of {self.entries:,} entries" + (f"; {self.example}" if self.example else "")


class PageConversion(Protocol):
    """Converts the pages of a backup; see `Conversion`."""

    content: Content | None

    def page(self, page: list[bytes]) -> list[bytes]: ...


def compare(
    hashes: RedisHashes,
    backup: bytes,
    key: bytes,
    progress: Progress,
    content: Content | None = None,
    *,
    to_its_end: bool = True,
    conversions: Mapping[Wrapper, PageConversion] | None = None,
) -> Comparison:
    """Compare `key` with the conversion of `backup` in either wrapper, and if they differ, with the backup itself.

    `content` is the format of the backup; None to recognise it. Count all differences, or stop at the first page that
    differs. `conversions` are other ones than those from Base64 to binary.
    """
    conversions = conversions or {wrapper: Conversion(wrapper, content) for wrapper in Wrapper}
    found = _compared(hashes, backup, key, progress, conversions, to_its_end)
    if not found.same and equal(hashes, backup, key, progress):
        return Comparison(found.entries, unconverted=True)
    return found


def _compared(
    hashes: RedisHashes,
    backup: bytes,
    key: bytes,
    progress: Progress,
    conversions: Mapping[Wrapper, PageConversion],
    to_its_end: bool,
) -> Comparison:
    found = Comparison(hashes.length(backup), next(iter(conversions)))
    source = pages_of(hashes, backup, progress, f"comparing {shown(backup)} with {shown(key)}")
    with closing(source), hashes.connection(key) as other:
        for page in source:
            try:
                pages = {wrapper: conversion.page(page) for wrapper, conversion in conversions.items()}
            except (Unfit, MigrationRefused) as unfit:
                found.unfit = str(unfit)
                return found
            values = other.values(key, pages[found.wrapper][::2])
            # The first page decides on the wrapper; all other pages must have the same.
            if len(conversions) > 1:
                found.wrapper = max(pages, key=lambda wrapper: _matches(pages[wrapper], values))
                conversions = {found.wrapper: conversions[found.wrapper]}
            if pages[found.wrapper][1::2] != values:
                _count(found, page, pages[found.wrapper], values)
                if not to_its_end:
                    return found
        length = other.length(key)  # only now, so that entries that were added meanwhile count
    found.content = next(iter(conversions.values())).content
    found.added = max(0, length - (found.entries - found.missing))
    return found


def equal(hashes: RedisHashes, one: bytes, other: bytes, progress: Progress) -> bool:
    """Return whether two hashes have the same entries."""
    if hashes.length(one) != hashes.length(other):
        return False
    pages = pages_of(hashes, one, progress, f"comparing {shown(one)} with {shown(other)}")
    with closing(pages), hashes.connection(other) as second:
        for page in pages:
            if second.values(other, page[::2]) != page[1::2]:
                return False
    return True


def _matches(page: list[bytes], values: list[bytes | None]) -> int:
    return sum(map(bytes.__eq__, page[1::2], (value or b"" for value in values)))


def _count(found: Comparison, source: list[bytes], page: list[bytes], values: list[bytes | None]) -> None:
    for field, expected, value in zip(source[::2], page[1::2], values, strict=True):
        if value is None:
            found.missing += 1
            found.example = found.example or f"{shown_field(field)} of the backup is missing"
        elif value != expected:
            found.different += 1
            found.example = found.example or f"{shown_field(field)} of the backup has another value"
