"""Storm's state in one column family of an HBase table: the tools for Storm's state read and write it.

Storm keeps a namespace in three hashes. Its HBase provider (Storm 1.2 to 2.5) keeps the same hashes in rows:

| hash | in HBase |
|---|---|
| `<ns>` | a row `<ns>$key:<field>` for each field, with the value in the column `s` |
| `<ns>$prepare`, `<ns>$txid` | one row, with a column for each field |

A topology's state uses `storage` instead, which has rows of the same names with other content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from anchorbolt.config.providers import HBaseSettings
from anchorbolt.errors import ConfigError
from anchorbolt.state_backends.hbase.client import HBaseClient
from anchorbolt.state_backends.hbase.errors import is_missing_table, server_name
from anchorbolt.state_backends.hbase.layout import DATA
from anchorbolt.state_backends.hbase.table import HBaseTable

_KEY = b"$key:"
_KEYS_END = b"$key;"
_PREPARE = b"$prepare"
_COUNTED = 10_000
_WRITTEN_AT = 1


class StormRows:
    """Storm's hashes in a table; a context manager that closes its connections. It connects on first use."""

    def __init__(self, settings: HBaseSettings) -> None:
        self.settings = settings
        self._table = HBaseTable(HBaseClient.acquire(settings), None)

    def __enter__(self) -> StormRows:
        return self

    def __exit__(self, *_: object) -> None:
        self._table.close()

    def describe(self) -> str:
        return f"{server_name(self.settings)}, table {self.settings.table}"

    @property
    def listing(self) -> str:
        """What lists the namespaces, for messages."""
        return f"in the HBase shell, scan '{self.settings.table}', {{FILTER => \"RowFilter(=, 'substring:$txid')\"}}"

    def names(self, prefix: bytes) -> Iterator[bytes]:
        """Yield the names of the hashes that start with `prefix`, without reading the rows of all entries."""
        start = prefix
        stop = prefix + b"\xff"  # Storm's names are UTF-8, which never has this byte
        while row := self._table.first_row(start, stop):
            namespace, is_entry, _ = row.partition(_KEY)
            of_anchorbolt, is_staged, _ = row.partition(_PREPARE + b"$")
            if is_entry:
                yield namespace
                start = namespace + _KEYS_END
            elif is_staged:
                start = of_anchorbolt + _PREPARE + b"%"  # behind all staged rows
            else:
                yield row
                start = row + b"\x00"

    def types(self, keys: Sequence[bytes]) -> Mapping[bytes, str]:
        """Return `hash` for each hash that exists, `none` for the others, as Redis names them."""
        return {key: "none" if self._table.first_row(*_span(key)) is None else "hash" for key in keys}

    def length(self, key: bytes) -> int:
        """Return the number of fields of a hash, 0 if it does not exist. This lists the fields."""
        if _is_row(key):
            return sum(map(len, self._table.row(key, only=b"KeyOnlyFilter()", page_size=_COUNTED)))
        pages = self._table.scan(DATA, *_span(key), only=b"KeyOnlyFilter()", page_size=_COUNTED)
        return sum(map(len, pages))

    def entries(self, key: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the fields and values of a hash in pages of at most 1000 or some 4 MiB."""
        if _is_row(key):
            yield from self._table.row(key)
            return
        start, stop = _span(key)
        for page in self._table.scan(DATA, start, stop):
            yield [(row[len(start) :], value) for row, value in page]

    def fields(self, key: bytes, fields: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of some fields of a hash, None for missing ones."""
        if _is_row(key):
            found = self._table.read_columns(key, fields)
            return [found.get(field) for field in fields]
        rows = [key + _KEY + field for field in fields]
        cells = {row: cell.value for some in self._table.read_many(DATA, rows) for row, cell in some.items()}
        return [cells.get(row) for row in rows]

    def exists(self) -> bool:
        """Return whether the table exists.

        Raises `ConfigError` if it does not, and may not be created; or if the column family drops cells by age.
        """
        with StormRows(replace(self.settings, create_table=False)) as rows:
            try:
                rows._table.check()
            except ConfigError as error:
                if self.settings.create_table and is_missing_table(error.__cause__):
                    return False
                raise
        return True

    def create(self) -> None:
        """Create the table if it is missing and the settings permit it."""
        self._table.check()  # HBase does not report a missing table by all calls

    def write(self, key: bytes, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Add entries to a hash of a table that exists.

        The cells have one old timestamp. So a call that is repeated writes the same cells, and a message that HBase
        applies late never hides what Storm has written since.
        """
        if _is_row(key):
            self._table.put_columns(key, entries, _WRITTEN_AT)
        else:
            cells = ((key + _KEY + field, value) for field, value in entries)
            self._table.put(DATA, cells, _WRITTEN_AT)


def _is_row(key: bytes) -> bool:
    return key.endswith((_PREPARE, b"$txid"))


def _span(key: bytes) -> tuple[bytes, bytes]:
    """Return start and stop of the rows of a hash."""
    return (key, key + b"\x00") if _is_row(key) else (key + _KEY, key + _KEYS_END)
