"""The record of who changed what: exactly one for each change, also after kills."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from anchorbolt.checkpoint.decision_log import DecisionLog, record_namespace, with_change
from anchorbolt.errors import MigrationRefused
from anchorbolt.files import open_folder
from anchorbolt.maintenance.changes import change_record
from anchorbolt.migration_tools.copy import copy_topology
from anchorbolt.migration_tools.repairing import put_entry
from anchorbolt.observe.history.records import Change
from anchorbolt.observe.history.segments import keep_changes, read_history
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from tests.migration_tools.conftest import ALL, MSGPACK, Killed, KilledAt
from tests.migration_tools.test_renaming import WORDS, rename, run
from tests.migration_tools.test_rescaling import RESCALE, Job


def stored(provider: StateProvider, name: str) -> list[tuple[str, int]]:
    """Return the command and the txid of each change that the store keeps."""
    with closing(provider.open(record_namespace(name))) as storage:
        changes = [json.loads(each) for each in DecisionLog(storage).changes()]
    return [(each["command"], each["txid"]) for each in changes]


def in_history(place: Path) -> Iterator[tuple[str, int]]:
    for each in read_history(open_folder(str(place))):
        if isinstance(each, Change):
            yield each.command, each.txid


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.timeout(300)
def test_a_change_that_was_killed_anywhere_has_one_record_once_it_is_made(
    after: bool, name: str, tmp_path: Path
) -> None:
    whole = SqliteStateProvider(str(tmp_path / "whole"))
    run(whole, name, "count", WORDS, tmp_path / "place")
    decided = 0
    for number in range(1, 100):
        provider, place = SqliteStateProvider(str(tmp_path / f"store-{number}")), tmp_path / f"place-{number}"
        shutil.copytree(whole.directory, provider.directory)
        shutil.copytree(tmp_path / "place", place)
        with pytest.MonkeyPatch.context() as patched:
            killed = KilledAt(patched, number, after=after)
            with suppress(Killed):
                rename(provider, name)
            if killed.left > 0:
                break
        expected = [("rename", len(WORDS))]
        decided += stored(provider, name) == expected
        with suppress(MigrationRefused):  # it is decided
            rename(provider, name)
        assert stored(provider, name) == expected
        run(provider, name, "counter", [], place)
        assert list(in_history(place)) == expected
    assert decided > 2


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_every_store_keeps_the_last_twenty_changes(store: StateProvider, name: str, tmp_path: Path) -> None:
    run(store, name, "count", WORDS, tmp_path)
    for number in range(25):
        put_entry(store, name, name, "count", "to", number, MSGPACK, now=0)
    last = [("put", len(WORDS) + number) for number in range(5, 25)]
    assert stored(store, name) == last
    assert run(store, name, "count", ["to"], tmp_path)["to"] == 25
    assert list(in_history(tmp_path)) == last


def test_a_start_that_rescales_is_a_change(sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path) -> None:
    job = Job(sqlite_provider, name, tmp_path)
    job.run(WORDS, 2, **RESCALE)
    job.run([], 3, **RESCALE)
    assert list(in_history(tmp_path)) == [("start", len(WORDS))]
    [change] = [each for each in read_history(open_folder(str(tmp_path))) if isinstance(each, Change)]
    assert change.tasks == {"count": (2, 3)}


def test_a_copy_is_a_change_of_its_target_which_has_those_of_the_source_too(
    source: SqliteStateProvider, target: SqliteStateProvider, name: str, tmp_path: Path
) -> None:
    run(source, name, "count", WORDS, tmp_path)
    rename(source, name)
    for _ in range(2):
        copy_topology(source, target, name, name)
    assert stored(target, name) == [("rename", len(WORDS)), ("copy", len(WORDS))]
    assert stored(source, name) == [("rename", len(WORDS))]


def test_a_damaged_list_of_changes_stops_nothing(
    sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path
) -> None:
    run(sqlite_provider, name, "count", WORDS, tmp_path)
    rename(sqlite_provider, name)
    with closing(sqlite_provider.open(record_namespace(name))) as storage:
        head, [key] = storage.head(), with_change(storage.namespace, {}, "")
        for damaged in (b"\xc1", b"\x01"):
            storage.write(head.fence, {key: damaged}, head.codec)
            assert stored(sqlite_provider, name) == []
    rename(sqlite_provider, name, "counter", "count")
    assert stored(sqlite_provider, name) == [("rename", len(WORDS) + 1)]


def test_the_history_adds_each_change_once(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path))
    made = [change_record("put", number, number, put={"a:b:count-1": 1, "a:b:count-0": 2}) for number in range(3)]
    keep_changes(folder, made[:2])
    keep_changes(folder, made)
    found = [each for each in read_history(folder) if isinstance(each, Change)]
    assert [each.txid for each in found] == [0, 1, 2]
    assert found[0].put == {"count": 3}


def test_a_record_has_the_first_keys_in_short() -> None:
    record = json.loads(change_record("delete", 1, 1, keys=["k" * 1000, *range(20)]))
    assert len(record["keys"]) == 10
    assert len(record["keys"][0]) < 100
