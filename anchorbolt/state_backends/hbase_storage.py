"""One namespace in HBase: the steps of a transaction, by the layout and the rules that `hbase` explains."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from anchorbolt.errors import StateCorrupted, StateError, StateUnavailable, UnsupportedValue
from anchorbolt.faults import FaultPoint, reach
from anchorbolt.state_backends import hbase_layout as layout
from anchorbolt.state_backends import transitions
from anchorbolt.state_backends.base import Fence, NamespaceHead, Seal, SizeLimits, StateStorage
from anchorbolt.state_backends.hbase_client import HBaseClient
from anchorbolt.state_backends.hbase_layout import BOOKS, DATA, NAMESPACES_ROW, Books, NamespaceRows, Staged
from anchorbolt.state_backends.hbase_table import HBaseTable
from anchorbolt.state_backends.transitions import AttemptRecord

__all__ = ["HBaseStateStorage"]

_TRIES = 100
_SWEPT_VERSIONS = 8
_OVERLAY_BYTES = 64 << 20

Items = list[tuple[bytes, bytes | None]]


class _Seen(NamedTuple):
    """The bookkeeping as it was read or written: what it says, its cell, and when the region server wrote that."""

    books: Books
    cell: bytes | None
    timestamp: int


class HBaseStateStorage(StateStorage):
    """One namespace of a `HBaseStateProvider`."""

    limits: SizeLimits

    def __init__(self, namespace: str, client: HBaseClient, limits: SizeLimits) -> None:
        self.namespace = namespace
        self.limits = limits
        self._client: HBaseClient | None = client
        self._table_of_client = HBaseTable(client, namespace)
        self._rows = NamespaceRows(namespace)
        self._is_checked = False
        # What an attempt staged, as far as this handle has read it: the attempt, slices read, updates, their bytes.
        self._overlay: tuple[Staged, int, dict[bytes, bytes | None], int] | None = None

    def head(self) -> NamespaceHead:
        """See `StateStorage.head`."""
        return _head(self._look().books)

    def claim(self) -> Fence:
        """See `StateStorage.claim`.

        Raises:
            ConfigError: The column family is missing, or drops what is old.
        """
        if not self._is_checked:
            self._table.check()
            self._is_checked = True
        claimed = self._move(lambda books: _with(books, fence=Fence(books.rules.fence.generation + 1, 0)))
        return claimed.books.rules.fence

    def raise_fence(self, fence: Fence) -> NamespaceHead:
        """See `StateStorage.raise_fence`. Also removes what attempts that were cut off left behind."""

        def raised(books: Books) -> Books:
            transitions.check_fence(self.namespace, books.rules, fence)
            return _with(books, fence=fence)

        head = _head(self._move(raised).books)
        self._sweep()
        return head

    def get_many(self, keys: Sequence[bytes], attempt: str | None = None) -> list[bytes | None]:
        """See `StateStorage.get_many`."""
        books = self._look().books
        found = self._updates(books, attempt, set(keys)) if attempt is not None else {}
        found.update((key, books.written[key]) for key in keys if key in books.written and key not in found)
        data = self._rows.data
        missing = [key for key in dict.fromkeys(keys) if key not in found and len(key) <= self.limits.key]
        for row, cell in self._table.read(DATA, [data + key for key in missing]).items():
            found[row[len(data) :]] = layout.value_of(self.namespace, cell.value)
        return [found.get(key) for key in keys]

    def scan(self, attempt: str | None = None, page_size: int = 1000) -> Iterator[list[tuple[bytes, bytes]]]:
        """See `StateStorage.scan`. With `attempt`, the keys of its updates, though not their values, are in memory."""
        books = self._look().books
        over: dict[bytes, int] = dict.fromkeys(books.written, -1)  # the slice that has the last word on a key
        if attempt is not None:
            for number, items in enumerate(self._slices(books, attempt)):
                over.update((key, number) for key, _ in items)
        prefix = len(self._rows.data)
        for page in self._table.scan(DATA, self._rows.data, self._rows.data_end, page_size=page_size):
            entries = ((row[prefix:], layout.value_of(self.namespace, cell)) for row, cell in page)
            if shown := [(key, value) for key, value in entries if value is not None and key not in over]:
                yield shown
        if shown := [(key, value) for key, value in books.written.items() if over[key] == -1]:
            yield shown
        if attempt is not None:
            for number, items in enumerate(self._slices(books, attempt)):
                shown = [(key, value) for key, value in items if value is not None and over[key] == number]
                for start in range(0, len(shown), page_size):
                    yield shown[start : start + page_size]

    def stage(
        self,
        fence: Fence,
        txid: int,
        attempt: str,
        base: int,
        slice_number: int,
        items: Sequence[tuple[bytes, bytes | None]],
        codec: str,
    ) -> Seal:
        """See `StateStorage.stage`.

        Raises:
            UnsupportedValue: An item is larger than `limits`.
        """
        transitions.check_attempt(attempt)
        self._refuse_large(items)
        parts = layout.slice_parts(items)

        def next_record(books: Books) -> AttemptRecord | None:
            record = books.visible().get(attempt)
            return transitions.next_record(
                self.namespace, books.rules, record, fence, txid, attempt, base, slice_number, items, codec
            )

        for _ in range(_TRIES):
            seen = self._register(fence, txid, attempt, base, codec, next_record)
            staged = seen.books.attempts[attempt]
            rows = [self._rows.slice_row(attempt, staged, slice_number, part) for part in range(len(parts))]
            if next_record(seen.books) is not None:
                self._table.put(DATA, zip(rows, parts, strict=True), seen.books.epoch)

            def counted(books: Books, staged: Staged = staged) -> Books:
                record = next_record(books)
                known = books.attempts.get(attempt)
                if known is None or known.label != staged.label:
                    return books  # dropped meanwhile, and so may its rows be: once more from the start
                attempts = {**books.attempts, attempt: replace(known, record=record or known.record)}
                return _with(replace(books, attempts=attempts), fence=fence, codec=codec)

            known = self._move(counted, seen).books.attempts.get(attempt)
            if known is not None and known.label == staged.label:
                return Seal(known.record.slices, known.record.checksum)
        raise self._contended()

    def seal(self, fence: Fence, attempt: str, seal: Seal) -> None:
        """See `StateStorage.seal`."""

        def sealed(books: Books) -> Books:
            record = books.visible().get(attempt)
            closed = transitions.sealed_record(self.namespace, books.rules, record, fence, attempt, seal)
            attempts = {**books.attempts, attempt: replace(books.attempts[attempt], record=closed)}
            return _with(replace(books, attempts=attempts), fence=fence)

        self._move(sealed)

    def commit(self, fence: Fence, txid: int, attempt: str) -> None:
        """See `StateStorage.commit`."""

        def check(books: Books) -> bool:
            record = books.visible().get(attempt)
            return transitions.check_commit(self.namespace, books.rules, record, fence, txid, attempt)

        def promoted(books: Books) -> Books:
            return _with(books, fence=fence, promoted=attempt) if check(books) else _with(books, fence=fence)

        seen = self._move(promoted)
        if seen.books.rules.promoted != attempt:
            return
        try:
            seen = self._apply(seen, fence, txid, attempt, check)
        except StateCorrupted:
            # Somebody else may have finished, and removed what was read here.
            if check(self._look().books):
                raise
            return

        def finished(books: Books) -> Books:
            if not check(books):
                return books
            done = replace(books, attempts={}, version=books.version + 1, applied=0)
            return _with(done, fence=fence, committed=txid, winner=attempt, promoted="")

        dropped = seen.books.attempts
        self._move(finished, seen)
        self._remove(dropped, seen.books.epoch)

    def _apply(
        self, seen: _Seen, fence: Fence, txid: int, attempt: str, check: Callable[[Books], bool]
    ) -> _Seen:
        """Write what the promoted attempt staged, from where the bookkeeping says that it was left off."""
        books, data = seen.books, self._rows.data
        first = books.epoch + (books.version + 1) * layout.VERSION_STEP
        for number, items in enumerate(self._groups(books, attempt), books.applied):
            cells = ((data + key, layout.stored(value)) for key, value in items.items())
            self._table.put(DATA, cells, first + number)

            def counted(books: Books, number: int = number, items: Mapping[bytes, object] = items) -> Books:
                if not check(books) or books.applied > number:
                    return books  # somebody else was faster
                written = {key: value for key, value in books.written.items() if key not in items}
                return _with(replace(books, applied=number + 1, written=written), fence=fence)

            seen = self._move(counted, seen)
            if seen.books.rules.promoted != attempt:
                break
            reach(FaultPoint.SLICE_APPLIED, txid=txid)
        return seen

    def rollback(self, fence: Fence) -> int:
        """See `StateStorage.rollback`."""
        dropped: dict[str, Staged] = {}
        visible = 0

        def rolled_back(books: Books) -> Books:
            nonlocal visible
            transitions.check_rollback(self.namespace, books.rules, fence)
            visible = len(books.visible())
            dropped.update(books.attempts)
            return _with(replace(books, attempts={}), fence=fence)

        seen = self._move(rolled_back)
        self._remove(dropped, seen.books.epoch)
        return visible

    def write(self, fence: Fence, items: Mapping[bytes, bytes], codec: str) -> None:
        """See `StateStorage.write`. What is written stays in the bookkeeping's cell: it is not meant for large data.

        Raises:
            UnsupportedValue: All that was written into this namespace is larger than one cell may be.
        """

        def written(books: Books) -> Books:
            transitions.check_write(self.namespace, books.rules, fence, codec)
            entries = {**books.written, **items}
            size = sum(len(key) + len(value) for key, value in entries.items())
            if size > self.limits.value:
                raise UnsupportedValue(
                    f"{self.namespace}: {size} bytes are to be written, and HBase takes {self.limits.value} in one "
                    f"cell. {self.limits.advice}."
                )
            return _with(replace(books, written=entries), fence=fence, codec=codec)

        self._move(written)

    def close(self) -> None:
        """See `StateStorage.close`."""
        client, self._client = self._client, None
        self._overlay = None
        if client is not None:
            client.release()

    @property
    def _table(self) -> HBaseTable:
        if self._client is None:
            raise ValueError(f"the storage of {self.namespace} is closed")
        return self._table_of_client

    def _look(self) -> _Seen:
        """Read the bookkeeping."""
        cell = self._table.read(BOOKS, [self._rows.books]).get(self._rows.books)
        if cell is None:
            return _Seen(Books(), None, 0)
        return _Seen(layout.unpacked_books(self.namespace, cell.value), cell.value, cell.timestamp)

    def _move(
        self, change: Callable[[Books], Books], seen: _Seen | None = None, *, create: bool = False
    ) -> _Seen:
        """Replace the bookkeeping by what `change` makes of it, atomically, and return the new one.

        `change` raises what the rules say, or returns the same where nothing is to be done; it is called again where
        somebody else was faster. Where `seen` is given, the bookkeeping is read only if it has moved since; with
        `create`, it is written for a new namespace even if it says nothing yet.
        """
        is_fresh = seen is None
        seen = seen or self._look()
        for _ in range(_TRIES):
            try:
                books = change(seen.books)
            except StateError:
                if is_fresh:
                    raise
                books = seen.books
            if books == seen.books and not (create and seen.cell is None):
                if is_fresh:
                    return seen
                seen, is_fresh = self._look(), True
                continue
            cell = layout.packed_books(books)
            if seen.cell is None:
                self._table.put(self._rows.name, [(NAMESPACES_ROW, b"")], None)
            if self._table.check_and_put(BOOKS, self._rows.books, seen.cell, cell):
                return _Seen(books, cell, 0)
            seen, is_fresh = self._look(), True
            # The connection broke, the call was repeated, and it was the first one that did it.
            if seen.cell == cell:
                return seen
        raise self._contended()

    def _register(
        self,
        fence: Fence,
        txid: int,
        attempt: str,
        base: int,
        codec: str,
        next_record: Callable[[Books], AttemptRecord | None],
    ) -> _Seen:
        """Put an attempt into the bookkeeping before anything of it is written; drop those it is to drop."""
        seen = self._look()
        next_record(seen.books)
        if seen.cell is None:
            self._move(lambda books: books, seen, create=True)
            seen = self._look()
        epoch = seen.books.epoch or seen.timestamp
        dropped: dict[str, Staged] = {}

        def registered(books: Books) -> Books:
            dropped.clear()
            next_record(books)
            if attempt in books.visible():
                return books
            label = secrets.token_hex(4)
            new = Staged(AttemptRecord(txid, base, fence, 0, 0, 0, False), label, books.version)
            kept = {each: known for each, known in books.attempts.items() if known.record.fence >= fence}
            dropped.update((each, known) for each, known in books.attempts.items() if each not in kept)
            attempts = {**kept, attempt: new}
            return _with(
                replace(books, attempts=attempts, epoch=books.epoch or epoch), fence=fence, codec=codec
            )

        seen = self._move(registered, seen)
        self._remove(dropped, seen.books.epoch)
        return seen

    def _remove(self, dropped: Mapping[str, Staged], epoch: int) -> None:
        """Remove the rows of attempts that are no longer in the bookkeeping."""
        for attempt, staged in dropped.items():
            for rows in self._names(*self._rows.staged(attempt, staged)):
                self._table.delete(DATA, rows, epoch)

    def _sweep(self) -> None:
        """Remove what was left behind lately by attempts that are not in the bookkeeping.

        Rows are listed before the bookkeeping is read: a row's attempt was in it before the row was written.
        """
        version = max(0, self._look().books.version - _SWEPT_VERSIONS)
        rows = [row for page in self._names(*self._rows.all_staged(version)) for row in page]
        if rows:
            books = self._look().books
            known = self._rows.attempt_rows(books.attempts)
            left = [row for row in rows if self._rows.of_attempt(row) not in known]
            self._table.delete(DATA, left, books.epoch)

    def _names(self, start: bytes, stop: bytes) -> Iterator[list[bytes]]:
        for page in self._table.scan(DATA, start, stop, filtered="KeyOnlyFilter()"):
            yield [row for row, _ in page]

    def _groups(self, books: Books, attempt: str) -> Iterator[dict[bytes, bytes | None]]:
        """Yield the updates of a promoted attempt in at most `VERSION_STEP` groups, from the first not applied."""
        staged = books.attempts[attempt]
        slices = staged.record.slices
        size = -(-slices // layout.VERSION_STEP)
        group: dict[bytes, bytes | None] = {}
        first = books.applied * size
        for number, items in enumerate(self._read_slices(attempt, staged, first), first + 1):
            group.update(items)
            if number % size == 0 or number == slices:
                yield group
                group = {}

    def _read_slices(self, attempt: str, staged: Staged, first: int) -> Iterator[Items]:
        start, stop = self._rows.staged(attempt, staged, first)
        pages = self._table.scan(DATA, start, stop)
        return layout.read_slices(self.namespace, pages, first, staged.record.slices)

    def _slices(self, books: Books, attempt: str) -> Iterator[Items]:
        """Yield what `attempt` staged, if there is such an attempt."""
        if attempt in books.visible():
            yield from self._read_slices(attempt, books.attempts[attempt], 0)

    def _updates(self, books: Books, attempt: str, wanted: set[bytes]) -> dict[bytes, bytes | None]:
        """Return what `attempt` staged for those of the `wanted` keys for which it did.

        All of its updates are kept in memory as long as they are few; else they are read again for each call.
        """
        if attempt not in books.visible():
            return {}
        staged = books.attempts[attempt]
        first, size = 0, 0
        updates: dict[bytes, bytes | None] = {}
        if self._overlay is not None and self._overlay[0].label == staged.label:
            _, first, updates, size = self._overlay
        self._overlay = None
        if size <= _OVERLAY_BYTES:
            for items in self._read_slices(attempt, staged, first):
                updates.update(items)
                size += sum(len(key) + len(value or b"") for key, value in items)
                first += 1
                if size > _OVERLAY_BYTES:
                    updates = {}
                    break
            self._overlay = (staged, first, updates, size)
        if size <= _OVERLAY_BYTES:
            return {key: updates[key] for key in wanted if key in updates}
        found: dict[bytes, bytes | None] = {}
        for items in self._read_slices(attempt, staged, 0):
            found.update((key, value) for key, value in items if key in wanted)
        return found

    def _refuse_large(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        for key, value in items:
            if len(key) > self.limits.key or len(value or b"") > self.limits.value:
                raise UnsupportedValue(
                    f"{self.namespace}: an entry has a key of {len(key)} and a value of {len(value or b'')} bytes; "
                    f"HBase takes {self.limits.key} and {self.limits.value}. {self.limits.advice}."
                )

    def _contended(self) -> StateUnavailable:
        return StateUnavailable(
            f"{self.namespace}: its bookkeeping was changed by others {_TRIES} times before this call could: stop all "
            "drivers of this topology but one",
            namespace=self.namespace,
        )


def _head(books: Books) -> NamespaceHead:
    return transitions.head_of(books.rules, books.visible())


def _with(books: Books, **changes: object) -> Books:
    """Return the bookkeeping with other rules; a codec that is there already is kept."""
    if books.rules.codec:
        changes.pop("codec", None)
    return replace(books, rules=replace(books.rules, **changes))  # type: ignore[arg-type]
