"""The rows of a namespace in HBase, and steps that were cut off, overtaken, repeated, or whose reply was lost."""

import re
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import happybase
import pytest

from anchorbolt.errors import Fenced, StateUnavailable
from anchorbolt.state_backends.contract import Fence, StateStorage
from anchorbolt.state_backends.hbase import HBaseStateProvider
from anchorbolt.testing.conformance.base import CODEC, FIRST, Items, committed, entries, stage, stage_slice, staged
from tests.servers.hbase_server import HBaseServer
from tests.servers.tcp_proxy import TcpProxy
from tests.state_backends.hbase.providers import DATA, FAMILY, NEW, OLD, UPDATED, UPDATES, provider_of, rows, sliced
from tests.state_backends.same_everywhere import cut_off, finish_half_applied

pytestmark = pytest.mark.slow


def test_the_rows_are_those_of_storm(storage: StateStorage, table: happybase.Table, ns: str) -> None:
    storage.claim()
    assert rows(table, ns).keys() == {"$txid"}
    winner, _ = stage(storage, [(b"a", b"1"), (b"b", None)])
    stage(storage, [(b"a", b"2")])
    assert sorted(name[:9] for name in rows(table, ns)) == ["$prepare$", "$prepare$", "$txid"]
    storage.seal(FIRST, winner, stage_slice(storage, winner, 1, {b"c": b""}))
    storage.commit(FIRST, 0, winner)
    found = rows(table, ns)
    assert found.keys() == {"$txid", "$key:a", "$key:b", "$key:c"}
    assert (found["$key:a"], found["$key:b"], found["$key:c"]) == (b"+1", b"-", b"+")
    stage(storage, [(b"a", b"3")], txid=1, base=0)
    attempt, _ = stage(storage, [(b"a", b"4")], fence=Fence(1, 1), txid=1, base=0)  # drops the one before
    [staged_row] = rows(table, ns).keys() - found.keys()
    assert attempt in staged_row
    storage.rollback(Fence(1, 1))
    assert rows(table, ns).keys() == found.keys()


@pytest.mark.parametrize(
    "step",
    [
        lambda storage, attempt: storage.commit(FIRST, 0, attempt),
        lambda storage, attempt: storage.rollback(FIRST),
        lambda storage, attempt: stage(storage, [(b"a", b"2")], fence=Fence(1, 1)),
    ],
)
def test_what_a_cut_off_step_left_behind_is_swept_by_the_next_driver(
    storage: StateStorage, table: happybase.Table, ns: str, step: Callable[[StateStorage, str], object]
) -> None:
    attempt = staged(storage, [(b"a", b"1")])
    with cut_off(vars(storage)["_table"], "delete", 0):
        step(storage, attempt)
    assert any(attempt in name for name in rows(table, ns))
    storage.raise_fence(storage.claim())
    assert not any(attempt in name for name in rows(table, ns))


@pytest.mark.parametrize("puts", [0, 1, 2])
def test_a_commit_that_was_cut_off_is_finished_by_another_driver(
    hbase_provider: HBaseStateProvider, ns: str, puts: int
) -> None:
    with closing(hbase_provider.open(ns)) as storage:
        committed(storage, *sliced(dict(OLD)))
        stage(storage, [(b"loser", b"1")], txid=1, base=0)
        attempt = staged(storage, *sliced(UPDATES), txid=1, base=0)
    with closing(hbase_provider.open(ns)) as storage, cut_off(vars(storage)["_table"], "put", puts):
        storage.commit(FIRST, 1, attempt)
    finish_half_applied(hbase_provider, ns, attempt, NEW)


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

    with closing(hbase_provider.open(ns)) as storage, cut_off(vars(storage)["_table"], "check_and_put", moves):
        transaction(storage)
    with closing(hbase_provider.open(ns)) as storage:
        transaction(storage)
        assert entries(storage) == UPDATED


@pytest.mark.parametrize("every", [7, 10])  # a page of a scan takes five exchanges, and is repeated as a whole
@pytest.mark.parametrize("server_name", ["hbase_server", "hbase_framed"])
def test_replies_that_are_lost_after_the_server_did_what_it_was_asked_change_nothing(
    request: pytest.FixtureRequest, ns: str, server_name: str, every: int
) -> None:
    server: HBaseServer = request.getfixturevalue(server_name)
    with (
        TcpProxy(server.port, lost_replies=every) as proxy,
        closing(provider_of(server, port=proxy.port).open(ns)) as storage,
    ):
        # Each claim raises the fence by one, even if the reply to its check-and-put was lost.
        assert [storage.claim() for _ in range(8)] == [Fence(number, 0) for number in range(1, 9)]
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


def fall_asleep_in_commit(storage: StateStorage, txid: int, attempt: str) -> Callable[[], None]:
    """Let the cells of a commit not reach the server until what is returned is called."""
    connected = vars(storage)["_table"]
    messages = []

    def keep(column: bytes, cells: Any, timestamp: int) -> None:
        messages.append((column, list(cells), timestamp))
        raise StateUnavailable("asleep")

    with mock.patch.object(connected, "put", keep), pytest.raises(StateUnavailable, match="asleep"):
        storage.commit(FIRST, txid, attempt)
    [message] = messages
    return lambda: connected.put(*message)


def test_an_overtaken_commit_that_wakes_up_changes_nothing(hbase_provider: HBaseStateProvider, ns: str) -> None:
    with closing(hbase_provider.open(ns)) as sleeper, closing(hbase_provider.open(ns)) as storage:
        committed(storage, [(b"kept", b"0"), (b"deleted", b"0"), (b"put again", b"0")])
        items: Items = [(b"kept", b"1"), (b"deleted", b"1"), (b"put again", None), (b"new", b"1")]
        attempt = staged(storage, items, txid=1, base=0)
        wake = fall_asleep_in_commit(sleeper, 1, attempt)
        fence = storage.claim()
        storage.commit(fence, 1, attempt)
        committed(storage, [(b"deleted", None), (b"put again", b"2"), (b"new", None)], fence=fence, txid=2, base=1)
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
        wake = fall_asleep_in_commit(sleeper, 0, attempt)
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
        assert entries(fast) == UPDATED


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
    page = (Path(__file__).parents[3] / "docs" / "providers" / "hbase.md").read_text()
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


def test_deleted_keys_are_forgotten_but_not_those_that_are_put_again_meanwhile(
    storage: StateStorage, table: happybase.Table, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(storage, [(b"gone", b"1"), (b"back", b"1"), (b"kept", b"1")])
    committed(storage, [(b"gone", None), (b"back", None)], txid=1, base=0)
    of_storage = vars(storage)["_table"]
    delete = of_storage.delete

    def delete_later(*arguments: Any) -> None:
        monkeypatch.undo()
        committed(storage, [(b"back", b"2")], txid=2, base=1)
        delete(*arguments)

    monkeypatch.setattr(of_storage, "delete", delete_later)
    assert storage.forget_deleted() == 2
    assert rows(table, ns).keys() == {"$txid", "$key:back", "$key:kept"}
    assert entries(storage) == {b"back": b"2", b"kept": b"1"}
    assert storage.forget_deleted() == 0


@pytest.mark.parametrize("deletes", range(4))
def test_a_removal_that_is_cut_off_leaves_nothing_committed_and_is_finished_later(
    hbase_provider: HBaseStateProvider, storage: StateStorage, table: happybase.Table, ns: str, deletes: int
) -> None:
    committed(storage, [(b"a", b"1"), (b"b", b"1")])
    committed(storage, [(b"a", None)], txid=1, base=0)
    staged(storage, [(b"c", b"1")], txid=2, base=1)
    with cut_off(vars(storage)["_table"], "delete", deletes):
        storage.remove(FIRST)
    assert (storage.head().committed, storage.head().attempts) == (-1, {})
    storage.remove(FIRST)
    assert rows(table, ns) == {}
    assert list(hbase_provider.namespaces(ns)) == []
    committed(storage, [(b"a", b"new")])
    assert entries(storage) == {b"a": b"new"}
