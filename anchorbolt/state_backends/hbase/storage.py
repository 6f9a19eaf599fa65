"""One namespace in HBase: the steps of a transaction. `provider` explains the layout."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from anchorbolt.errors import StateCorrupted, UnsupportedValue
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
)
from anchorbolt.state_backends.hbase import layout
from anchorbolt.state_backends.hbase.client import HBaseClient
from anchorbolt.state_backends.hbase.layout import DATA, HBaseMetadata, NamespaceRows, Staged
from anchorbolt.state_backends.hbase.records import MetadataCell, MetadataSnapshot, StagedRows
from anchorbolt.state_backends.hbase.table import HBaseTable
from anchorbolt.state_backends.rules import AttemptRecord


class HBaseStateStorage(StateStorage):
    """One namespace of a `HBaseStateProvider`."""

    limits: SizeLimits

    def __init__(self, namespace: str, client: HBaseClient, limits: SizeLimits) -> None:
        self.namespace = namespace
        self.limits = limits
        self._table = HBaseTable(client, namespace)
        self._rows = NamespaceRows(namespace)
        self._cell = MetadataCell(self._table, self._rows)
        self._staged = StagedRows(self._table, self._rows)

    def head(self) -> NamespaceHead:
        metadata = self._cell.read().metadata
        return rules.head_of(metadata, metadata.visible())

    def claim(self, seq: int = 0) -> Fence:
        """Raises `ConfigError` if the column family is missing or drops old cells."""
        self._table.check()
        claimed = self._cell.change(lambda metadata: replace(metadata, fence=Fence(metadata.fence.generation + 1, seq)))
        return claimed.metadata.fence

    def raise_fence(self, fence: Fence) -> NamespaceHead:
        """Also removes the rows that interrupted attempts left behind."""

        def raised(metadata: HBaseMetadata) -> HBaseMetadata:
            rules.check_fence(self.namespace, metadata, fence)
            return replace(metadata, fence=fence)

        metadata = self._cell.change(raised).metadata
        self._staged.sweep(self._cell)
        return rules.head_of(metadata, metadata.visible())

    def get_many(
        self, keys: Sequence[bytes], attempt: str | None = None, at: ReadPosition | None = None
    ) -> list[bytes | None]:
        """Not atomic, but each message that reads values also reads the metadata to compare with `at`."""
        staged: dict[bytes, bytes | None] = {}
        if attempt is not None:
            metadata = self._cell.read().metadata
            self._check_reading(metadata, attempt, at)
            with self._still_there(attempt, at):
                staged = self._staged.updates(metadata, attempt, set(keys))
        data = self._rows.data
        missing = [key for key in dict.fromkeys(keys) if key not in staged and len(key) <= self.limits.key]
        found: dict[bytes, bytes | None] = {}
        for metadata, cells in self._cell.read_beside([data + key for key in missing]):
            self._check_reading(metadata, attempt, at)
            found.update((row[len(data) :], layout.value_of(self.namespace, cells[row].value)) for row in cells)
            found.update(metadata.written)
        found.update(staged)
        return [found.get(key) for key in keys]

    def scan(
        self, attempt: str | None = None, page_size: int = 1000, at: ReadPosition | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Keep the keys of the attempt's updates in memory, but not their values.

        With `at`, read the metadata again after each page, and compare it before the page is yielded.
        """
        metadata = self._cell.read().metadata
        self._check_reading(metadata, attempt, at)
        over: dict[bytes, int] = {}  # by key, the index of the last updates over the data that have it
        with self._still_there(attempt, at):
            for number, items in enumerate(self._staged.over_data(metadata, attempt)):
                over.update(dict.fromkeys(items, number))
        for page in self._data_pages(self._rows.data, self._rows.data_end, page_size, attempt, at):
            if entries_left := [(key, value) for key, value in page if key not in over]:
                yield entries_left
        self._check_again(attempt, at)
        with self._still_there(attempt, at):
            for number, items in enumerate(self._staged.over_data(metadata, attempt)):
                latest = [(key, value) for key, value in items.items() if value is not None and over[key] == number]
                for start in range(0, len(latest), page_size):
                    yield latest[start : start + page_size]

    def ranges(self, parts: int) -> list[KeyRange]:
        bounds = self._rows.data, self._rows.data_end
        lowest, highest = self._table.first_row(*bounds), self._table.last_row(*bounds)
        if lowest is None or highest is None:
            return [ALL_KEYS]
        prefix = len(self._rows.data)
        return rules.divided(lowest[prefix:], highest[prefix:], parts)

    def scan_range(
        self, within: KeyRange, page_size: int = 1000, at: ReadPosition | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        self._check_reading(self._cell.read().metadata, None, at)
        data = self._rows.data
        yield from self._data_pages(
            data + within.first, self._rows.data_end if within.end is None else data + within.end, page_size, None, at
        )
        self._check_again(None, at)

    def _data_pages(
        self, start: bytes, stop: bytes, page_size: int, attempt: str | None, at: ReadPosition | None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the committed entries of some rows."""
        prefix = len(self._rows.data)
        for page in self._table.scan(DATA, start, stop, page_size=page_size):
            self._check_again(attempt, at)
            entries = ((row[prefix:], layout.value_of(self.namespace, cell)) for row, cell in page)
            yield [(key, value) for key, value in entries if value is not None]

    def stage(self, staged: StagedSlice) -> Seal:
        rules.check_attempt(staged.attempt)
        self._refuse_large(staged.updates)
        parts = layout.slice_chunks(staged.packed, staged.checksum)
        attempt = staged.attempt

        def next_record(metadata: HBaseMetadata) -> AttemptRecord | None:
            return rules.next_record(self.namespace, metadata, metadata.visible().get(attempt), staged)

        seen = self._register(staged, next_record)
        registered = seen.metadata.attempts[attempt]
        if next_record(seen.metadata) is not None:
            rows = [self._rows.slice_row(attempt, registered, staged.number, part) for part in range(len(parts))]
            self._table.put(DATA, zip(rows, parts, strict=True), seen.metadata.epoch)

        def is_registered(metadata: HBaseMetadata) -> bool:
            return attempt in metadata.attempts and metadata.attempts[attempt].label == registered.label

        def counted(metadata: HBaseMetadata) -> HBaseMetadata:
            record = next_record(metadata)
            if not is_registered(metadata):
                return metadata
            known = metadata.attempts[attempt]
            attempts = {**metadata.attempts, attempt: replace(known, record=record or known.record)}
            return replace(metadata, attempts=attempts, fence=staged.fence, codec=metadata.codec or staged.codec)

        metadata = self._cell.change(counted, seen).metadata
        if not is_registered(metadata):
            return self.stage(staged)  # the attempt was dropped meanwhile, perhaps with its rows: start again
        record = metadata.attempts[attempt].record
        return Seal(record.slices, record.checksum)

    def seal(self, fence: Fence, attempt: str, seal: Seal) -> None:

        def sealed(metadata: HBaseMetadata) -> HBaseMetadata:
            record = metadata.visible().get(attempt)
            closed = rules.sealed_record(self.namespace, metadata, record, fence, attempt, seal)
            attempts = {**metadata.attempts, attempt: replace(metadata.attempts[attempt], record=closed)}
            return replace(metadata, attempts=attempts, fence=fence)

        self._cell.change(sealed)

    def commit(self, fence: Fence, txid: int, attempt: str) -> None:

        def check(metadata: HBaseMetadata) -> bool:
            record = metadata.visible().get(attempt)
            return rules.check_commit(self.namespace, metadata, record, fence, txid, attempt)

        def promoted(metadata: HBaseMetadata) -> HBaseMetadata:
            return replace(metadata, fence=fence, promoted=attempt if check(metadata) else "")

        seen = self._cell.change(promoted)
        if seen.metadata.promoted != attempt:
            return
        try:
            seen = self._apply(seen, fence, txid, attempt, check)
        except StateCorrupted:
            # Another process may have finished the commit and removed the staged rows.
            if check(self._cell.read().metadata):
                raise
            return

        def finished(metadata: HBaseMetadata) -> HBaseMetadata:
            if not check(metadata):
                return metadata
            done = replace(metadata, fence=fence, committed=txid, winner=attempt, promoted="")
            return replace(done, attempts={}, version=metadata.version + 1, applied=0)

        dropped = seen.metadata.attempts
        self._cell.change(finished, seen)
        self._staged.remove(dropped, seen.metadata.epoch)

    def _apply(
        self, seen: MetadataSnapshot, fence: Fence, txid: int, attempt: str, check: Callable[[HBaseMetadata], bool]
    ) -> MetadataSnapshot:
        """Write the updates of the promoted attempt, beginning with the first group that is not applied yet."""
        metadata, data = seen.metadata, self._rows.data
        first = metadata.epoch + (metadata.version + 1) * layout.VERSION_STEP
        for number, items in enumerate(self._staged.groups(metadata, attempt), metadata.applied):
            cells = ((data + key, layout.stored(value)) for key, value in items.items())
            self._table.put(DATA, cells, first + number)

            def counted(
                metadata: HBaseMetadata, number: int = number, items: Mapping[bytes, object] = items
            ) -> HBaseMetadata:
                if not check(metadata) or metadata.applied > number:
                    return metadata  # another process was faster
                written = {key: value for key, value in metadata.written.items() if key not in items}
                return replace(metadata, applied=number + 1, written=written, fence=fence)

            seen = self._cell.change(counted, seen)
            if seen.metadata.promoted != attempt:
                break
            reach(FaultPoint.SLICE_APPLIED, txid=txid)
        return seen

    def rollback(self, fence: Fence) -> int:
        before = HBaseMetadata()

        def rolled_back(metadata: HBaseMetadata) -> HBaseMetadata:
            nonlocal before
            before = metadata
            rules.check_rollback(self.namespace, metadata, fence)
            return replace(metadata, attempts={}, fence=fence)

        self._cell.change(rolled_back)
        self._staged.remove(before.attempts, before.epoch)
        return len(before.visible())

    def write(self, fence: Fence, items: Mapping[bytes, bytes], codec: str) -> None:
        """All entries of `write` are in the metadata cell, so together they cannot be larger than one cell."""

        def written(metadata: HBaseMetadata) -> HBaseMetadata:
            rules.check_write(self.namespace, metadata, fence, codec)
            entries = {**metadata.written, **items}
            size = sum(len(key) + len(value) for key, value in entries.items())
            if size > self.limits.value:
                raise UnsupportedValue(
                    f"{self.namespace}: {size} bytes are to be written, and HBase takes {self.limits.value} in one "
                    f"cell. {self.limits.advice}."
                )
            return replace(metadata, written=entries, fence=fence, codec=metadata.codec or codec)

        self._cell.change(written)

    def remove(self, fence: Fence) -> None:
        """First make the metadata those of a namespace without data, then remove the rows, and the metadata last."""

        def emptied(metadata: HBaseMetadata) -> HBaseMetadata:
            rules.check_fence(self.namespace, metadata, fence)
            return HBaseMetadata(fence, version=metadata.version, epoch=metadata.epoch)

        self._cell.change(emptied)
        seen = self._cell.read()
        last = self._last_timestamp(seen.metadata) + layout.VERSION_STEP  # of a half-applied commit
        for start, stop in ((self._rows.data, self._rows.data_end), self._rows.all_staged(0)):
            for page in self._table.scan(DATA, start, stop, only=b"KeyOnlyFilter()"):
                self._table.delete(DATA, [row for row, _ in page], last)
        # A new namespace begins at the server's clock. Its cells must be newer than these deletes.
        time.sleep(max(0, last - seen.timestamp + 1) / 1000)
        self._cell.remove()

    def forget_deleted(self) -> int:
        """Remove the cells that mark deleted keys, and return their number."""
        last, forgotten = self._last_timestamp(self._cell.read().metadata), 0  # a later put stays
        only = b"ValueFilter(=, 'binary:-')"
        for page in self._table.scan(DATA, self._rows.data, self._rows.data_end, only=only):
            self._table.delete(DATA, [row for row, _ in page], last)
            forgotten += len(page)
        return forgotten

    def close(self) -> None:
        self._staged.forget()
        self._table.close()

    @staticmethod
    def _last_timestamp(metadata: HBaseMetadata) -> int:
        """Return the last timestamp of the commits so far."""
        return metadata.epoch + (metadata.version + 1) * layout.VERSION_STEP - 1

    def _register(
        self, staged: StagedSlice, next_record: Callable[[HBaseMetadata], AttemptRecord | None]
    ) -> MetadataSnapshot:
        """Add an attempt to the metadata before its first row is written; drop attempts with a lower fence."""
        seen = self._cell.read()
        next_record(seen.metadata)
        if seen.cell is None:
            self._cell.change(lambda metadata: metadata)
            seen = self._cell.read()
        epoch = seen.metadata.epoch or seen.timestamp
        fence = staged.fence
        before = seen.metadata

        def registered(metadata: HBaseMetadata) -> HBaseMetadata:
            nonlocal before
            before = metadata
            next_record(metadata)
            if staged.attempt in metadata.visible():
                return metadata
            record = AttemptRecord(staged.txid, staged.base, fence, 0, 0, 0, False)
            attempts = {each: known for each, known in metadata.attempts.items() if known.record.fence >= fence}
            attempts[staged.attempt] = Staged(record, secrets.token_hex(4), metadata.version)
            changed = replace(metadata, attempts=attempts, epoch=metadata.epoch or epoch)
            return replace(changed, fence=fence, codec=metadata.codec or staged.codec)

        seen = self._cell.change(registered, seen)
        dropped = {each: known for each, known in before.attempts.items() if each not in seen.metadata.attempts}
        self._staged.remove(dropped, seen.metadata.epoch)
        return seen

    @contextmanager
    def _still_there(self, attempt: str | None, at: ReadPosition | None) -> Iterator[None]:
        """Before reporting damaged or missing slices, check that the namespace is still at `at`."""
        try:
            yield
        except StateCorrupted:
            self._check_again(attempt, at)
            raise

    def _check_again(self, attempt: str | None, at: ReadPosition | None) -> None:
        if at is not None:
            self._check_reading(self._cell.read().metadata, attempt, at)

    def _check_reading(self, metadata: HBaseMetadata, attempt: str | None, at: ReadPosition | None) -> None:
        record = metadata.visible().get(attempt) if attempt is not None else None
        rules.check_reading(self.namespace, metadata, record, attempt, at)

    def _refuse_large(self, updates: Mapping[bytes, bytes | None]) -> None:
        key = max(map(len, updates), default=0)
        value = max(map(len, filter(None, updates.values())), default=0)
        if key > self.limits.key or value > self.limits.value:
            raise UnsupportedValue(
                f"{self.namespace}: the longest key has {key} bytes and the longest value {value}; HBase takes "
                f"{self.limits.key} and {self.limits.value}. {self.limits.advice}."
            )
