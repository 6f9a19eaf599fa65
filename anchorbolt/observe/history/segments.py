"""The files of a history: `anchorbolt/history/<generation>-<number>.jsonl`, each with at most 100 records.

A driver writes only files of its own generation, so a replaced driver destroys nothing. Changes by commands are in a
file of their own, `anchorbolt/history/changes.jsonl`, with the latest 1,000. The store has the last 20, too: what a
killed command did not write to the file is added by the next command or start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from heapq import merge
from operator import attrgetter

from anchorbolt.files import Folder
from anchorbolt.observe.history.records import MOST_BYTES, Record, decoded, encoded

FILES_KEPT = 100
FOLDER = "anchorbolt/history"
_CHANGES = f"{FOLDER}/changes.jsonl"
_CHANGES_KEPT = 1000
_RECORDS = 100  # of a file
_NAME = re.compile(r"\d{9}-\d{9}\.jsonl")


class HistoryFiles:
    """The files of one driver. Not thread-safe. All methods raise `OSError` if the location cannot be reached."""

    def __init__(self, folder: Folder, generation: int) -> None:
        """`folder` is the checkpoint location. Nothing is read or written yet."""
        self._folder = folder
        self._generation = generation
        self._number = 0
        self._lines: list[bytes] = []

    def write(self, records: list[Record]) -> None:
        """Append records. If this raises, call it again with the same list: no record is written twice."""
        waiting = [encoded(record) for record in records]
        while waiting:
            room = _RECORDS - len(self._lines)
            lines, is_new = self._lines + waiting[:room], not self._lines
            self._folder.replace(f"{FOLDER}/{self._generation:09d}-{self._number:09d}.jsonl", b"".join(lines))
            self._lines, waiting = lines, waiting[room:]
            del records[:room]
            if len(self._lines) == _RECORDS:
                self._number += 1
                self._lines = []
            if is_new:
                for name in _names(self._folder)[:-FILES_KEPT]:
                    self._folder.remove_tree(f"{FOLDER}/{name}")


def read_history(folder: Folder) -> Iterator[Record]:
    """Yield the records at a checkpoint location, oldest first; skip damaged ones.

    Raises `OSError` if the location cannot be reached.
    """
    of_drivers = (record for name in _names(folder) for record in _records(folder, name))
    yield from merge(of_drivers, _changes(folder), key=attrgetter("at"))


def read_latest(folder: Folder, most: int, before: int) -> list[Record]:
    """Return the latest `most` changes, and records of drivers before the generation `before`, oldest first.

    Raises `OSError` if the location cannot be reached.
    """
    found: list[Record] = []
    earlier = [name for name in _names(folder) if int(name.partition("-")[0]) < before]
    while earlier and len(found) < most:
        found = [*_records(folder, earlier.pop()), *found]
    return list(merge(found, _changes(folder), key=attrgetter("at")))[-most:]


def keep_changes(folder: Folder, changes: Sequence[str]) -> None:
    """Add to the history those of these changes that it does not have: `DecisionLog.changes` of the store.

    Raises `OSError` if the location cannot be reached.
    """
    there = _change_lines(folder)
    if added := [line for line in (f"{change}\n".encode() for change in changes) if line not in there]:
        folder.replace(_CHANGES, b"".join([*there, *added][-_CHANGES_KEPT:]))


def _changes(folder: Folder) -> list[Record]:
    return decoded(_change_lines(folder))


def _change_lines(folder: Folder) -> list[bytes]:
    return (folder.read_end(_CHANGES, _CHANGES_KEPT * MOST_BYTES) or b"").splitlines(keepends=True)


def _records(folder: Folder, name: str) -> list[Record]:
    data = folder.read_end(f"{FOLDER}/{name}", _RECORDS * MOST_BYTES) or b""
    return decoded(data.splitlines(keepends=True)[-_RECORDS:])


def _names(folder: Folder) -> list[str]:
    return sorted(name for name in folder.names(FOLDER) if _NAME.fullmatch(name))
