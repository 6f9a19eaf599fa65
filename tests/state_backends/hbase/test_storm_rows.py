"""Storm's hashes in a table, read and written as they are in Redis."""

import pytest

from anchorbolt.errors import ConfigError
from anchorbolt.state_backends.hbase.storm_rows import StormRows
from tests.servers.hbase_server import HBaseServer
from tests.support.storm_hbase import StormTable

pytestmark = pytest.mark.slow

# Quotes end a text in the words of HBase's filters, and a colon the name of a family.
FIELDS = [bytes([number]) + more for number in range(256) for more in (b"", b"'", b":x", b"\xff\x00")]
HASHES = ("count-1", "count-1$prepare", "count-1$txid")


@pytest.mark.parametrize("kind", ["hbase_server", "hbase_framed"])
def test_every_field_is_written_and_read(kind: str, request: pytest.FixtureRequest) -> None:
    table = StormTable(request.getfixturevalue(kind))
    entries = {field: b"v" + field for field in FIELDS} | {b"n-%d" % number: b"" for number in range(12_000)}
    with StormRows(table.provider()) as rows:
        for name in HASHES:
            key = name.encode()
            rows.write(key, entries.items())
            pages = list(rows.entries(key))
            assert max(map(len, pages)) <= 1000
            assert [entry for page in pages for entry in page] == sorted(entries.items())
            assert rows.length(key) == len(entries)
            assert rows.fields(key, [*FIELDS, b"none"]) == [*(b"v" + field for field in FIELDS), None]
    assert table.everything() == dict.fromkeys(HASHES, entries)
    table.close()


def test_values_of_many_megabytes_come_in_pages(hbase_server: HBaseServer) -> None:
    table = StormTable(hbase_server)
    entries = {b"%02d" % number: b"x" * 1_000_000 for number in range(20)}
    with StormRows(table.provider()) as rows:
        rows.write(b"count-1$prepare", entries.items())
        assert max(map(len, rows.entries(b"count-1$prepare"))) < 10
        assert dict(entry for page in rows.entries(b"count-1$prepare") for entry in page) == entries
    table.close()


def test_names_are_found_without_a_read_of_each_entry(
    hbase_server: HBaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = StormTable(hbase_server)
    names = ["count-1", "count-1$prepare", "count-1$txid", "count-10", "count-2$txid", "counter-1", "$spout-1"]
    for name in names:
        table.put(name, {b"%d" % number: b"" for number in range(30)})
    with StormRows(table.provider()) as rows:
        first_row, calls = rows._table.first_row, []
        monkeypatch.setattr(rows._table, "first_row", lambda *span: calls.append(span) or first_row(*span))
        assert [name.decode() for name in rows.names(b"count-")] == names[:5]
        assert [name.decode() for name in rows.names(b"$spout-")] == ["$spout-1"]
        assert len(calls) == 8
        assert rows.types([b"count-1", b"count-10$txid"]) == {b"count-1": "hash", b"count-10$txid": "none"}
    table.close()


def test_a_missing_table_is_created_only_on_demand(hbase_server: HBaseServer) -> None:
    table = StormTable(hbase_server)
    with StormRows(table.provider(table=f"{table.name}-new")) as rows:
        assert not rows.exists()
        assert not rows.exists()
        rows.create()
        assert rows.exists()
    with StormRows(table.provider(table=f"{table.name}-other", create_table=False)) as rows:
        with pytest.raises(ConfigError):
            rows.exists()
        with pytest.raises(ConfigError):
            rows.length(b"count-1")
    table.close()
