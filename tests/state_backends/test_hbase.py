"""HBase: the layout, commits cut off or overtaken, rubbish, limits, and data that somebody else has written."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import happybase
import pytest

from anchorbolt.errors import (
    ConfigError,
    Fenced,
    StaleAttempt,
    StateCorrupted,
    StateUnavailable,
    UnsupportedValue,
)
from anchorbolt.state_backends import hbase_table
from anchorbolt.state_backends.attempt import AttemptScope
from anchorbolt.state_backends.base import Fence, StateStorage
from anchorbolt.state_backends.hbase import HBaseStateProvider
from anchorbolt.state_backends.hbase_layout import NamespaceRows
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.testing.conformance_base import (
    CODEC,
    FIRST,
    Items,
    committed,
    entries,
    new_attempt,
    new_namespace,
    stage,
    staged,
)
from tests.state_backends.hbase_providers import FAMILY, TABLE, provider_of
from tests.support.hbase_server import HBaseServer
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.slow

OLD = {b"%d" % number: b"old" for number in range(600)}
UPDATES: dict[bytes, bytes | None] = {
    b"%d" % number: b"new" if number % 5 else None for number in range(300, 1500)
}
NEW = {key: value for key, value in {**OLD, **UPDATES}.items() if value is not None}
DATA, BOOKS = f"{FAMILY}:s".encode(), f"{FAMILY}:books".encode()


@pytest.fixture
def ns() -> str:
    return new_namespace()


@pytest.fixture
def storage(hbase_provider: HBaseStateProvider, ns: str) -> Iterator[StateStorage]:
    with closing(hbase_provider.open(ns)) as storage:
        yield storage


@pytest.fixture
def table(hbase_server: HBaseServer, hbase_provider: HBaseStateProvider) -> Iterator[happybase.Table]:
    list(hbase_provider.namespaces())  # makes the table
    connection = hbase_server.connection()
    yield connection.table(TABLE)
    connection.close()


def sliced(updates: dict[bytes, bytes | None]) -> list[Items]:
    items = list(updates.items())
    return [items[start : start + 400] for start in range(0, len(items), 400)]


def rows(table: happybase.Table, ns: str) -> dict[str, bytes]:
    """What lies in the table of a namespace, by the names of its rows without its own."""
    found = table.scan(row_prefix=f"{ns}$".encode())
    return {row.decode()[len(ns) :]: next(iter(columns.values())) for row, columns in found}


@contextmanager
def broken(storage: StateStorage, name: str, after: int) -> Iterator[None]:
    """Let the connection break at a call on the table, after so many of them."""
    connected = vars(storage)["_table"]
    call = getattr(connected, name)
    left = [after]

    def call_or_break(*arguments: Any, **options: Any) -> Any:
        if left[0] == 0:
            raise StateUnavailable("the connection broke")
        left[0] -= 1
        return call(*arguments, **options)

    setattr(connected, name, call_or_break)
    try:
        with pytest.raises(StateUnavailable, match="broke"):
            yield
    finally:
        delattr(connected, name)


def test_the_rows_are_those_of_storm(storage: StateStorage, table: happybase.Table, ns: str) -> None:
    storage.claim()
    assert rows(table, ns).keys() == {"$txid"}
    winner, _ = stage(storage, [(b"a", b"1"), (b"b", None)])
    stage(storage, [(b"a", b"2")])
    assert sorted(name[:9] for name in rows(table, ns)) == ["$prepare$", "$prepare$", "$txid"]
    storage.seal(FIRST, winner, storage.stage(FIRST, 0, winner, -1, 1, [(b"c", b"")], CODEC))
    storage.commit(FIRST, 0, winner)
    found = rows(table, ns)
    assert found.keys() == {"$txid", "$key:a", "$key:b", "$key:c"}
    assert (found["$key:a"], found["$key:b"], found["$key:c"]) == (b"+1", b"-", b"+")
    stage(storage, [(b"a", b"3")], txid=1, base=0)
    storage.rollback(FIRST)
    assert rows(table, ns).keys() == found.keys()


def test_starting_an_attempt_removes_the_rows_of_those_it_drops(
    storage: StateStorage, table: happybase.Table, ns: str
) -> None:
    stage(storage, [(b"a", b"1")])
    attempt, _ = stage(storage, [(b"a", b"2")], fence=Fence(1, 1))
    staged_rows = [name for name in rows(table, ns) if name != "$txid"]
    assert len(staged_rows) == 1
    assert attempt in staged_rows[0]


@pytest.mark.parametrize("steps", ["commit", "rollback", "stage"])
def test_what_a_cut_off_step_left_behind_is_swept_by_the_next_driver(
    storage: StateStorage, table: happybase.Table, ns: str, steps: str
) -> None:
    attempt = staged(storage, [(b"a", b"1")])
    with broken(storage, "delete", 0):
        if steps == "commit":
            storage.commit(FIRST, 0, attempt)
        elif steps == "rollback":
            storage.rollback(FIRST)
        else:
            stage(storage, [(b"a", b"2")], fence=Fence(1, 1))
    assert any(attempt in name for name in rows(table, ns))
    storage.raise_fence(storage.claim())
    assert not any(attempt in name for name in rows(table, ns))


def test_sweeping_leaves_alone_what_is_staged(storage: StateStorage) -> None:
    attempt = staged(storage, *sliced(UPDATES))
    storage.raise_fence(storage.claim())
    storage.commit(storage.head().fence, 0, attempt)
    assert entries(storage) == {key: value for key, value in UPDATES.items() if value is not None}


@pytest.mark.parametrize("puts", [0, 1, 2])
def test_a_commit_that_was_cut_off_is_finished_by_another_driver(
    hbase_provider: HBaseStateProvider, ns: str, puts: int
) -> None:
    with closing(hbase_provider.open(ns)) as storage:
        committed(storage, *sliced(dict(OLD)))
        stage(storage, [(b"loser", b"1")], txid=1, base=0)
        attempt = staged(storage, *sliced(UPDATES), txid=1, base=0)
    with closing(hbase_provider.open(ns)) as storage, broken(storage, "put", puts):
        storage.commit(FIRST, 1, attempt)
    with closing(hbase_provider.open(ns)) as storage:
        fence = storage.claim()
        head = storage.raise_fence(fence)
        assert head.committed == 0
        assert head.attempts.keys() == {attempt}
        assert entries(storage, attempt) == NEW
        for step in (
            lambda: storage.rollback(fence),
            lambda: stage(storage, [(b"a", b"1")], fence=fence, txid=1, base=0),
            lambda: storage.commit(fence, 1, "0" * 32),
        ):
            with pytest.raises(StaleAttempt, match="half applied"):
                step()
        assert storage.head() == head
        storage.commit(fence, 1, attempt)
        storage.commit(fence, 1, attempt)
        assert entries(storage) == NEW
        assert storage.head().committed == 1


@pytest.mark.parametrize("moves", range(6))
def test_a_transaction_whose_bookkeeping_could_not_be_moved_is_repeated(
    hbase_provider: HBaseStateProvider, ns: str, moves: int
) -> None:
    def transaction(storage: StateStorage) -> None:
        head = storage.head()
        if head.committed == 0:
            return
        sealed = [each for each, known in head.attempts.items() if known.seal]
        storage.commit(FIRST, 0, sealed[0] if sealed else staged(storage, *sliced(UPDATES)))

    with closing(hbase_provider.open(ns)) as storage, broken(storage, "check_and_put", moves):
        transaction(storage)
    with closing(hbase_provider.open(ns)) as storage:
        transaction(storage)
        assert entries(storage) == {key: value for key, value in UPDATES.items() if value is not None}


def test_a_check_and_put_that_was_sent_twice_counts_once(storage: StateStorage) -> None:
    connected = vars(storage)["_table"]
    check_and_put = connected.check_and_put

    def sent_twice(*arguments: Any) -> bool:
        check_and_put(*arguments)
        again: bool = check_and_put(*arguments)
        assert not again
        return again

    connected.check_and_put = sent_twice
    assert [storage.claim() for _ in range(3)] == [Fence(1, 0), Fence(2, 0), Fence(3, 0)]
    attempt = committed(storage, [(b"a", b"1")], fence=Fence(3, 0))
    assert storage.head().winner == attempt


@pytest.mark.parametrize(
    "every", [7, 10]
)  # a page of a scan takes five exchanges, and is repeated as a whole
@pytest.mark.parametrize("server_name", ["hbase_server", "hbase_framed"])
def test_replies_that_are_lost_after_the_server_did_what_it_was_asked_change_nothing(
    request: pytest.FixtureRequest, ns: str, server_name: str, every: int
) -> None:
    server: HBaseServer = request.getfixturevalue(server_name)
    with (
        TcpProxy(server.port, lost_replies=every) as proxy,
        closing(provider_of(server, port=proxy.port).open(ns)) as storage,
    ):
        fences = [storage.claim() for _ in range(5)]
        assert fences == sorted(set(fences))
        fence = storage.claim()
        storage.write(fence, {b"w": b"1"}, CODEC)
        committed(storage, *sliced(dict(OLD)), fence=fence)
        stage(storage, [(b"loser", b"1")], txid=1, base=0, fence=fence)
        assert storage.rollback(fence) == 1
        attempt = committed(storage, *sliced(UPDATES), txid=1, base=0, fence=fence)
        head = storage.head()
        assert (head.committed, head.winner, head.attempts) == (1, attempt, {})
        assert entries(storage, page_size=200) == {**NEW, b"w": b"1"}
        assert storage.get_many([b"0", b"301", b"300"]) == [b"old", b"new", None]


def fall_asleep_at_put(storage: StateStorage) -> Callable[[], None]:
    """Let the cells of a commit not reach the server until what is returned is called."""
    connected = vars(storage)["_table"]
    put, messages = connected.put, []

    def keep(column: bytes, cells: Any, timestamp: int) -> None:
        messages.append((column, list(cells), timestamp))
        raise StateUnavailable("asleep")

    def wake() -> None:
        assert messages
        for message in messages:
            put(*message)

    connected.put = keep
    return wake


def test_an_overtaken_commit_that_wakes_up_changes_nothing(
    hbase_provider: HBaseStateProvider, ns: str
) -> None:
    with closing(hbase_provider.open(ns)) as sleeper, closing(hbase_provider.open(ns)) as storage:
        committed(storage, [(b"kept", b"0"), (b"deleted", b"0"), (b"put again", b"0")])
        items: Items = [(b"kept", b"1"), (b"deleted", b"1"), (b"put again", None), (b"new", b"1")]
        attempt = staged(storage, items, txid=1, base=0)
        wake = fall_asleep_at_put(sleeper)
        with pytest.raises(StateUnavailable, match="asleep"):
            sleeper.commit(FIRST, 1, attempt)
        fence = storage.claim()
        storage.commit(fence, 1, attempt)
        committed(
            storage, [(b"deleted", None), (b"put again", b"2"), (b"new", None)], fence=fence, txid=2, base=1
        )
        expected = {b"kept": b"1", b"put again": b"2"}
        assert entries(storage) == expected
        wake()
        assert entries(storage) == expected
        with pytest.raises(Fenced):
            sleeper.commit(FIRST, 1, attempt)


def test_of_a_key_in_several_slices_the_last_one_wins_even_if_an_early_one_comes_late(
    hbase_provider: HBaseStateProvider, ns: str
) -> None:
    slices: list[Items] = [[(b"k", b"%d" % number), (b"%d" % number, b"x")] for number in range(70)]
    with closing(hbase_provider.open(ns)) as sleeper, closing(hbase_provider.open(ns)) as storage:
        attempt = staged(storage, *slices)
        wake = fall_asleep_at_put(sleeper)
        with pytest.raises(StateUnavailable, match="asleep"):
            sleeper.commit(FIRST, 0, attempt)
        storage.commit(FIRST, 0, attempt)
        wake()
        found = entries(storage)
    assert found.pop(b"k") == b"69"
    assert found == {b"%d" % number: b"x" for number in range(70)}


def test_a_driver_that_lags_behind_another_one_in_the_same_commit_is_told_that_it_is_done_or_fenced(
    hbase_provider: HBaseStateProvider, ns: str
) -> None:
    with closing(hbase_provider.open(ns)) as slow, closing(hbase_provider.open(ns)) as fast:
        attempt = staged(fast, *sliced(UPDATES))
        connected = vars(slow)["_table"]
        scan = connected.scan

        def overtaken(*arguments: Any, **options: Any) -> Any:
            fast.commit(FIRST, 0, attempt)
            return scan(*arguments, **options)

        connected.scan = overtaken
        slow.commit(FIRST, 0, attempt)
        assert fast.head().committed == 0
        assert len(entries(fast)) == sum(value is not None for value in UPDATES.values())


def test_who_deletes_the_rows_by_hand_starts_over(
    hbase_provider: HBaseStateProvider, storage: StateStorage, table: happybase.Table, ns: str
) -> None:
    for txid in range(3):
        committed(storage, [(b"a", b"old"), (b"b", b"old")], txid=txid, base=txid - 1)
    [(_, newest)] = table.cells(f"{ns}$key:a".encode(), DATA, versions=1, include_timestamp=True)
    deadline = time.monotonic() + 10
    while time.time() * 1000 <= newest:  # three commits in less time than three waves have
        assert time.monotonic() < deadline
    for name in rows(table, ns):
        table.delete((ns + name).encode())
    assert ns not in hbase_provider.namespaces(ns)
    assert storage.head().committed == -1
    assert entries(storage) == {}
    committed(storage, [(b"a", b"new")])
    assert entries(storage) == {b"a": b"new"}
    assert list(hbase_provider.namespaces(ns)) == [ns]


def test_deleted_keys_are_taken_out_as_the_documentation_says(
    storage: StateStorage, table: happybase.Table, ns: str
) -> None:
    committed(storage, [(b"gone", b"1"), (b"back", b"1"), (b"kept", b"1")])
    committed(storage, [(b"gone", None), (b"back", None)], txid=1, base=0)
    page = (Path(__file__).parents[2] / "docs" / "providers" / "hbase.md").read_text()
    loop = re.search(r"^for row, cells in .*?^```", page, re.MULTILINE | re.DOTALL)
    assert loop
    code = (
        loop[0]
        .rstrip("`")
        .replace("state:s", f"{FAMILY}:s")
        .replace("    table.delete", "    late(row)\n    table.delete")
    )

    def put_again_meanwhile(row: bytes) -> None:
        if row == f"{ns}$key:back".encode():
            committed(storage, [(b"back", b"2")], txid=2, base=1)

    exec(code, {"table": table, "late": put_again_meanwhile})
    assert storage.head().committed == 2
    assert rows(table, ns).keys() == {"$txid", "$key:back", "$key:kept"}
    assert entries(storage) == {b"back": b"2", b"kept": b"1"}


def test_reads_under_a_large_attempt_need_no_memory_for_it(
    storage: StateStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(storage, *sliced(dict(OLD)))
    attempt = staged(storage, *sliced(UPDATES), txid=1, base=0)
    keys = [*OLD, *UPDATES]
    expected = [NEW.get(key) for key in keys]
    assert storage.get_many(keys, attempt) == expected
    monkeypatch.setattr("anchorbolt.state_backends.hbase_staged._OVERLAY_BYTES", 1000)
    vars(storage)["_overlay"] = None
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
        storage.stage(FIRST, 1, new_attempt(), 0, 0, [(b"k", value + b"v")], CODEC)

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
    replies, get_rows = [], hbase_table._get_rows

    def measured(*arguments: Any) -> Any:
        found = get_rows(*arguments)
        replies.append(sum(len(cell.value) for row in found for cell in row.columns.values()))
        return found

    monkeypatch.setattr(hbase_table, "_get_rows", measured)
    with closing(hbase_provider.open(ns)) as storage:
        assert storage.get_many(list(values)) == list(values.values())
    assert max(replies) < 5 << 20


def test_a_reply_that_is_too_large_to_come_is_asked_for_in_parts(
    hbase_server: HBaseServer, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {b"%02d" % number: b"%d" % number for number in range(40)}
    with closing(provider_of(hbase_server).open(ns)) as storage:
        committed(storage, list(values.items()))
    asked, get_rows = [], hbase_table._get_rows

    def overwhelmed(table: bytes, rows: list[bytes], *more: Any) -> Any:
        asked.append(len(rows))
        if min(asked) > 2:
            raise TimeoutError("the server is out of memory")
        return get_rows(table, rows, *more)

    with closing(provider_of(hbase_server, timeout_ms=2_000).open(ns)) as storage:
        storage.get_many(list(values))  # they are small, so many are asked for at once from now on
        table = vars(storage)["_table"]
        monkeypatch.setattr(hbase_table, "_get_rows", overwhelmed)
        data = NamespaceRows(ns).data
        found = table.read(b"s", [data + key for key in values])
    assert {row[len(data) :]: cell.value for row, cell in found.items()} == {
        key: b"+" + value for key, value in values.items()
    }
    assert asked[0] > 2


def test_keys_that_are_too_long_for_a_row_are_just_not_there(storage: StateStorage) -> None:
    assert storage.get_many([b"k" * 40_000]) == [None]


STEPS: dict[str, Callable[[StateStorage, str], object]] = {
    "head": lambda storage, _: storage.head(),
    "claim": lambda storage, _: storage.claim(),
    "raise_fence": lambda storage, _: storage.raise_fence(Fence(5, 0)),
    "get_many": lambda storage, _: storage.get_many([b"a"]),
    "stage": lambda storage, _: stage(storage, [(b"a", b"3")], fence=Fence(5, 0), txid=1, base=0),
    "seal": lambda storage, attempt: storage.seal(Fence(5, 0), attempt, (1, 0)),  # type: ignore[arg-type]
    "commit": lambda storage, attempt: storage.commit(Fence(5, 0), 1, attempt),
    "rollback": lambda storage, _: storage.rollback(Fence(5, 0)),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("damage", [b"x", b"\xc1", b"\x90", b"\x9c" + b"\xc0" * 12, b"\x9d" + b"\x01" * 13])
def test_damaged_bookkeeping_is_reported_and_nothing_changes(
    storage: StateStorage, table: happybase.Table, ns: str, step: str, damage: bytes
) -> None:
    committed(storage, [(b"a", b"1")])
    attempt = staged(storage, [(b"a", b"2")], txid=1, base=0)
    table.put(f"{ns}$txid".encode(), {BOOKS: damage})
    before = rows(table, ns)
    with pytest.raises(StateCorrupted, match=ns):
        STEPS[step](storage, attempt)
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


def test_threads_do_not_get_each_others_answers(hbase_provider: HBaseStateProvider, ns: str) -> None:
    barrier = threading.Barrier(4)

    def work(number: int) -> dict[bytes, bytes]:
        with closing(hbase_provider.open(f"{ns}{number}")) as storage:
            barrier.wait()
            for txid in range(10):
                committed(storage, [(b"%d" % txid, b"%d" % number)], txid=txid, base=txid - 1)
            return entries(storage)

    with ThreadPoolExecutor(4) as threads:
        for number, found in enumerate(threads.map(work, range(4))):
            assert found == {b"%d" % txid: b"%d" % number for txid in range(10)}


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


def test_where_the_driver_is_not_installed_that_is_said_with_the_command_that_does_it() -> None:
    code = "import sys; sys.modules['happybase'] = None; import anchorbolt.state_backends.hbase"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "ConfigError" in ended.stderr
    assert "pip install 'anchorbolt[hbase]'" in ended.stderr
