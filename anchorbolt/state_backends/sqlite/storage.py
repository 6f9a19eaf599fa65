"""One namespace in SQLite: the steps of a transaction.

Every step is one transaction. A staged slice is one row, and the commit applies it to `entries`: a row for each staged
key would cost ten times as much.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from anchorbolt.errors import AnchorboltError
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.state_backends import rules
from anchorbolt.state_backends.contract import (
    ALL_KEYS,
    Fence,
    KeyRange,
    NamespaceHead,
    ReadPosition,
    Seal,
    SizeLimits,
    StagedSlice,
    StateStorage,
    unpacked_updates,
)
from anchorbolt.state_backends.rules import AttemptRecord, Metadata
from anchorbolt.state_backends.sqlite import rows
from anchorbolt.state_backends.sqlite.database_file import SqliteFile
from anchorbolt.state_backends.sqlite.rows import OVERLAY

_MERGED_UPDATES = 16_384
_MERGED_BYTES = 4 << 20


class SqliteStateStorage(StateStorage):
    """One namespace of a `SqliteStateProvider`."""

    # A slice is one value of SQLite, at most 10^9 bytes: one large item, and some MiB of other items before it.
    limits = SizeLimits(16 << 20, 10**9 - (32 << 20), "SQLite takes no more: use another provider")

    def __init__(self, path: Path, namespace: str, timeout_ms: int) -> None:
        self.namespace = namespace
        self._file = SqliteFile(path, namespace, timeout_ms)
        # The connection, the attempt and the checksums of the slices that the temporary table `overlay` holds.
        self._overlaid: tuple[sqlite3.Connection, str, list[int]] | None = None
        self._is_compared = False  # whether `head` has compared the number of entries since the file was opened
        self._counts_at_end = False  # whether this handle is of a driver: it has claimed, or has written entries

    def head(self) -> NamespaceHead:
        """The first call also counts the entries, if `close` has counted them: about 1 s for ten million."""
        with self._file.reading() as connection:
            if connection is None:
                return NamespaceHead()
            (expected,) = connection.execute("SELECT entries FROM metadata").fetchone()
            if expected is not None and not self._is_compared:
                self._file.check_count(expected, rows.count(connection, self._file.tables(connection)))
            self._is_compared = True
            return rules.head_of(self._metadata(connection), self._records(connection))

    def claim(self, seq: int = 0) -> Fence:
        with self._file.writing() as connection:
            metadata = self._metadata(connection)
            fence = Fence(metadata.fence.generation + 1, seq)
            self._raise_fence(connection, metadata, fence)
            self._counts_at_end = True
            return fence

    def raise_fence(self, fence: Fence) -> NamespaceHead:
        with self._file.writing() as connection:
            metadata = self._metadata(connection)
            rules.check_fence(self.namespace, metadata, fence)
            self._raise_fence(connection, metadata, fence)
            self._counts_at_end = True
            return rules.head_of(self._metadata(connection), self._records(connection))

    def get_many(
        self, keys: Sequence[bytes], attempt: str | None = None, at: ReadPosition | None = None
    ) -> list[bytes | None]:
        values: list[bytes | None] = [None] * len(keys)
        with self._file.reading() as connection:
            self._check_reading(connection, attempt, at)
            if connection is not None and keys:
                rows.look_up(connection, self._file.tables(connection), keys, values)
                if attempt is not None and self._overlay(connection, attempt):
                    rows.look_up(connection, OVERLAY, keys, values)
        return values

    def scan(
        self, attempt: str | None = None, page_size: int = 1000, at: ReadPosition | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Entries come in the order of their keys."""
        return self._pages(attempt, page_size, at, ALL_KEYS)

    def ranges(self, parts: int) -> list[KeyRange]:
        with self._file.reading() as connection:
            found = (None, None) if connection is None else rows.outermost(connection, self._file.tables(connection))
        lowest, highest = found
        return [ALL_KEYS] if lowest is None or highest is None else rules.divided(lowest, highest, parts)

    def scan_range(
        self, within: KeyRange, page_size: int = 1000, at: ReadPosition | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        return self._pages(None, page_size, at, within)

    def _pages(
        self, attempt: str | None, page_size: int, at: ReadPosition | None, within: KeyRange
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        # One transaction a page: a long one would keep SQLite from emptying the write-ahead log.
        last: bytes | None = None
        while True:
            page: list[tuple[bytes, bytes]] = []
            with self._file.reading() as connection:
                self._check_reading(connection, attempt, at)
                if connection is not None:
                    overlay = OVERLAY if attempt is not None and self._overlay(connection, attempt) else None
                    page = rows.page(connection, self._file.tables(connection), overlay, within, last, page_size)
            if not page:
                return
            yield page
            last = page[-1][0]

    def stage(self, staged: StagedSlice) -> Seal:
        # Sealing makes the slices durable; without a seal they are not needed after a loss of power.
        with self._file.writing(durable=False) as connection:
            metadata = self._metadata(connection)
            known = self._record(connection, staged.attempt)
            record = rules.next_record(self.namespace, metadata, known, staged)
            self._raise_fence(connection, metadata, staged.fence, staged.codec)
            if known is None:
                self._drop(connection, "(generation, seq) < (?, ?)", staged.fence)
            if record is not None:
                self._put_record(connection, staged.attempt, record)
                row = (staged.attempt, staged.number, staged.checksum, staged.packed)
                connection.execute("INSERT INTO slices VALUES (?, ?, ?, ?)", row)
            known = record or known
            assert known is not None
            return Seal(known.slices, known.checksum)

    def seal(self, fence: Fence, attempt: str, seal: Seal) -> None:
        with self._file.writing() as connection:
            metadata = self._metadata(connection)
            record = rules.sealed_record(
                self.namespace, metadata, self._record(connection, attempt), fence, attempt, seal
            )
            self._put_record(connection, attempt, record)
            self._raise_fence(connection, metadata, fence)

    def commit(self, fence: Fence, txid: int, attempt: str) -> None:
        with self._file.writing() as connection:
            metadata = self._metadata(connection)
            record = self._record(connection, attempt)
            apply = rules.check_commit(self.namespace, metadata, record, fence, txid, attempt)
            self._raise_fence(connection, metadata, fence)
            if not apply or record is None:
                return
            for updates, slices in self._merged(connection, attempt, record):
                tables = self._file.tables(connection, updates)
                if None in updates.values():
                    rows.put(connection, tables, [item for item in updates.items() if item[1] is not None])
                    rows.delete(connection, tables, [item for item in updates.items() if item[1] is None])
                else:
                    rows.put(connection, tables, updates.items())
                for _ in range(slices):
                    reach(FaultPoint.SLICE_APPLIED, txid=txid)
            self._drop(connection, "TRUE")
            connection.execute("UPDATE metadata SET committed = ?, winner = ?, entries = NULL", (txid, attempt))
            self._counts_at_end = True

    def rollback(self, fence: Fence) -> int:
        with self._file.writing() as connection:
            metadata = self._metadata(connection)
            rules.check_rollback(self.namespace, metadata, fence)
            self._raise_fence(connection, metadata, fence)
            return self._drop(connection, "TRUE")

    def write(self, fence: Fence, items: Mapping[bytes, bytes], codec: str) -> None:
        with self._file.writing() as connection:
            metadata = self._metadata(connection)
            rules.check_write(self.namespace, metadata, fence, codec)
            self._raise_fence(connection, metadata, fence, codec)
            rows.put(connection, self._file.tables(connection, items), items.items())
            connection.execute("UPDATE metadata SET entries = NULL")
            self._counts_at_end = True

    def remove(self, fence: Fence) -> None:
        """Remove the tables in one transaction, then the files."""
        with self._file.writing() as connection:
            rules.check_fence(self.namespace, self._metadata(connection), fence)
            self._file.remove_tables(connection)
        self._counts_at_end, self._overlaid = False, None
        self._file.remove()

    def count(self) -> int:
        """Return the number of entries. SQLite reads all keys: some seconds for tens of millions."""
        with self._file.reading() as connection:
            return 0 if connection is None else rows.count(connection, self._file.tables(connection))

    def size(self) -> int:
        """Return the bytes of the used pages, without the write-ahead log."""
        with self._file.reading() as connection:
            if connection is None:
                return 0
            pages, free, page_bytes = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
            return int((pages - free) * page_bytes)

    def close(self) -> None:
        """A driver also counts the entries if they changed since the last count; the next start compares the number."""
        if self._counts_at_end:
            with suppress(AnchorboltError), self._file.writing() as connection:
                if connection.execute("SELECT entries FROM metadata").fetchone() == (None,):
                    counted = rows.count(connection, self._file.tables(connection))
                    connection.execute("UPDATE metadata SET entries = ?", (counted,))
        self._is_compared = self._counts_at_end = False
        self._overlaid = None
        self._file.close()

    def _check_reading(
        self, connection: sqlite3.Connection | None, attempt: str | None, at: ReadPosition | None
    ) -> None:
        if at is None:
            return
        metadata, record = Metadata(), None
        if connection is not None:
            metadata = self._metadata(connection)
            record = self._record(connection, attempt) if attempt is not None else None
        rules.check_reading(self.namespace, metadata, record, attempt, at)

    def _metadata(self, connection: sqlite3.Connection) -> Metadata:
        rows = connection.execute(
            "SELECT generation, seq, committed, winner, codec, log, started FROM metadata, logs"
        ).fetchall()
        match rows:
            case [(int(generation), int(seq), int(committed), str(winner), str(codec), int(log), int(started))]:
                self._file.check_log(log, started)
                return Metadata(Fence(generation, seq), committed, winner, codec)
        raise self._file.corrupted("its metadata is damaged")

    def _raise_fence(self, connection: sqlite3.Connection, metadata: Metadata, fence: Fence, codec: str = "") -> None:
        connection.execute(
            "UPDATE metadata SET generation = ?, seq = ?, codec = ?, log = (SELECT started FROM logs)",
            (*fence, metadata.codec or codec),
        )

    def _record(self, connection: sqlite3.Connection, attempt: str) -> AttemptRecord | None:
        return self._records(connection, attempt).get(attempt)

    def _records(self, connection: sqlite3.Connection, attempt: str | None = None) -> dict[str, AttemptRecord]:
        rows = connection.execute("SELECT * FROM attempts WHERE ?1 IS NULL OR attempt = ?1", (attempt,))
        found = {}
        for name, *numbers in rows:
            if not isinstance(name, str) or not all(isinstance(number, int) for number in numbers):
                raise self._file.corrupted("its list of attempts is damaged")
            txid, base, generation, seq, slices, checksum, before, sealed = numbers
            found[name] = AttemptRecord(txid, base, Fence(generation, seq), slices, checksum, before, bool(sealed))
        return found

    def _put_record(self, connection: sqlite3.Connection, attempt: str, record: AttemptRecord) -> None:
        connection.execute(
            "REPLACE INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (attempt, record.txid, record.base, *record.fence, *record[3:]),
        )

    def _drop(self, connection: sqlite3.Connection, condition: str, parameters: Sequence[int] = ()) -> int:
        which = f"SELECT attempt FROM attempts WHERE {condition}"
        connection.execute(f"DELETE FROM slices WHERE attempt IN ({which})", parameters)
        return connection.execute(f"DELETE FROM attempts WHERE attempt IN ({which})", parameters).rowcount

    def _slices(
        self, connection: sqlite3.Connection, attempt: str, record: AttemptRecord, first: int
    ) -> Iterator[tuple[dict[bytes, bytes | None], int]]:
        """Yield the updates of each slice, and the bytes of the slice."""
        rows = connection.execute(
            "SELECT number, checksum, packed FROM slices WHERE attempt = ? AND number >= ? ORDER BY number",
            (attempt, first),
        )
        expected = first
        for number, checksum, packed in rows:
            if number != expected or not isinstance(packed, bytes):
                raise self._file.corrupted(f"slice {expected} of attempt {attempt} is damaged or missing")
            try:
                updates = unpacked_updates(packed, checksum)
            except ValueError as error:
                raise self._file.corrupted(
                    f"slice {expected} of attempt {attempt} is damaged: it has {error}"
                ) from error
            yield updates, len(packed)
            expected += 1
        if expected != record.slices:
            raise self._file.corrupted(f"slice {expected} of attempt {attempt} is missing")

    def _merged(
        self, connection: sqlite3.Connection, attempt: str, record: AttemptRecord
    ) -> Iterator[tuple[dict[bytes, bytes | None], int]]:
        """Yield the updates of some slices together, and the number of slices."""
        # In one order of keys, several slices write each page once: a third less of SQLite's time than one by one.
        updates: dict[bytes, bytes | None] = {}
        slices = size = 0
        for more, packed_bytes in self._slices(connection, attempt, record, 0):
            updates.update(more)
            slices += 1
            size += packed_bytes
            if len(updates) >= _MERGED_UPDATES or size >= _MERGED_BYTES:
                yield updates, slices
                updates, slices, size = {}, 0, 0
        if slices:
            yield updates, slices

    def _overlay(self, connection: sqlite3.Connection, attempt: str) -> bool:
        """Copy new slices of the attempt into a temporary table; False if there is no such attempt."""
        record = self._record(connection, attempt)
        if record is None:
            return False
        found = connection.execute("SELECT checksum FROM slices WHERE attempt = ? ORDER BY number", (attempt,))
        checksums = [checksum for (checksum,) in found]
        copied = self._overlaid[2] if self._overlaid and self._overlaid[:2] == (connection, attempt) else []
        self._overlaid = None
        if not copied or checksums[: len(copied)] != copied:
            copied = []
            columns = "(key BLOB PRIMARY KEY, value BLOB)"
            connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {OVERLAY.entries} {columns} WITHOUT ROWID")
            connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {OVERLAY.by_time} {columns}")
            for table in OVERLAY:
                connection.execute(f"DELETE FROM {table}")
        for updates, _ in self._slices(connection, attempt, record, len(copied)):
            rows.put(connection, OVERLAY, updates.items())
        self._overlaid = (connection, attempt, checksums)
        return True
