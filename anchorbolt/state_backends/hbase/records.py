"""What a namespace keeps in HBase beside its data: the metadata cell, changed by check-and-put only; staged rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from anchorbolt.errors import StateError, StateUnavailable
from anchorbolt.state_backends.hbase import layout
from anchorbolt.state_backends.hbase.layout import DATA, METADATA, NAMESPACES_ROW, HBaseMetadata, NamespaceRows, Staged
from anchorbolt.state_backends.hbase.table import HBaseTable

_TRIES = 100
_SWEPT_VERSIONS = 8
_OVERLAY_BYTES = 64 << 20
_Updates = dict[bytes, bytes | None]


class MetadataSnapshot(NamedTuple):
    """The metadata as it was read or written, its bytes, and their timestamp (the region server's clock)."""

    metadata: HBaseMetadata
    cell: bytes | None
    timestamp: int


class MetadataCell:
    """The metadata cell of one namespace."""

    def __init__(self, table: HBaseTable, rows: NamespaceRows) -> None:
        self._table = table
        self._rows = rows
        self._has_read = False

    def read(self) -> MetadataSnapshot:
        seen = self._seen(self._table.read(METADATA, self._rows.metadata))
        self._has_read = True
        return seen

    def read_beside(self, rows: Sequence[bytes]) -> Iterator[tuple[HBaseMetadata, dict[bytes, Any]]]:
        """Read rows of data, and the metadata in each message. Without rows, one message still reads the metadata."""
        if not self._has_read:
            self.read()  # HBase reports a missing table only if a single row is requested
        for cells in self._table.read_many(DATA, rows, (self._rows.metadata, METADATA)):
            yield self._seen(cells.pop(self._rows.metadata, None)).metadata, cells

    def _seen(self, cell: Any) -> MetadataSnapshot:
        if cell is None:
            return MetadataSnapshot(HBaseMetadata(), None, 0)
        metadata = layout.unpacked_metadata(self._rows.name.decode(), cell.value)
        return MetadataSnapshot(metadata, cell.value, cell.timestamp)

    def change(
        self, change: Callable[[HBaseMetadata], HBaseMetadata], seen: MetadataSnapshot | None = None
    ) -> MetadataSnapshot:
        """Replace the metadata by the result of `change`, atomically, and return the new metadata.

        `change` raises the errors of the rules, or returns its argument if there is nothing to do; then only the
        metadata of a new namespace is written. It is called again if another process was faster. With `seen`, the
        metadata is read only if it has changed since.
        """
        is_fresh = seen is None
        seen = seen or self.read()
        for _ in range(_TRIES):
            try:
                metadata = change(seen.metadata)
            except StateError:
                if is_fresh:
                    raise
                metadata = seen.metadata
            if metadata == seen.metadata and not (is_fresh and seen.cell is None):
                if is_fresh:
                    return seen
                seen, is_fresh = self.read(), True
                continue
            cell = layout.packed_metadata(metadata)
            if seen.cell is None:
                self._table.put(self._rows.name, [(NAMESPACES_ROW, b"")], None)
            if self._table.check_and_put(METADATA, self._rows.metadata, seen.cell, cell):
                return MetadataSnapshot(metadata, cell, 0)
            seen, is_fresh = self.read(), True
            # The connection broke after the first call had succeeded, and the repeated call failed.
            if seen.cell == cell:
                return seen
        namespace = self._rows.name.decode()
        raise StateUnavailable(
            f"{namespace}: its metadata was changed by others {_TRIES} times before this call could: stop all "
            "drivers of this topology but one",
            namespace=namespace,
        )

    def remove(self) -> None:
        """Remove the metadata, and then the name of the namespace."""
        seen = self.read()
        self._table.delete(METADATA, [self._rows.metadata], seen.timestamp)
        self._table.delete(self._rows.name, [NAMESPACES_ROW], seen.timestamp)


class StagedRows:
    """The staged rows of one namespace."""

    def __init__(self, table: HBaseTable, rows: NamespaceRows) -> None:
        self._table = table
        self._rows = rows
        self.forget()

    def forget(self) -> None:
        # The label of an attempt, and of its first slices (read already, within the memory limit): their number, their
        # updates, the bytes of the updates.
        self._overlay: tuple[str, int, _Updates, int] = ("", 0, {}, 0)

    def remove(self, dropped: Mapping[str, Staged], epoch: int) -> None:
        """Remove the rows of attempts that are no longer in the metadata."""
        for attempt, staged in dropped.items():
            for rows in self._names(*self._rows.staged(attempt, staged)):
                self._table.delete(DATA, rows, epoch)

    def sweep(self, cell: MetadataCell) -> None:
        """Remove the recent rows of attempts that are not in the metadata.

        Rows are listed before the metadata is read: a row's attempt is in the metadata before the row is written.
        """
        version = max(0, cell.read().metadata.version - _SWEPT_VERSIONS)
        rows = [row for page in self._names(*self._rows.all_staged(version)) for row in page]
        if rows:
            metadata = cell.read().metadata
            known = {self._rows.attempt(attempt, staged) for attempt, staged in metadata.attempts.items()}
            left = [row for row in rows if row.rpartition(b"$")[0] not in known]
            self._table.delete(DATA, left, metadata.epoch)

    def groups(self, metadata: HBaseMetadata, attempt: str) -> Iterator[_Updates]:
        """Yield the updates of a promoted attempt in at most `VERSION_STEP` groups, from the first not applied."""
        staged = metadata.attempts[attempt]
        slices = staged.record.slices
        size = -(-slices // layout.VERSION_STEP)
        group: _Updates = {}
        first = metadata.applied * size
        for number, items in enumerate(self._read_slices(attempt, staged, first), first + 1):
            group.update(items)
            if number % size == 0 or number == slices:
                yield group
                group = {}

    def over_data(self, metadata: HBaseMetadata, attempt: str | None) -> Iterator[Mapping[bytes, bytes | None]]:
        """Yield the updates that hide data rows, oldest first: the entries of `write`, then the slices of `attempt`."""
        yield metadata.written
        if attempt in metadata.visible():
            yield from self._read_slices(attempt, metadata.attempts[attempt], 0)

    def updates(self, metadata: HBaseMetadata, attempt: str, wanted: set[bytes]) -> _Updates:
        """Return the updates that `attempt` staged for the `wanted` keys.

        The first slices stay in memory, up to a limit of bytes; each call reads the others again.
        """
        if attempt not in metadata.visible():
            return {}
        staged = metadata.attempts[attempt]
        if self._overlay[0] != staged.label:
            self._overlay = (staged.label, 0, {}, 0)
        label, kept, updates, size = self._overlay
        found = {key: updates[key] for key in wanted if key in updates}
        for items in self._read_slices(attempt, staged, kept):
            found.update((key, items[key]) for key in wanted & items.keys())
            if size <= _OVERLAY_BYTES:
                updates.update(items)
                size += sum(len(key) + len(value or b"") for key, value in items.items())
                kept += 1
                self._overlay = (label, kept, updates, size)
        return found

    def _read_slices(self, attempt: str, staged: Staged, first: int) -> Iterator[_Updates]:
        start, stop = self._rows.staged(attempt, staged, first)
        pages = self._table.scan(DATA, start, stop)
        return layout.read_slices(self._rows.name.decode(), pages, first, staged.record.slices)

    def _names(self, start: bytes, stop: bytes) -> Iterator[list[bytes]]:
        for page in self._table.scan(DATA, start, stop, only=b"KeyOnlyFilter()"):
            yield [row for row, _ in page]
