"""Reads, scans, writes and removes cells in one column family of an HBase table.

A framed Thrift server refuses messages of more than 2 MiB, so a message has at most about 1 MB, unless a single cell is
larger. Every call may be repeated: the caller gives the timestamps, so a repeated call writes the same cells.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from anchorbolt.errors import ConfigError, StateUnavailable
from anchorbolt.state_backends.hbase.client import HBaseClient
from anchorbolt.state_backends.hbase.errors import FAILURES

from Hbase_thrift import BatchMutation, Mutation, TScan  # isort: skip (made by the import above)

_MESSAGE_BYTES = 900_000
_ROWS_PUT = 5_000  # in one message: a server puts some 20,000 rows a second, and reads some 3,000
_ROWS_READ = 500
# The size of the values is unknown at first, and a reply that is too large harms the Thrift server.
_FIRST_ROWS = 2
_GROWTH = 16
_OVERHEAD = 64  # upper bound of a row's bytes in a message, besides key and value
_PAGE_BYTES = 4 << 20
_FOREVER = 2**31 - 1

_T = TypeVar("_T")


class Cell(NamedTuple):
    """A cell's value and its timestamp."""

    value: bytes
    timestamp: int


class HBaseTable:
    """One column family of one table, used for one namespace. Its methods raise the errors of `HBaseClient.run`."""

    def __init__(self, client: HBaseClient, namespace: str | None) -> None:
        self._client: HBaseClient | None = client
        self._namespace = namespace
        self._address = client.address
        self._table = client.address.table.encode()
        self._family = client.address.column_family.encode()
        self._rows_read = _FIRST_ROWS  # for the next message: about 4 MiB, estimated from earlier replies

    def check(self) -> None:
        """Raise `ConfigError` if the table lacks the column family, or the column family drops cells by age."""
        families = self._run(lambda client: client.getColumnDescriptors(self._table))
        family = families.get(self._family + b":")
        table, name = self._table.decode(), self._family.decode()
        if family is None:
            raise ConfigError(
                f"the table {table!r} of {self._address} has no column family {name!r}. Name another column family in "
                f"columnFamily, or add this one in the HBase shell: alter '{table}', '{name}'",
                key="columnFamily",
            )
        if 0 < family.timeToLive < _FOREVER:
            raise ConfigError(
                f"the column family {name!r} of the table {table!r} drops cells after {family.timeToLive} s (TTL), so "
                f"state would be lost. In the HBase shell: alter '{table}', {{NAME => '{name}', TTL => 'FOREVER'}}",
                key="columnFamily",
            )

    def read(self, column: bytes, row: bytes) -> Cell | None:
        """Return the newest cell of `row` in `column`."""
        for found, _ in self.read_many(column, [row]):
            return found.get(row)
        return None

    def read_many(
        self, column: bytes, rows: Sequence[bytes], beside: tuple[bytes, bytes] | None = None
    ) -> Iterator[tuple[dict[bytes, Cell], Cell | None]]:
        """Yield the newest cells in `column` of those `rows` that have one, message by message.

        Each message also reads the newest cell of the column and row `beside`. With `beside`, at least one message is
        sent, even if `rows` is empty.
        """
        name = self._name(column)
        also = ([beside[1]], [self._name(beside[0])]) if beside else ([], [])
        first = 0
        while first < len(rows) or beside is not None:
            asked = self._rows_read
            parts = ((row, len(row)) for row in rows[first : first + asked])
            some: list[bytes] = next(_messages(parts, asked), [])
            size = 0
            found: dict[bytes, Cell] = {}
            besides: Cell | None = None
            try:
                results = self._run(partial(_get_rows, self._table, [*also[0], *some], [*also[1], name]))
            except StateUnavailable:
                if len(some) <= _FIRST_ROWS:
                    raise
                self._rows_read = _FIRST_ROWS  # these rows may be larger than the estimate
                continue
            for result in results:
                if beside and result.row == beside[1]:
                    cell = result.columns.get(also[1][0])
                    besides = Cell(cell.value, cell.timestamp) if cell is not None else None
                elif (cell := result.columns.get(name)) is not None:
                    found[result.row] = Cell(cell.value, cell.timestamp)
                    size += len(cell.value)
            first += len(some)
            fitting = min(_ROWS_READ, _fitting(len(some), size))
            if some and (len(some) == asked or fitting < asked):
                self._rows_read = fitting
            yield found, besides
            if first >= len(rows):
                return

    def put(self, column: bytes, cells: Iterable[tuple[bytes, bytes]], timestamp: int | None) -> None:
        """Write one cell in each row, all at one timestamp; None means the server's. Atomic for each row only."""
        name = self._name(column)
        mutations = (
            (
                BatchMutation(row=row, mutations=[Mutation(isDelete=False, column=name, value=value, writeToWAL=True)]),
                len(row) + len(value),
            )
            for row, value in cells
        )
        self._mutate(mutations, timestamp)

    def delete(self, column: bytes, rows: Iterable[bytes], timestamp: int) -> None:
        """Remove the rows' cells that are not newer than `timestamp`, also cells that are written later."""
        name = self._name(column)
        removal = Mutation(isDelete=True, column=name, value=b"", writeToWAL=True)
        mutations = ((BatchMutation(row=row, mutations=[removal]), len(row)) for row in rows)
        self._mutate(mutations, timestamp)

    def check_and_put(self, column: bytes, row: bytes, expected: bytes | None, value: bytes) -> bool:
        """Put `value` if the cell holds `expected` (None: no cell), and return whether it was put.

        After a broken connection the call is repeated, so False may mean that the first call put the value.
        """
        name = self._name(column)
        mutation = Mutation(isDelete=False, column=name, value=value, writeToWAL=True)
        done = self._run(lambda client: client.checkAndPut(self._table, row, name, expected, mutation, {}))
        return bool(done)

    def scan(
        self, column: bytes, start: bytes, stop: bytes, *, page_size: int = 1000, filtered: str | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield rows and values from `start` to before `stop`, in order, in pages of `page_size` rows or 4 MiB.

        No scanner is open between two pages: each page starts after the last row of the previous page.
        """
        while True:
            page, more = self._page(self._name(column), start, stop, page_size, filtered)
            if page:
                yield page
                start = page[-1][0] + b"\x00"
            if not more:
                return

    def columns(self, row: bytes, prefix: bytes) -> list[bytes]:
        """Return the row's columns that start with `prefix`, which must not contain quotes."""
        scan = TScan(
            startRow=row,
            stopRow=row + b"\x00",
            columns=[self._family],
            filterString=b"ColumnPrefixFilter('" + prefix + b"') AND KeyOnlyFilter()",
        )

        def read(client: Any) -> list[bytes]:
            scanner = client.scannerOpenWithScan(self._table, scan, {})
            with _Closing(client, scanner):
                return [name for result in client.scannerGetList(scanner, 1) for name in result.columns]

        return [name.partition(b":")[2] for name in self._run(read)]

    def close(self) -> None:
        """Release the client. May be called twice."""
        client, self._client = self._client, None
        if client is not None:
            client.release()

    def _run(self, call: Callable[[Any], _T]) -> _T:
        if self._client is None:
            raise ValueError(f"the storage of {self._namespace} is closed")
        return self._client.run(self._namespace, call)

    def _page(
        self, name: bytes, start: bytes, stop: bytes, page_size: int, filtered: str | None
    ) -> tuple[list[tuple[bytes, bytes]], bool]:
        scan = TScan(startRow=start, stopRow=stop, columns=[name], caching=min(page_size, 1000))
        if filtered is not None:
            scan.filterString = filtered.encode()

        def read(client: Any) -> tuple[list[tuple[bytes, bytes]], bool]:
            page: list[tuple[bytes, bytes]] = []
            size = 0
            scanner = client.scannerOpenWithScan(self._table, scan, {})
            with _Closing(client, scanner):
                while len(page) < page_size and size < _PAGE_BYTES:
                    # The size of the values is known only after the first reply.
                    wanted = min(page_size - len(page), _fitting(len(page), size) if page else _FIRST_ROWS)
                    results = client.scannerGetList(scanner, wanted)
                    for result in results:
                        value = result.columns[name].value
                        page.append((result.row, value))
                        size += len(result.row) + len(value)
                    if len(results) < wanted:
                        return page, False
            return page, True

        return self._run(read)

    def _mutate(self, mutations: Iterable[tuple[Any, int]], timestamp: int | None) -> None:
        for some in _messages(mutations, _ROWS_PUT):
            self._run(partial(_mutate_rows, self._table, some, timestamp))

    def _name(self, column: bytes) -> bytes:
        return self._family + b":" + column


def _fitting(count: int, size: int) -> int:
    """Estimate how many rows have 4 MiB, given that the last `count` rows had `size` bytes."""
    return max(1, min(_GROWTH * count, _PAGE_BYTES * count // max(size, 1)))


def _get_rows(table: bytes, rows: list[bytes], names: list[bytes], client: Any) -> Any:
    return client.getRowsWithColumns(table, rows, names, {})


def _mutate_rows(table: bytes, mutations: list[Any], timestamp: int | None, client: Any) -> None:
    if timestamp is None:
        client.mutateRows(table, mutations, {})
    else:
        client.mutateRowsTs(table, mutations, timestamp, {})


class _Closing:
    """Closes a scanner. If the connection is broken, the scanner stays open until the server's time-out."""

    def __init__(self, client: Any, scanner: int) -> None:
        self._client = client
        self._scanner = scanner

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._client.scannerClose(self._scanner)
        else:
            with suppress(*FAILURES):
                self._client.scannerClose(self._scanner)


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
