"""Reads entries from a file of JSON lines, as `anchorbolt state scan --json` prints them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from anchorbolt.errors import ConfigError, MigrationRefused
from anchorbolt.serialization.codecs import FIRST_VERSION
from anchorbolt.util.messages import did_you_mean
from anchorbolt.util.times import LATEST_MS
from anchorbolt.util.values import from_json, hashable

_PAGE = 1000
_PAGE_BYTES = 4 << 20
_LONGEST_LINE = 1 << 30
_NAMES = ("key", "value", "expires_at", "schema_version")
_TOO_DEEP = "it is nested too deep"
_OF_SCAN = ("stored_key", "namespace")  # not needed to put the entry


class EntryLine(NamedTuple):
    """One entry of the file."""

    number: int  # of the line, from 1
    key: Any
    value: Any
    expires_at: int | None  # ms since 1970; None for an entry that stays
    version: int  # schema version of the value


@dataclass
class EntryFile:
    """A file of entries. It may be read several times."""

    path: Path
    digest: bytes = b""  # of what was read last

    def pages(self) -> Iterator[list[EntryLine]]:
        """Yield the entries in pages. Empty lines are skipped.

        Raises `MigrationRefused` for a line that is not an entry, and `ConfigError` if the file cannot be read.
        """
        hashed, page, size = blake2b(), list[EntryLine](), 0
        try:
            with self.path.open("rb") as file:
                number = 0
                while line := file.readline(_LONGEST_LINE):
                    number += 1
                    hashed.update(line)
                    if line.strip():
                        page.append(self._entry(number, line))
                        size += len(line)
                    if len(page) >= _PAGE or size >= _PAGE_BYTES:
                        yield page
                        page, size = [], 0
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be read: {error.strerror or error}.") from error
        if page:
            yield page
        self.digest = hashed.digest()

    def refused(self, number: int, problem: str) -> MigrationRefused:
        """Return the error for a line."""
        return MigrationRefused(f"{self.path}, line {number}: {problem}. Nothing was changed.")

    def _entry(self, number: int, line: bytes) -> EntryLine:
        try:
            content = json.loads(line)
        except ValueError as error:
            raise self.refused(number, f"it is not JSON: {error}") from None
        except RecursionError:
            raise self.refused(number, _TOO_DEEP) from None
        if type(content) is not dict or not {"key", "value"} <= content.keys():
            raise self.refused(number, 'it is not an object with "key" and "value"')
        for name in content.keys() - {*_NAMES, *_OF_SCAN}:
            if name in ("key_problem", "value_problem"):
                raise self.refused(number, f"the {name.partition('_')[0]} could not be decoded: {content[name]}")
            raise self.refused(number, f"the name {name!r} is unknown.{did_you_mean(name, _NAMES)}")
        try:
            key, value = hashable(from_json(content["key"])), from_json(content["value"])
        except ValueError as error:
            raise self.refused(number, f"{error}") from None
        except RecursionError:
            raise self.refused(number, _TOO_DEEP) from None
        expires_at = content.get("expires_at")
        if expires_at is not None and not (type(expires_at) is int and 0 <= expires_at < LATEST_MS):
            raise self.refused(number, f"expires_at is {expires_at!r}, not a number of ms since 1970")
        version = content.get("schema_version", FIRST_VERSION)
        if type(version) is not int or version < FIRST_VERSION:
            raise self.refused(number, f"schema_version is {version!r}, not a number from 1 on")
        return EntryLine(number, key, value, expires_at, version)
