"""The cell in HBase that keeps the bookkeeping of a namespace: read, and moved by check-and-put."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from anchorbolt.errors import StateError, StateUnavailable
from anchorbolt.state_backends.hbase import layout as layout
from anchorbolt.state_backends.hbase.layout import BOOKS, DATA, NAMESPACES_ROW, Books, NamespaceRows
from anchorbolt.state_backends.hbase.table import Cell, HBaseTable

TRIES = 100
"""How often a call begins anew where others were faster."""


class MetadataSnapshot(NamedTuple):
    """The bookkeeping as it was read or written: what it says, its cell, and when the region server wrote that."""

    books: Books
    cell: bytes | None
    timestamp: int


class MetadataCell:
    """The bookkeeping's cell of one namespace."""

    def __init__(self, table: HBaseTable, rows: NamespaceRows) -> None:
        self._table = table
        self._rows = rows
        self._has_read = False

    def read(self) -> MetadataSnapshot:
        """Read the bookkeeping."""
        seen = self._seen(self._table.read(BOOKS, self._rows.books))
        self._has_read = True
        return seen

    def read_beside(self, rows: Sequence[bytes]) -> Iterator[tuple[Books, dict[bytes, Cell]]]:
        """Read rows of data, and with each message of them, at least one, the bookkeeping."""
        if not self._has_read:
            self.read()  # HBase says that a table is missing only where a single row is asked for
        for cells, books in self._table.read_many(DATA, rows, (BOOKS, self._rows.books)):
            yield self._seen(books).books, cells

    def _seen(self, cell: Cell | None) -> MetadataSnapshot:
        if cell is None:
            return MetadataSnapshot(Books(), None, 0)
        return MetadataSnapshot(
            layout.unpacked_books(self._rows.name.decode(), cell.value), cell.value, cell.timestamp
        )

    def change(
        self, change: Callable[[Books], Books], seen: MetadataSnapshot | None = None, *, create: bool = False
    ) -> MetadataSnapshot:
        """Replace the bookkeeping by what `change` makes of it, atomically, and return the new one.

        `change` raises what the rules say, or returns the same where nothing is to be done; it is called again where
        somebody else was faster. Where `seen` is given, the bookkeeping is read only if it has moved since; with
        `create`, it is written for a new namespace even if it says nothing yet.
        """
        is_fresh = seen is None
        seen = seen or self.read()
        for _ in range(TRIES):
            try:
                books = change(seen.books)
            except StateError:
                if is_fresh:
                    raise
                books = seen.books
            if books == seen.books and not (create and seen.cell is None):
                if is_fresh:
                    return seen
                seen, is_fresh = self.read(), True
                continue
            cell = layout.packed_books(books)
            if seen.cell is None:
                self._table.put(self._rows.name, [(NAMESPACES_ROW, b"")], None)
            if self._table.check_and_put(BOOKS, self._rows.books, seen.cell, cell):
                return MetadataSnapshot(books, cell, 0)
            seen, is_fresh = self.read(), True
            # The connection broke, the call was repeated, and it was the first one that did it.
            if seen.cell == cell:
                return seen
        raise self.contended()

    def contended(self) -> StateUnavailable:
        """Return the error of a call that others were always faster than."""
        namespace = self._rows.name.decode()
        return StateUnavailable(
            f"{namespace}: its bookkeeping was changed by others {TRIES} times before this call could: stop all "
            "drivers of this topology but one",
            namespace=namespace,
        )


def with_metadata(books: Books, **changes: object) -> Books:
    """Return the bookkeeping with other rules; a codec that is there already is kept."""
    if books.rules.codec:
        changes.pop("codec", None)
    return replace(books, rules=replace(books.rules, **changes))  # type: ignore[arg-type]
