"""Rubbish in the table of a namespace in HBase is reported, and nothing changes."""

import happybase
import pytest

from anchorbolt.errors import StateCorrupted
from anchorbolt.state_backends.contract import StateStorage
from anchorbolt.testing.conformance.base import FIRST, committed, entries, staged
from tests.state_backends.hbase.providers import CALLS, DATA, METADATA, rows

pytestmark = pytest.mark.slow


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
