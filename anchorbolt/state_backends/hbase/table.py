"""Reads, scans, writes and removes cells in one column family of an HBase table.

A framed Thrift server refuses messages of more than 2 MiB, so a message has at most about 1 MB, unless a single cell is
larger. Every call may be repeated: the caller sets the timestamps, so a repeated call writes the same cells.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import methodcaller
from typing import Any, TypeVar

from anchorbolt.errors import ConfigError, StateUnavailable
from anchorbolt.state_backends.hbase.client import HBaseClient

from Hbase_thrift import BatchMutation, Mutation, TScan  # isort: skip (made by the import above)

_MESSAGE_BYTES = 900_000
_ROWS_PUT = 5_000  # per message: a server puts some 20,000 rows a second, and reads some 3,000
_ROWS_READ = 500
# The size of the values is unknown at first, and too large a reply harms the Thrift server.
_FIRST_ROWS = 2
_GROWTH = 16
_OVERHEAD = 64  # upper bound for the bytes of a row in a message, besides key and value
_PAGE_BYTES = 4 << 20
_FOREVER = 2**31 - 1

_T = TypeVar("_T")


class HBaseTable:
    """One column family of one table, used for one namespace. Its methods raise the errors of `HBaseClient.run`."""

    def __init__(self, client: HBaseClient, namespace: str | None) -> None:
        self._client: HBaseClient | None = client
        self._namespace = namespace
        self._table = client.address.table.encode()
        self._family = client.address.column_family.encode()
        self._rows_read = _FIRST_ROWS  # for the next message: about 4 MiB, estimated from earlier replies

    def check(self) -> None:
        """Raise `ConfigError` if the column family drops cells by age."""
        family = self._call("getColumnDescriptors").get(self._family + b":")
        if family is not None and 0 < family.timeToLive < _FOREVER:
            table, name = self._table.decode(), self._family.decode()
            raise ConfigError(
                f"the column family {name!r} of the table {table!r} drops cells after {family.timeToLive} s (TTL), so "
                f"state would be lost. In the HBase shell: alter '{table}', {{NAME => '{name}', TTL => 'FOREVER'}}",
                key="columnFamily",
            )

    def read(self, column: bytes, row: bytes) -> Any:
        """Return the newest cell of `row` in `column`, or None; it has a `value` and a `timestamp`."""
        return next(self.read_many(column, [row])).get(row)

    def read_many(
        self, column: bytes, rows: Sequence[bytes], beside: tuple[bytes, bytes] | None = None
    ) -> Iterator[dict[bytes, Any]]:
        """Yield the newest cells in `column` of `rows`, without rows that have no cell, message by message.

        Each message also reads the newest cell of the row and column `beside`. At least one message is sent, even if
        `rows` is empty.
        """
        name = self._name(column)
        also = {beside[0]: self._name(beside[1])} if beside else {}
        first = 0
        while True:
            asked = self._rows_read
            parts = ((row, len(row)) for row in rows[first : first + asked])
            some: list[bytes] = next(_messages(parts, asked), [])
            try:
                results = self._call("getRowsWithColumns", [*also, *some], [*also.values(), name], {})
            except StateUnavailable:
                if len(some) <= _FIRST_ROWS:
                    raise
                self._rows_read = _FIRST_ROWS  # these rows may be larger than the estimate
                continue
            columns = ((result.row, result.columns.get(also.get(result.row, name))) for result in results)
            found = {row: cell for row, cell in columns if cell is not None}
            size = sum(len(cell.value) for row, cell in found.items() if row not in also)
            first += len(some)
            fitting = min(_ROWS_READ, _fitting(len(some), size))
            if some and (len(some) == asked or fitting < asked):
                self._rows_read = fitting
            yield found
            if first >= len(rows):
                return

    def read_columns(self, row: bytes, columns: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the newest values of some columns of a row, without columns that have no cell."""
        found: dict[bytes, bytes] = {}
        for some in _messages(((self._name(column), len(column)) for column in columns), _ROWS_READ):
            for result in self._call("getRowWithColumns", row, some, {}):
                found.update(self._columns_of(result))
        return found

    def row(self, row: bytes, *, page_size: int = 1000, only: bytes = b"") -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the columns of a row and their values, in order, in pages of `page_size` columns or 4 MiB.

        `only` is a filter in HBase's words. No scanner is open between two pages.
        """
        after = None
        more = True
        while more:
            filters = [only] if only else []
            if after is not None:
                filters.append(b"ColumnRangeFilter('" + after.replace(b"'", b"''") + b"', false, '', false)")
            scan = TScan(
                startRow=row,
                stopRow=row + b"\x00",
                columns=[self._family],
                caching=min(page_size, 1000),
                batchSize=1,  # each result has one column, so that pages of results have a bounded size
                filterString=b" AND ".join(filters) or None,
            )
            results, more = self._run(partial(_page, self._table, scan, page_size))
            page = [entry for result in results for entry in self._columns_of(result).items()]
            if page:
                yield page
                after = page[-1][0]

    def first_row(self, start: bytes, stop: bytes) -> bytes | None:
        """Return the first row from `start` to before `stop` that has a cell in any column, or None."""
        return self._next_row(start, stop)

    def last_row(self, start: bytes, stop: bytes) -> bytes | None:
        """Return the last row after `start` and up to `stop` that has a cell in any column, or None."""
        return self._next_row(stop, start, backwards=True)

    def _next_row(self, start: bytes, stop: bytes, *, backwards: bool = False) -> bytes | None:
        only = b"FirstKeyOnlyFilter() AND KeyOnlyFilter()"
        columns = [self._family]
        scan = TScan(startRow=start, stopRow=stop, columns=columns, caching=1, filterString=only, reversed=backwards)
        results, _ = self._run(partial(_page, self._table, scan, 1))
        return results[0].row if results else None

    def put(self, column: bytes, cells: Iterable[tuple[bytes, bytes]], timestamp: int | None) -> None:
        """Write one cell in each row, all at one timestamp; None means the server's. Atomic for each row only."""
        name = self._name(column)
        mutations = ((row, _put(name, value), len(row) + len(value)) for row, value in cells)
        self._mutate(mutations, timestamp)

    def put_columns(self, row: bytes, cells: Iterable[tuple[bytes, bytes]], timestamp: int) -> None:
        """Write columns of one row, all at one timestamp. Not atomic."""
        mutations = ((row, _put(self._name(column), value), len(column) + len(value)) for column, value in cells)
        self._mutate(mutations, timestamp)

    def delete(self, column: bytes, rows: Iterable[bytes], timestamp: int) -> None:
        """Remove the rows' cells that are not newer than `timestamp`, also cells that are written later."""
        name = self._name(column)
        removal = Mutation(isDelete=True, column=name, value=b"", writeToWAL=True)
        self._mutate(((row, removal, len(row)) for row in rows), timestamp)

    def check_and_put(self, column: bytes, row: bytes, expected: bytes | None, value: bytes) -> bool:
        """Put `value` if the cell holds `expected` (None: no cell), and return whether it was put.

        After a broken connection the call is repeated, so False may mean that the first call put the value.
        """
        name = self._name(column)
        return bool(self._call("checkAndPut", row, name, expected, _put(name, value), {}))

    def scan(
        self, column: bytes, start: bytes, stop: bytes, *, page_size: int = 1000, only: bytes | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield rows and values from `start` to before `stop`, in order, in pages of `page_size` rows or 4 MiB.

        `only` is a filter in HBase's words. No scanner is open between two pages: each starts after the last row of
        the previous one.
        """
        name = self._name(column)
        more = True
        while more:
            scan = TScan(startRow=start, stopRow=stop, columns=[name], caching=min(page_size, 1000), filterString=only)
            results, more = self._run(partial(_page, self._table, scan, page_size))
            if results:
                yield [(result.row, result.columns[name].value) for result in results]
                start = results[-1].row + b"\x00"

    def columns(self, row: bytes, prefix: bytes) -> list[bytes]:
        """Return the row's columns that start with `prefix`, which must not contain quotes."""
        only = b"ColumnPrefixFilter('" + prefix + b"') AND KeyOnlyFilter()"
        scan = TScan(startRow=row, stopRow=row + b"\x00", columns=[self._family], filterString=only)
        results, _ = self._run(partial(_page, self._table, scan, 1))
        return [name.partition(b":")[2] for result in results for name in result.columns]

    def close(self) -> None:
        """Release the client. May be called twice."""
        client, self._client = self._client, None
        if client is not None:
            client.release()

    def _run(self, call: Callable[[Any], _T]) -> _T:
        if self._client is None:
            raise ValueError(f"the storage of {self._namespace} is closed")
        return self._client.run(self._namespace, call)

    def _call(self, method: str, *arguments: Any) -> Any:
        return self._run(methodcaller(method, self._table, *arguments))

    def _mutate(self, mutations: Iterable[tuple[bytes, Any, int]], timestamp: int | None) -> None:
        batches = ((BatchMutation(row=row, mutations=[mutation]), size) for row, mutation, size in mutations)
        for some in _messages(batches, _ROWS_PUT):
            if timestamp is None:
                self._call("mutateRows", some, {})
            else:
                self._call("mutateRowsTs", some, timestamp, {})

    def _columns_of(self, result: Any) -> dict[bytes, bytes]:
        prefix = len(self._family) + 1
        return {name[prefix:]: cell.value for name, cell in result.columns.items()}

    def _name(self, column: bytes) -> bytes:
        return self._family + b":" + column


def _fitting(count: int, size: int) -> int:
    """Estimate how many rows have 4 MiB, given that the last `count` rows had `size` bytes."""
    return max(1, min(_GROWTH * count, _PAGE_BYTES * count // max(size, 1)))


def _put(name: bytes, value: bytes) -> Any:
    return Mutation(isDelete=False, column=name, value=value, writeToWAL=True)


def _page(table: bytes, scan: Any, most: int, client: Any) -> tuple[list[Any], bool]:
    """Return up to `most` rows or 4 MiB, and whether there may be more. After an error, the scanner times out."""
    page: list[Any] = []
    size = 0
    scanner = client.scannerOpenWithScan(table, scan, {})
    more = True
    while more and len(page) < most and size < _PAGE_BYTES:
        # The size of the values is known only after the first reply.
        wanted = min(most - len(page), _fitting(len(page), size) if page else _FIRST_ROWS)
        results = client.scannerGetList(scanner, wanted)
        page += results
        size += sum(len(result.row) + len(cell.value) for result in results for cell in result.columns.values())
        more = len(results) == wanted
    client.scannerClose(scanner)
    return page, more


def _messages(parts: Iterable[tuple[Any, int]], most: int) -> Iterator[list[Any]]:
    """Group items, given with their sizes in bytes, into messages of at most `most` items."""
    some: list[Any] = []
    size = 0
    for part, length in parts:
        length += _OVERHEAD
        if some and (size + length > _MESSAGE_BYTES or len(some) >= most):
            yield some
            some, size = [], 0
        some.append(part)
        size += length
    if some:
        yield some
