"""The provider for HBase: its connections and settings; and rubbish in the cells of HBase."""

import pickle
from typing import Any

import happybase
import msgpack
import pytest

from anchorbolt.errors import ConfigError, StateCorrupted
from anchorbolt.state_backends.contract import Fence, StateStorage
from anchorbolt.state_backends.hbase import HBaseStateProvider
from anchorbolt.state_backends.hbase.layout import HBaseMetadata, Staged, packed_metadata, unpacked_metadata
from anchorbolt.state_backends.rules import AttemptRecord
from anchorbolt.testing.conformance.base import FIRST, committed, entries, staged
from tests.state_backends.hbase.providers import CALLS, DATA, METADATA, rows
from tests.state_backends.same_everywhere import work_in_threads


@pytest.mark.slow
def test_threads_do_not_get_each_others_answers(hbase_provider: HBaseStateProvider, ns: str) -> None:
    work_in_threads(hbase_provider, ns, 10)


@pytest.mark.slow
def test_storages_of_a_process_share_connections_and_the_last_one_closes_them(
    hbase_provider: HBaseStateProvider, ns: str
) -> None:
    storages = [hbase_provider.open(f"{ns}{number}") for number in range(20)]
    for storage in storages:
        storage.claim()
    client = vars(storages[0])["_table"]._client
    [connection] = client._idle
    for storage in storages[:-1]:
        storage.close()
    assert storages[-1].claim() == Fence(2, 0)
    assert client._idle == [connection]
    storages[-1].close()
    assert client._idle == []
    assert not connection.socket.is_open()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"table": ""}, "tableName"),
        ({"table": "a b"}, "tableName"),
        ({"column_family": "a:b"}, "columnFamily"),
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"timeout_ms": 0}, "timeout"),
        ({"transport": "http"}, "transport"),
        ({"protocol": "json"}, "protocol"),
        ({"largest_value": 0}, "largestValue"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        HBaseStateProvider(**{"table": "t", "column_family": "f", **options})


def test_a_provider_crosses_to_another_process_and_says_where_it_keeps_its_data() -> None:
    provider = HBaseStateProvider("space:words", "state", host="example.org", port=9091)
    assert pickle.loads(pickle.dumps(provider)) == provider  # noqa: S301
    assert "example.org:9091" in provider.describe()
    assert "space:words" in provider.describe()


@pytest.mark.parametrize("step", CALLS)
@pytest.mark.parametrize("damage", [b"x", b"\xc1", b"\x90", b"\x9c" + b"\xc0" * 12, b"\x9d" + b"\x01" * 13])
def test_damaged_bookkeeping_is_reported_and_nothing_changes(
    storage: StateStorage, table: happybase.Table, ns: str, step: str, damage: bytes
) -> None:
    committed(storage, [(b"a", b"1")])
    staged(storage, [(b"a", b"2")], txid=1, base=0)
    table.put(f"{ns}$txid".encode(), {METADATA: damage})
    before = rows(table, ns)
    with pytest.raises(StateCorrupted, match=ns):
        CALLS[step](storage)
    assert rows(table, ns) == before


@pytest.mark.parametrize("damage", [b"", b"garbage of some length", None])
def test_a_damaged_slice_stops_the_commit_before_its_data_is_written(
    storage: StateStorage, table: happybase.Table, ns: str, damage: bytes | None
) -> None:
    committed(storage, [(b"a", b"1")])
    attempt = staged(storage, [(b"a", b"2")], txid=1, base=0)
    [name] = [name for name in rows(table, ns) if name.startswith("$prepare")]
    if damage is None:
        table.delete((ns + name).encode())
    else:
        table.put((ns + name).encode(), {DATA: damage})
    with pytest.raises(StateCorrupted, match=ns):
        storage.commit(FIRST, 1, attempt)
    assert entries(storage) == {b"a": b"1"}
    assert storage.head().committed == 0


@pytest.mark.parametrize("cell", [b"", b"1", b"-x"])
def test_a_data_cell_that_somebody_else_wrote_is_reported(
    storage: StateStorage, table: happybase.Table, ns: str, cell: bytes
) -> None:
    table.put(f"{ns}$key:a".encode(), {DATA: cell})
    for read in (lambda: storage.get_many([b"a"]), lambda: entries(storage)):
        with pytest.raises(StateCorrupted, match=ns):
            read()


WRITTEN = HBaseMetadata(
    *(Fence(3, 2), 6, "a" * 32, "msgpack/1", "b" * 32),
    {"b" * 32: Staged(AttemptRecord(7, 6, Fence(3, 2), 2, 77, 5, True), "01234567", 4)},
    version=5,
    epoch=1_700_000_000_000,
    applied=1,
    written={b"key": b"value"},
)


def test_metadata_is_read_as_it_was_written() -> None:
    assert unpacked_metadata("ns", packed_metadata(WRITTEN)) == WRITTEN


def test_any_damaged_byte_of_the_metadata_is_reported() -> None:
    cell = packed_metadata(WRITTEN)
    for place in range(len(cell)):
        damaged = cell[:place] + bytes([cell[place] ^ 1]) + cell[place + 1 :]
        with pytest.raises(StateCorrupted):
            unpacked_metadata("ns", damaged)
        with pytest.raises(StateCorrupted):
            unpacked_metadata("ns", cell[:place])


def test_metadata_of_another_format_is_refused_by_name() -> None:
    with pytest.raises(StateCorrupted, match="has format 2, and this version of Anchorbolt knows 3"):
        unpacked_metadata("ns", msgpack.packb([2, b"nonce", 3, 2, 6, "a" * 32, "codec", "", [], 5, 1, 0, {b"k": b"v"}]))
