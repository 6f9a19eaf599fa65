"""The data that the tests of HBase commit and stage, and the table's content after it."""

import happybase

from anchorbolt.testing.conformance.base import Items
from tests.state_backends.hbase.providers import FAMILY

OLD = {b"%d" % number: b"old" for number in range(600)}
UPDATES: dict[bytes, bytes | None] = {b"%d" % number: b"new" if number % 5 else None for number in range(300, 1500)}
NEW = {key: value for key, value in {**OLD, **UPDATES}.items() if value is not None}
DATA, METADATA = f"{FAMILY}:s".encode(), f"{FAMILY}:books".encode()


def sliced(updates: dict[bytes, bytes | None]) -> list[Items]:
    items = list(updates.items())
    return [items[start : start + 400] for start in range(0, len(items), 400)]


def rows(table: happybase.Table, ns: str) -> dict[str, bytes]:
    """Return the rows of a namespace; the names are without the namespace's."""
    found = table.scan(row_prefix=f"{ns}$".encode())
    return {row.decode()[len(ns) :]: next(iter(columns.values())) for row, columns in found}
