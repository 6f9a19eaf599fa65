"""The cell in HBase that keeps the metadata of a namespace: read, and moved by check-and-put."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from anchorbolt.errors import StateError, StateUnavailable
from anchorbolt.state_backends.hbase import layout as layout
from anchorbolt.state_backends.hbase.layout import (
    DATA,
    METADATA,
    NAMESPACES_ROW,
    HBaseMetadata,
    NamespaceRows,
)
from anchorbolt.state_backends.hbase.table import Cell, HBaseTable

TRIES = 100
"""How often a call begins anew where others were faster."""


class MetadataSnapshot(NamedTuple):
    """The metadata as it was read or written: what it says, its cell, and when the region server wrote that."""

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
        """Read the metadata."""
        seen = self._seen(self._table.read(METADATA, self._rows.metadata))
        self._has_read = True
        return seen

    def read_beside(self, rows: Sequence[bytes]) -> Iterator[tuple[HBaseMetadata, dict[bytes, Cell]]]:
        """Read rows of data, and with each message of them, at least one, the metadata."""
        if not self._has_read:
            self.read()  # HBase says that a table is missing only where a single row is asked for
        for cells, metadata in self._table.read_many(DATA, rows, (METADATA, self._rows.metadata)):
            yield self._seen(metadata).metadata, cells

    def _seen(self, cell: Cell | None) -> MetadataSnapshot:
        if cell is None:
            return MetadataSnapshot(HBaseMetadata(), None, 0)
        return MetadataSnapshot(
            layout.unpacked_metadata(self._rows.name.decode(), cell.value), cell.value, cell.timestamp
        )

    def change(
        self,
        change: Callable[[HBaseMetadata], HBaseMetadata],
        seen: MetadataSnapshot | None = None,
        *,
        create: bool = False,
    ) -> MetadataSnapshot:
        """Replace the metadata by what `change` makes of it, atomically, and return the new one.

        `change` raises what the rules say, or returns the same where nothing is to be done; it is called again where
        somebody else was faster. Where `seen` is given, the metadata is read only if it has moved since; with
        `create`, it is written for a new namespace even if it says nothing yet.
        """
        is_fresh = seen is None
        seen = seen or self.read()
        for _ in range(TRIES):
            try:
                metadata = change(seen.metadata)
            except StateError:
                if is_fresh:
                    raise
                metadata = seen.metadata
            if metadata == seen.metadata and not (create and seen.cell is None):
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
            # The connection broke, the call was repeated, and it was the first one that did it.
            if seen.cell == cell:
                return seen
        raise self.contended()

    def contended(self) -> StateUnavailable:
        """Return the error of a call that others were always faster than."""
        namespace = self._rows.name.decode()
        return StateUnavailable(
            f"{namespace}: its metadata was changed by others {TRIES} times before this call could: stop all "
            "drivers of this topology but one",
            namespace=namespace,
        )


def with_metadata(metadata: HBaseMetadata, **changes: object) -> HBaseMetadata:
    """Return the metadata with other rules; a codec that is there already is kept."""
    if metadata.rules.codec:
        changes.pop("codec", None)
    return replace(metadata, rules=replace(metadata.rules, **changes))  # type: ignore[arg-type]
