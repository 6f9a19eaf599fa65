"""Entries that another program removes from an SQLite file or adds to it: noticed at the next start."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anchorbolt.errors import StateRegressed
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.testing.conformance.base import CODEC, FIRST, committed, entries, new_namespace

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


WAVES = st.lists(
    st.lists(st.dictionaries(st.binary(min_size=1, max_size=1), st.none() | st.just(b"v"), max_size=20), max_size=3),
    max_size=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(waves=WAVES, written=st.dictionaries(st.binary(min_size=1, max_size=1), st.just(b"w"), max_size=5))
def test_the_count_follows_puts_and_deletes(
    sqlite_provider: SqliteStateProvider, waves: list[list[dict[bytes, bytes | None]]], written: dict[bytes, bytes]
) -> None:
    with closing(sqlite_provider.open(new_namespace())) as storage:
        for txid, slices in enumerate(waves):
            committed(storage, [], *(list(each.items()) for each in slices), txid=txid, base=txid - 1)
            storage.head()
        storage.write(FIRST, written, CODEC)
        assert storage.raise_fence(Fence(1, 1)) == storage.head()
        assert storage.count() == len(entries(storage))
