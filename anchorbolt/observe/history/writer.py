"""Writes a history on a thread of its own, so that no wave waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from anchorbolt.files import Folder
from anchorbolt.observe.history.records import Record
from anchorbolt.observe.history.segments import HistoryFiles, keep_changes, read_latest

RECORDS_SHOWN = 300
"""The number of latest records shown while a driver runs."""

_log = logging.getLogger("anchorbolt.engine")

_PAUSE_S = 1.0
_SHARE = 20  # a write that takes 100 ms is followed by a pause of 2 s
_MOST_WAITING = 1000
_END_S = 5.0


class HistoryWriter:
    """Appends records to the history at a checkpoint location. Thread-safe.

    A record is written about a second after it was added, so a driver that is killed loses its last second of history.
    If a write fails, the thread tries again; beyond 1,000 waiting records, the oldest are dropped.
    """

    def __init__(
        self,
        folder: Folder,
        generation: int,
        *,
        changes: Sequence[str] = (),
        earlier: Callable[[list[Record]], None] | None = None,
    ) -> None:
        """Start the thread. `folder` is the checkpoint location.

        The thread first adds `changes`, which commands have made, unless the history has them. If it can read the
        latest 300 records of earlier drivers, it calls `earlier` with them, once.
        """
        self._folder = folder
        self._generation = generation
        self._changes = changes
        self._earlier = earlier
        self._files = HistoryFiles(folder, generation)
        self._location = folder.location
        self._changed = threading.Condition()
        self._waiting: list[Record] = []
        self._closing = self._has_failed = False
        self._thread = threading.Thread(target=self._run, name="anchorbolt-history", daemon=True)
        self._thread.start()

    def add(self, record: Record) -> None:
        """Append a record. Never waits for the location."""
        with self._changed:
            self._waiting.append(record)
            surplus = len(self._waiting) - _MOST_WAITING
            if surplus > 0:
                del self._waiting[:surplus]
            self._changed.notify()

    def close(self) -> None:
        """Write the waiting records, at most for 5 seconds, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_END_S)

    def _run(self) -> None:
        self._read_earlier()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                records, self._waiting = self._waiting, []
                closing = self._closing
            began = time.monotonic()
            failed = not self._written(records)
            if closing:
                return
            took = time.monotonic() - began
            with self._changed:
                if failed:
                    self._waiting = records + self._waiting
                self._changed.wait_for(lambda: self._closing, max(_PAUSE_S, _SHARE * took))

    def _read_earlier(self) -> None:
        try:
            keep_changes(self._folder, self._changes)
        except Exception as error:
            _log.warning("the changes by commands are not in the history at %s: %s", self._location, error)
        if self._earlier is None:
            return
        try:
            self._earlier(read_latest(self._folder, RECORDS_SHOWN, self._generation))
        except Exception as error:  # a history must not end a run
            _log.warning("the history of earlier drivers at %s cannot be read: %s", self._location, error)

    def _written(self, records: list[Record]) -> bool:
        try:
            if records:
                self._files.write(records)
            self._has_failed = False
        except Exception as error:  # a history must not end a run
            if not self._has_failed:
                _log.warning("the history at %s cannot be written, and is tried again: %s", self._location, error)
            self._has_failed = True
            return False
        return True
