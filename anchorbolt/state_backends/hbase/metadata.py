"""The cell in HBase that keeps the metadata of a namespace. It is changed by check-and-put only."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from anchorbolt.errors import StateError, StateUnavailable
from anchorbolt.state_backends.hbase import layout
from anchorbolt.state_backends.hbase.layout import DATA, METADATA, NAMESPACES_ROW, HBaseMetadata, NamespaceRows
from anchorbolt.state_backends.hbase.table import HBaseTable

_TRIES = 100


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
