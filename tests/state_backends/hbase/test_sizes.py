"""HBase: large attempts, the largest values, and replies that are too large to come."""

from contextlib import closing
from typing import Any

import pytest

from anchorbolt.errors import StateUnavailable, UnsupportedValue
from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.contract import StateStorage
from anchorbolt.state_backends.hbase import HBaseStateProvider
from anchorbolt.state_backends.hbase.layout import NamespaceRows
from anchorbolt.state_backends.hbase.table import HBaseTable
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.testing.conformance.base import committed, new_attempt, new_namespace, stage_slice, staged
from tests.servers.hbase_server import HBaseServer
from tests.state_backends.hbase.providers import NEW, OLD, UPDATES, provider_of, sliced

pytestmark = pytest.mark.slow


def test_reads_under_a_large_attempt_need_no_memory_for_it(
    storage: StateStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(storage, *sliced(dict(OLD)))
    attempt = staged(storage, *sliced(UPDATES), txid=1, base=0)
    keys = [*OLD, *UPDATES]
    expected = [NEW.get(key) for key in keys]
    assert storage.get_many(keys, attempt) == expected
    monkeypatch.setattr("anchorbolt.state_backends.hbase.records._OVERLAY_BYTES", 1000)
    vars(storage)["_staged"].forget()
    for _ in range(2):
        assert storage.get_many(keys, attempt) == expected


@pytest.mark.parametrize("provider_name", ["hbase_provider", "hbase_framed_provider"])
def test_the_largest_values_are_kept_and_larger_ones_refused_in_put(
    request: pytest.FixtureRequest, ns: str, provider_name: str
) -> None:
    provider: HBaseStateProvider = request.getfixturevalue(provider_name)
    storage = provider.open(ns)
    assert storage.limits.value > (9_900_000 if provider.transport == "buffered" else 1_900_000)
    key, value = b"k" * storage.limits.key, b"v" * storage.limits.value
    committed(storage, [(key, value), (b"", b"")])
    assert storage.get_many([key, b""]) == [value, b""]
    with closing(storage), pytest.raises(UnsupportedValue, match="largestValue"):
        stage_slice(storage, new_attempt(), 0, {b"k": value + b"v"}, txid=1, base=0)

    with closing(provider.open(new_namespace())) as storage:
        state: KeyValueState[Any, Any] = KeyValueState(storage)
        state.begin(AttemptScope(storage.claim(), 0, new_attempt()))
        for refused in (value, value.decode(), [value]):
            with pytest.raises(UnsupportedValue, match=r"maxsize.*largestValue"):
                state.put("k", refused)
        with pytest.raises(UnsupportedValue, match="Use a shorter one"):
            state.put("k" * 40_000, 1)
        state.put("k", value[:-10])
        state.prepare_commit(0)
        state.commit(0)
        assert len(storage.get_many([b"\xa1k"])[0] or b"") == len(value) - 5


def test_large_values_are_read_a_few_at_a_time(
    hbase_provider: HBaseStateProvider, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a handle that has seen none of them: a reply as large as all of them would take the Thrift server down."""
    values = {b"%02d" % number: bytes([number]) * 1_500_000 for number in range(24)}
    with closing(hbase_provider.open(ns)) as storage:
        committed(storage, *([item] for item in values.items()))
    replies, call = [], HBaseTable._call

    def measured(table: HBaseTable, method: str, *arguments: Any) -> Any:
        found = call(table, method, *arguments)
        if method == "getRowsWithColumns":
            replies.append(sum(len(cell.value) for row in found for cell in row.columns.values()))
        return found

    monkeypatch.setattr(HBaseTable, "_call", measured)
    with closing(hbase_provider.open(ns)) as storage:
        assert storage.get_many(list(values)) == list(values.values())
    assert max(replies) < 5 << 20


def test_a_reply_that_is_too_large_to_come_is_asked_for_in_parts(
    hbase_server: HBaseServer, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {b"%02d" % number: b"%d" % number for number in range(40)}
    with closing(provider_of(hbase_server).open(ns)) as storage:
        committed(storage, list(values.items()))
    asked, call = [], HBaseTable._call

    def overwhelmed(table: HBaseTable, method: str, rows: list[bytes], *more: Any) -> Any:
        asked.append(len(rows))
        if min(asked) > 2:
            raise StateUnavailable("the server is out of memory")
        return call(table, method, rows, *more)

    with closing(provider_of(hbase_server).open(ns)) as storage:
        storage.get_many(list(values))  # they are small, so many are asked for at once from now on
        table = vars(storage)["_table"]
        monkeypatch.setattr(HBaseTable, "_call", overwhelmed)
        data = NamespaceRows(ns).data
        parts = list(table.read_many(b"s", [data + key for key in values]))
    assert {row[len(data) :]: cell.value for found in parts for row, cell in found.items()} == {
        key: b"+" + value for key, value in values.items()
    }
    assert asked[0] > 2


def test_keys_that_are_too_long_for_a_row_are_just_not_there(storage: StateStorage) -> None:
    assert storage.get_many([b"k" * 40_000]) == [None]
