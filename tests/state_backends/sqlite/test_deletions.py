"""Entries that another program removes from an SQLite file or adds to it: noticed at the next start."""

import sqlite3
from contextlib import closing

import pytest

from anchorbolt.errors import StateRegressed
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.testing.conformance.base import CODEC, FIRST, committed, entries

NAMESPACE = "words:count-0"


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("DELETE FROM entries WHERE key = x'61'", 2),
        ("DELETE FROM entries", 0),
        ("INSERT INTO entries VALUES (x'7a', x'31')", 4),
    ],
)
def test_a_changed_number_of_entries_is_refused_by_the_next_head(
    sqlite_provider: SqliteStateProvider, statement: str, found: int
) -> None:
    with closing(sqlite_provider.open(NAMESPACE)) as storage:
        committed(storage, [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    with closing(sqlite3.connect(f"{sqlite_provider.directory}/words@count-0.sqlite")) as connection, connection:
        connection.execute(statement)
    with closing(sqlite_provider.open(NAMESPACE)) as storage:
        with pytest.raises(StateRegressed) as noticed:
            storage.head()
        assert (noticed.value.expected, noticed.value.found) == ("3 entries", f"{found} entries")


def test_the_count_of_a_clean_end_is_right_and_a_killed_one_leaves_none(sqlite_provider: SqliteStateProvider) -> None:
    killed = sqlite_provider.open(NAMESPACE)
    with closing(sqlite_provider.open(NAMESPACE)) as storage:
        committed(storage, [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    committed(killed, [(b"b", None), (b"d", b"1"), (b"e", b"1")], txid=1, base=0)
    with closing(sqlite_provider.open(NAMESPACE)) as storage:
        assert storage.head().committed == 1, "nothing to compare with"
        storage.write(FIRST, {b"a": b"2", b"f": b"1"}, CODEC)
    with closing(sqlite_provider.open(NAMESPACE)) as storage:
        assert storage.raise_fence(Fence(1, 1)) == storage.head()
        assert storage.count() == len(entries(storage)) == 5
    killed.close()
