"""The staged rows of a namespace in HBase: reads them as slices, and removes them."""

from collections.abc import Iterator, Mapping

from anchorbolt.state_backends.hbase import layout
from anchorbolt.state_backends.hbase.layout import DATA, HBaseMetadata, NamespaceRows, Staged
from anchorbolt.state_backends.hbase.metadata import MetadataCell
from anchorbolt.state_backends.hbase.table import HBaseTable

_SWEPT_VERSIONS = 8
_OVERLAY_BYTES = 64 << 20

_Updates = dict[bytes, bytes | None]


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
