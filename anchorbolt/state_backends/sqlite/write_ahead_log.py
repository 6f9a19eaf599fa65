"""The write-ahead log of a namespace's file: kept short, and never taken for that of another file.

SQLite applies a log to whatever file lies beside it. Who puts an older file back and leaves the log of a killed run
there gets a mixture of both, with the metadata of the newer one. So the logs are numbered. Before anything else is
written to an empty log, the next number is put into the table `logs` and moved into the file itself; from then on each
transaction notes that number in the metadata, and so in the log. A file that has seen fewer logs than its
metadata says is an older one.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

LOG_TABLE = "CREATE TABLE logs (started INTEGER NOT NULL)"

_LONGEST = 4 << 20


class WriteAheadLog:
    """Decides when a log is moved into its file: before SQLite would, and so that the next log has its number first."""

    def __init__(self, path: Path, timeout_ms: int) -> None:
        self._path = Path(f"{path}-wal")
        self._timeout_ms = timeout_ms

    def configure(self, connection: sqlite3.Connection) -> None:
        """Leave moving the log to this class; have a moved one overwritten, which costs less than a new one."""
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute(f"PRAGMA journal_size_limit={_LONGEST}")

    def is_due(self) -> bool:
        """Say whether the next write needs a new log: there is none, or it has become long."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return True
        return size == 0 or size > _LONGEST

    def start(self, connection: sqlite3.Connection) -> None:
        """Move the log into the file and number the next one; left for later where somebody else is at it.

        Outside of a transaction, with tables made.
        """
        behind = connection.execute("SELECT started < log FROM logs, metadata").fetchone()
        if behind is None or behind[0] or not self._move(connection, "RESTART"):
            return
        connection.execute("UPDATE logs SET started = started + 1")
        # Only what is not in the log is read from the file.
        self._move(connection, "RESTART")

    def empty(self, connection: sqlite3.Connection) -> None:
        """Move the log into the file, and leave it empty, unless somebody else reads or writes."""
        self._move(connection, "TRUNCATE")

    def _move(self, connection: sqlite3.Connection, mode: str) -> bool:
        """Move the log into the file; False where somebody reads or writes, without waiting for them."""
        connection.execute("PRAGMA busy_timeout=0")
        try:
            busy, *_ = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        finally:
            connection.execute(f"PRAGMA busy_timeout={self._timeout_ms}")
        return not busy
