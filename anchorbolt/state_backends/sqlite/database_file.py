"""The file of one namespace: opening, layout, transactions, and translated errors. No step of the protocol.

The write-ahead log was chosen by measurement: an almost empty stage, seal and commit take 0.6 ms with it, and 3.6 ms
or more with each rollback journal.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from anchorbolt.errors import AnchorboltError, StateCorrupted, StateRegressed, StateUnavailable, UnsupportedValue
from anchorbolt.state_backends.contract import LEFT_AS_FOUND, START_OVER
from anchorbolt.state_backends.sqlite import write_ahead_log
from anchorbolt.state_backends.sqlite.rows import Tables, holds_index_keys

_FILES = 8
"""The number of files that keep their pages, up to 16 MiB each.

Measured with 64 files of 50,000 keys, used in turn: 81 MB instead of 436 MB, and reading 1,000 keys takes 1.8 times as
long, because the pages come from the operating system's cache.
"""


# Versions of the tables, kept as the file's user_version. A file begins with the first one.
_LAYOUT = 4
_LAYOUT_WITH_INDEX = 5
_TABLES = (
    "CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE metadata (namespace TEXT NOT NULL, generation INTEGER NOT NULL, seq INTEGER NOT NULL, "
    "committed INTEGER NOT NULL, winner TEXT NOT NULL, codec TEXT NOT NULL, log INTEGER NOT NULL, "
    "entries INTEGER)",
    write_ahead_log.TABLE,
    "CREATE TABLE attempts (attempt TEXT PRIMARY KEY, txid INTEGER NOT NULL, base INTEGER NOT NULL, "
    "generation INTEGER NOT NULL, seq INTEGER NOT NULL, slices INTEGER NOT NULL, checksum INTEGER NOT NULL, "
    "checksum_before INTEGER NOT NULL, sealed INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE slices (attempt TEXT NOT NULL, number INTEGER NOT NULL, checksum INTEGER NOT NULL, "
    "packed BLOB NOT NULL, PRIMARY KEY (attempt, number))",
)
_BY_TIME = "CREATE TABLE entries_by_time (key BLOB PRIMARY KEY, value BLOB NOT NULL)"
_CACHE_KIB = 16 * 1024

_SIGNS_OF_DAMAGE = ("malformed", "not a database", "no such", "unsupported file format")
# Signs in SQLite's message, and the reason with the next action. The first matching row applies.
_UNAVAILABLE = (
    (
        ("locked",),
        "another process has been writing to it for {timeout_ms} ms ({text}): stop the other run, or raise timeout_ms",
    ),
    (("full",), "{text}: free some space; nothing was written"),
    (("readonly", "unable to open"), "{text}: check that its directory exists and can be written to by user {user}"),
    (("",), "{text}: check the disk, its quota and the limits on file sizes"),
)


class PageCaches:
    """The most recently used files of a process: the others free the memory of SQLite's own caches. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: OrderedDict[SqliteFile, None] = OrderedDict()  # least recently used first
        os.register_at_fork(after_in_child=self._forget_all)

    def use(self, file: SqliteFile) -> None:
        """Note that a file is used now. Above the limit, the least recently used file frees its pages."""
        idle = None
        with self._lock:
            self._files[file] = None
            self._files.move_to_end(file)
            if len(self._files) > _FILES:
                idle, _ = self._files.popitem(last=False)
        if idle is not None:
            idle.free_pages()

    def forget(self, file: SqliteFile) -> None:
        """Note that a file is closed."""
        with self._lock:
            self._files.pop(file, None)

    def _forget_all(self) -> None:
        # The lock may be held by a thread that does not exist here.
        self._lock = threading.Lock()
        self._files.clear()


_page_caches = PageCaches()

# Connections that a fork has copied into this process. SQLite forbids using or closing them here.
_inherited: list[sqlite3.Connection] = []


class SqliteFile:
    """Opens the file on first use in each process, and creates it on the first write."""

    def __init__(self, path: Path, namespace: str, timeout_ms: int) -> None:
        self._path = path
        self._log = f"{path}-wal"
        self._namespace = namespace
        self._timeout_ms = timeout_ms
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        self._may_write = False
        self._has_tables = False
        self._has_index = False  # whether it is known to have the table of the index
        self._durable: bool | None = None  # the value of `synchronous`; None if not set yet
        self._in_use = threading.RLock()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Yield a connection that sees one snapshot; None if nothing has been written yet."""
        with self._used():
            connection = self._current()
            if connection is None:
                if not self._path.exists():
                    yield None
                    return
                connection = self._opened_to_read()
            connection.execute("BEGIN")
            with connection:  # commits at the end, which keeps temporary tables
                yield connection if self._look_for_tables(connection) else None

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a write transaction, which commits at the end; any exception rolls it back.

        A transaction that is not durable survives a loss of power only after the next durable one.
        """
        with self._used():
            connection = self._current()
            if connection is None or not self._may_write:
                connection = self._opened_to_write()
            if durable != self._durable:
                connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            if write_ahead_log.is_due(self._log) and self._look_for_tables(connection):
                write_ahead_log.start(connection)
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                if made := not self._look_for_tables(connection):
                    self._make_tables(connection)
                yield connection
            if made:
                _sync(self._path.parent)
            self._has_tables = True

    @contextmanager
    def _used(self) -> Iterator[None]:
        _page_caches.use(self)
        with self._in_use, self._errors_translated():
            yield

    def free_pages(self) -> None:
        """Free the memory of cached pages, unless another thread uses the file now. They can be read again."""
        if self._in_use.acquire(blocking=False):
            try:
                if self._connection is not None and self._pid == os.getpid():
                    with suppress(sqlite3.Error):
                        self._connection.execute("PRAGMA shrink_memory")
            finally:
                self._in_use.release()

    def corrupted(self, reason: str) -> StateCorrupted:
        """Return the error for content that Anchorbolt cannot have written."""
        return StateCorrupted(f"{self._path}: {reason}. {START_OVER}", namespace=self._namespace)

    def check_count(self, expected: int, found: int) -> None:
        """Raise `StateRegressed` if another program has removed or added entries since `expected` were counted."""
        if found != expected:
            raise self._regressed(
                "lost data or was changed by another program",
                f"{expected} entries",
                f"{found} entries",
                "Restore the state directory and the checkpoint location from backups of one moment, and start again.",
            )

    def check_log(self, log: int, started: int) -> None:
        """Raise `StateRegressed` if the metadata names a later log than the file."""
        if log > started:
            raise self._regressed(
                "went back in time",
                f"log {log}",
                f"log {started}",
                "The file is older than the write-ahead log (-wal) in the same directory. Put the newer file back. Or "
                "restore the whole state directory, without -wal and -shm files of another moment, together with the "
                "checkpoint location, from backups of one moment. Then start again.",
            )

    def _regressed(self, what: str, expected: str, found: str, advice: str) -> StateRegressed:
        return StateRegressed(
            f"{self._path} {what}: expected {expected}, found {found}. {LEFT_AS_FOUND} {advice}",
            namespace=self._namespace,
            expected=expected,
            found=found,
        )

    def tables(self, connection: sqlite3.Connection, to_write: Collection[bytes] = ()) -> Tables:
        """Return the tables of the entries. Makes the one of the index if a key to write is of the index."""
        # Another process may have made it since the last call.
        has_index = self._has_index or _layout(connection) == _LAYOUT_WITH_INDEX
        if not has_index and holds_index_keys(to_write):
            connection.execute(_BY_TIME)
            connection.execute(f"PRAGMA user_version={_LAYOUT_WITH_INDEX}")
            return Tables("entries", "entries_by_time")
        self._has_index = has_index
        return Tables("entries", "entries_by_time" if has_index else None)

    def remove_tables(self, connection: sqlite3.Connection) -> None:
        """Make the file one that nothing has been written to."""
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version=0")

    def remove(self) -> None:
        """Remove the file, whose tables have been removed, and then its log, which is empty by then."""
        self.close()
        for path in (str(self._path), self._log, f"{self._path}-shm"):
            with suppress(FileNotFoundError):
                os.remove(path)

    def close(self) -> None:
        """Move the log into the file and close it; the next use opens it again."""
        _page_caches.forget(self)
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._pid == os.getpid():
            if self._may_write:
                with suppress(sqlite3.Error):
                    write_ahead_log.move(connection, "TRUNCATE")
            connection.close()
        else:
            _inherited.append(connection)

    def _current(self) -> sqlite3.Connection | None:
        """Return this process's connection, None if it has none."""
        if self._connection is not None and self._pid != os.getpid():
            self.close()
        return self._connection

    def _opened_to_read(self) -> sqlite3.Connection:
        # Closing a read-only connection never touches the log, which may belong to another process.
        try:
            connection = self._open("ro")
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
        except sqlite3.OperationalError as error:
            if "readonly" not in str(error):
                raise
            self.close()
            connection = self._open("rw")  # SQLite has to repair a file whose first write was interrupted
        return connection

    def _opened_to_write(self) -> sqlite3.Connection:
        self.close()
        _make_directory(self._path.parent)
        connection = self._open("rwc")
        self._enter_write_ahead_log(connection)
        write_ahead_log.configure(connection)
        return connection

    def _open(self, mode: str) -> sqlite3.Connection:
        self._connection = sqlite3.connect(
            f"file:{quote(str(self._path))}?mode={mode}",
            uri=True,
            timeout=self._timeout_ms / 1000,
            isolation_level=None,
            check_same_thread=False,
        )
        self._pid = os.getpid()
        self._may_write = mode == "rwc"
        self._has_tables, self._has_index, self._durable = False, False, None
        self._connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        return self._connection

    def _enter_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        # Two processes at the same moment get "locked" at once: SQLite's busy timeout does not cover this step.
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def _look_for_tables(self, connection: sqlite3.Connection) -> bool:
        if self._has_tables:
            return True
        layout = _layout(connection)
        if layout not in (0, _LAYOUT, _LAYOUT_WITH_INDEX):
            raise self.corrupted(
                f"its layout is {layout}, and this version of Anchorbolt knows {_LAYOUT} and {_LAYOUT_WITH_INDEX}"
            )
        if layout == 0:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise self.corrupted("it is an SQLite database, but not one of Anchorbolt's")
            return False
        metadata = connection.execute("SELECT namespace, log, started FROM metadata, logs").fetchone()
        written_for, *logs = metadata or (None,)
        if written_for != self._namespace:
            raise self.corrupted(f"it holds the state of {written_for!r}, not of {self._namespace!r}")
        self.check_log(*logs)
        self._has_tables = True
        return True

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        for table in _TABLES:
            connection.execute(table)
        connection.execute("INSERT INTO metadata VALUES (?, 0, 0, -1, '', '', 0, NULL)", (self._namespace,))
        connection.execute("INSERT INTO logs VALUES (0)")
        connection.execute(f"PRAGMA user_version={_LAYOUT}")

    @contextmanager
    def _errors_translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
            raise  # a bug in Anchorbolt, or keys and values that are not bytes
        except sqlite3.Error as error:
            self.close()
            raise self._translated(error) from error
        except OSError as error:
            raise StateUnavailable(
                f"{self._path}: {error.strerror or error}: check that the state directory is a writable directory",
                namespace=self._namespace,
            ) from error

    def _translated(self, error: sqlite3.Error) -> AnchorboltError:
        text = str(error)
        if isinstance(error, sqlite3.DataError):
            return UnsupportedValue(f"{self._path}: {text}: SQLite takes values of up to 1 GB")
        if any(sign in text for sign in _SIGNS_OF_DAMAGE):
            return self.corrupted(text)
        reason = next(reason for signs, reason in _UNAVAILABLE if any(sign in text for sign in signs))
        reason = reason.format(text=text, timeout_ms=self._timeout_ms, user=os.geteuid())
        return StateUnavailable(f"{self._path}: {reason}", namespace=self._namespace)


def _layout(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _make_directory(directory: Path) -> None:
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for each in missing:
        _sync(each.parent)


def _sync(directory: Path) -> None:
    """Make the entries of a directory survive the loss of power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
