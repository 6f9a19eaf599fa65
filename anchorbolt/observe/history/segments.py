"""The files of a history: `anchorbolt/history/<generation>-<number>.jsonl`, each with at most 100 records.

A driver writes only files of its own generation, so a driver that was replaced destroys nothing. It takes over the
records of the newest file if that is not full, and so nearly all files are full, however often drivers start. The
driver before it may be alive, and write its end to that file meanwhile: then the file stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from anchorbolt.files import Folder
from anchorbolt.observe.history.records import MOST_BYTES, Record, decoded, encoded

RECORDS_KEPT = 10_000
FOLDER = "anchorbolt/history"
_RECORDS = 100  # of a file
_FILES = RECORDS_KEPT // _RECORDS + 1
_Key = tuple[object, ...]  # what tells records apart
_NAME = re.compile(r"\d{9}-\d{9}\.jsonl")


class HistoryFiles:
    """The files of one driver. Not thread-safe. All methods raise `OSError` if the location cannot be reached."""

    def __init__(self, folder: Folder, generation: int) -> None:
        """`folder` is the checkpoint location. Nothing is read or written yet."""
        self._folder = folder
        self._generation = generation
        self._number = 0
        self._lines: list[bytes] = []
        self._replaced: tuple[str, list[bytes]] | None = None  # the file whose records this one has taken over
        self._has_begun = False

    def write(self, records: list[Record]) -> None:
        """Append records. If this raises, call it again with them: it writes none of them twice."""
        self._begin()
        waiting = [encoded(record) for record in records]
        while waiting:
            room = _RECORDS - len(self._lines)
            lines = self._lines + waiting[:room]
            self._folder.replace(self._name, b"".join(lines))
            self._lines, waiting = lines, waiting[room:]
            del records[:room]
            if self._replaced is not None:
                name, taken = self._replaced
                if _lines(self._folder, name) == taken:
                    self._folder.remove_tree(name)
                self._replaced = None
            if len(self._lines) == _RECORDS:
                self._number += 1
                self._lines = []
                self._remove_oldest()

    @property
    def _name(self) -> str:
        return f"{FOLDER}/{self._generation:09d}-{self._number:09d}.jsonl"

    def _begin(self) -> None:
        if self._has_begun:
            return
        names = _names(self._folder)
        newest = f"{FOLDER}/{names[-1]}" if names else ""
        if newest and newest != self._name:
            lines = _lines(self._folder, newest)
            if len(lines) < _RECORDS:
                self._lines, self._replaced = lines, (newest, lines)
        self._has_begun = True

    def _remove_oldest(self) -> None:
        for name in _names(self._folder)[: -_FILES + 1]:
            self._folder.remove_tree(f"{FOLDER}/{name}")


def read_history(folder: Folder) -> Iterator[Record]:
    """Yield the records at a checkpoint location, oldest first; skip damaged ones.

    A wave that was recorded twice is yielded once. Raises `OSError` if the location cannot be reached.
    """
    seen: set[_Key] = set()
    for name in _names(folder):
        for key, record in _records(folder, name):
            if key not in seen:
                seen.add(key)
                yield record


def read_latest(folder: Folder, most: int, before: int) -> list[Record]:
    """Return at most so many of the latest records of drivers before a generation, oldest first, from few files.

    Raises `OSError` if the location cannot be reached.
    """
    found: dict[_Key, Record] = {}
    for name in reversed(_names(folder)):
        of_file = {key: record for key, record in _records(folder, name) if record["generation"] < before}
        found = {**of_file, **found}
        if len(found) >= most:
            break
    return list(found.values())[-most:]


def _records(folder: Folder, name: str) -> Iterator[tuple[_Key, Record]]:
    for record in decoded(_lines(folder, f"{FOLDER}/{name}")):
        yield tuple(record[each] for each in ("kind", "generation", "txid", "at")), record


def _names(folder: Folder) -> list[str]:
    return sorted(name for name in folder.names(FOLDER) if _NAME.fullmatch(name))


def _lines(folder: Folder, name: str) -> list[bytes]:
    data = folder.read_end(name, _RECORDS * MOST_BYTES) or b""
    return data.splitlines(keepends=True)[-_RECORDS:]
