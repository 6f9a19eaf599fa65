"""The write-ahead log of a namespace's file: kept short, and never applied to another file unnoticed.

SQLite applies a log to any file of the right name beside it. If an operator restores an older file beside the log of a
killed run, SQLite reads a mixture of both, with the metadata of the newer file. So logs have numbers. Before anything
else is written to an empty log, the next number is written to the table `logs` and moved into the file itself. Each
later transaction notes that number in the metadata, and so in the log. If the number in the metadata is higher than the
number in `logs`, the file is older than the log.
"""

import os
import sqlite3

TABLE = "CREATE TABLE logs (started INTEGER NOT NULL)"

_LONGEST = 4 << 20


def configure(connection: sqlite3.Connection) -> None:
    """Switch off SQLite's own checkpoints, and let it overwrite a moved log, which is faster than a new file."""
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute(f"PRAGMA journal_size_limit={_LONGEST}")


def is_due(log: str) -> bool:
    """Return whether the next write needs a new log, because the log is missing, empty or long."""
    try:
        size = os.stat(log).st_size
    except FileNotFoundError:
        return True
    return size == 0 or size > _LONGEST


def start(connection: sqlite3.Connection) -> None:
    """Move the log into the file and number the next one; do nothing while another process reads or writes.

    Call it outside a transaction, when the tables exist.
    """
    behind = connection.execute("SELECT started < log FROM logs, metadata").fetchone()
    if behind is None or behind[0] or not move(connection, "RESTART"):
        return
    connection.execute("UPDATE logs SET started = started + 1")
    # Move the number out of the log: SQLite reads a page from the file only if the log does not contain it.
    move(connection, "RESTART")


def move(connection: sqlite3.Connection, mode: str) -> bool:
    """Move the log into the file without waiting; False if another process reads or writes."""
    (timeout_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute("PRAGMA busy_timeout=0")
    try:
        busy, *_ = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout={timeout_ms}")
    return not busy
