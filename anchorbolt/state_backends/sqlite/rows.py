"""Rows by key: the SQL of the two tables that hold a namespace's entries, or an attempt's updates.

Entries of the index by time are large, and have a table of their own, which is made for the first of them. In a table
without rowids, which is best for small rows, SQLite compares a look-up with all bytes of each large row on its way:
looking for keys that sort next to the index took ten times as long.
"""

import sqlite3
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

from anchorbolt.serialization.codecs import INDEX_TAG
from anchorbolt.state_backends.contract import KeyRange
from anchorbolt.state_backends.timed.index import FIRST_INDEX_KEY, INDEX_KEYS_END

_KEYS_PER_SELECT = 400
_KEYS_PER_DELETE = 400
_ROWS_PER_INSERT = 250
_KEY = itemgetter(0)

Row = tuple[bytes, bytes | None]


class Tables(NamedTuple):
    """The names of two tables, with columns `key` and `value`."""

    entries: str
    by_time: str | None  # None if it does not exist yet


OVERLAY = Tables("overlay", "by_time_overlay")
"""Temporary tables for the updates of an attempt. The value of a deleted key is NULL."""


def holds_index_keys(keys: Collection[bytes]) -> bool:
    """Return whether one of these keys is of the index by time."""
    return INDEX_TAG in b"".join(keys) and any(map(_is_of_index, keys))


def look_up(connection: sqlite3.Connection, tables: Tables, keys: Sequence[bytes], values: list[bytes | None]) -> None:
    """Fill `values` at the positions of those `keys` that have a row."""
    _look_up(connection, tables.entries, range(len(keys)), keys, values)
    if tables.by_time is not None and None in values:
        places = [place for place, key in enumerate(keys) if _is_of_index(key)]
        _look_up(connection, tables.by_time, places, keys, values)


def _look_up(
    connection: sqlite3.Connection, table: str, places: Sequence[int], keys: Sequence[bytes], values: list[bytes | None]
) -> None:
    for start in range(0, len(places), _KEYS_PER_SELECT):
        some = places[start : start + _KEYS_PER_SELECT]
        # Python's sqlite3 searches an adapter for each bytes object but not for a bytearray, which halves the time.
        wanted = [bytearray(keys[place]) for place in some]
        # Numbered from 0, so that the text is the same each time, and SQLite prepares one statement for all.
        numbered = ",".join([f"({number}, ?)" for number in range(len(some))])
        found = connection.execute(
            f"WITH wanted (number, key) AS (VALUES {numbered}) "
            f"SELECT number, value FROM wanted CROSS JOIN {table} USING (key)",
            wanted,
        )
        for number, value in found:
            values[some[number]] = value


def put(connection: sqlite3.Connection, tables: Tables, rows: Iterable[Row]) -> None:
    """Insert or replace rows."""
    for table, some in _parts(tables, rows):
        # For speed: in the order of the tree, several rows in a statement, as bytearrays.
        for start in range(0, len(some), _ROWS_PER_INSERT):
            batch = some[start : start + _ROWS_PER_INSERT]
            places = ",".join(["(?, ?)"] * len(batch))
            flat = [None if each is None else bytearray(each) for row in batch for each in row]
            connection.execute(f"REPLACE INTO {table} VALUES {places}", flat)


def delete(connection: sqlite3.Connection, tables: Tables, rows: Iterable[Row]) -> None:
    """Delete the rows with the keys of these."""
    for table, some in _parts(tables, rows):
        for start in range(0, len(some), _KEYS_PER_DELETE):
            keys = [bytearray(key) for key, _ in some[start : start + _KEYS_PER_DELETE]]
            connection.execute(f"DELETE FROM {table} WHERE key IN ({','.join('?' * len(keys))})", keys)


def page(
    connection: sqlite3.Connection,
    tables: Tables,
    overlay: Tables | None,
    within: KeyRange,
    above: bytes | None,
    size: int,
) -> list[tuple[bytes, bytes]]:
    """Return the next rows of a range in the order of their keys. Those of `overlay` replace the others."""
    after, last = (">=", within.first) if above is None else (">", above)
    before = "" if within.end is None else "AND key < ?3"
    sources = []
    for table, over in zip(tables, overlay or (None, None), strict=True):
        if table is not None:
            unless = f"AND key NOT IN (SELECT key FROM {over})" if over is not None else ""
            sources.append(f"SELECT key, value FROM {table} WHERE key {after} ?1 {before} {unless}")
        if over is not None:
            sources.append(f"SELECT key, value FROM {over} WHERE key {after} ?1 {before} AND value IS NOT NULL")
    limits = (last, size) if within.end is None else (last, size, within.end)
    found = connection.execute(f"{' UNION ALL '.join(sources)} ORDER BY key LIMIT ?2", limits)
    return found.fetchall()


def outermost(connection: sqlite3.Connection, tables: Tables) -> tuple[bytes | None, bytes | None]:
    """Return the lowest and the highest key, without those of the index by time; None if there is none."""
    # As two queries: SQLite reads all rows for the minimum and the maximum in one.
    lowest, highest = (
        connection.execute(f"SELECT {which}(key) FROM {tables.entries}").fetchone()[0] for which in ("min", "max")
    )
    return lowest, highest


def count(connection: sqlite3.Connection, tables: Tables) -> int:
    """Return the number of rows."""
    return sum(int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in tables if table)


def _is_of_index(key: bytes) -> bool:
    return FIRST_INDEX_KEY <= key < INDEX_KEYS_END


def _parts(tables: Tables, rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Return the rows of each table, in the order of their keys."""
    ordered = sorted(rows, key=_KEY)
    if tables.by_time is None:
        return [(tables.entries, ordered)]
    first, end = (bisect_left(ordered, key, key=_KEY) for key in (FIRST_INDEX_KEY, INDEX_KEYS_END))
    return [(tables.entries, ordered[:first] + ordered[end:]), (tables.by_time, ordered[first:end])]
