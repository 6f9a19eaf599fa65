"""The state of a topology that is gone, removed: all of it, also after kills, and nothing else."""

import shutil
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.checkpoint.decision_log import DecisionLog, record_namespace
from anchorbolt.errors import ConfigError, Fenced, MigrationRefused, StateRegressed
from anchorbolt.migration_tools.renaming import rename_state
from anchorbolt.migration_tools.topology_inspection import read_topology
from anchorbolt.migration_tools.upkeep import purging
from anchorbolt.migration_tools.upkeep.purging import PurgeReport, purge_component, purge_topology
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import StateProvider, StateStorage
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.state_backends.sqlite.storage import SqliteStateStorage
from anchorbolt.testing.conformance.base import committed, entries
from tests.migration_tools.conftest import ALL, Killed, KilledAt, StartWords
from tests.migration_tools.test_renaming import WORDS, run


def purge(provider: StateProvider, name: str, **options: Any) -> PurgeReport:
    return purge_topology(provider, name, name, **options)


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_a_purge_removes_the_topology_and_what_is_left_over_and_no_other(
    store: StateProvider, name: str, tmp_path: Path
) -> None:
    run(store, name, "count", WORDS, tmp_path / "place")
    for other in (f"{name}:gone-0", f"{name}:longer:count-0", f"{name}2:count-0"):
        with closing(store.open(other)) as storage:
            committed(storage, [(b"a", b"1")])
    planned = purge(store, name, dry_run=True)
    assert run(store, name, "count", ["to"], tmp_path / "place")["to"] == 3
    report = purge(store, name)
    assert list(report.namespaces) == list(planned.namespaces)
    assert f"{name}:gone-0" in report.namespaces
    assert sorted(store.namespaces(name)) == [f"{name}2:count-0", f"{name}:longer:count-0"]
    with pytest.raises(MigrationRefused):
        purge(store, name)
    with pytest.raises(StateRegressed):  # the copy of the decision is there still
        run(store, name, "count", WORDS, tmp_path / "place")
    assert run(store, name, "count", WORDS, tmp_path / "new place") == Counter(WORDS)


class KilledAtRemoval(KilledAt):
    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, *, after: bool) -> None:
        super().__init__(monkeypatch, number, after=after)
        monkeypatch.setattr(SqliteStateStorage, "remove", self._wrapped(SqliteStateStorage.remove, after))


@pytest.mark.parametrize("after", [False, True])
def test_a_purge_that_is_killed_anywhere_is_never_taken_for_a_whole_topology(
    after: bool, name: str, tmp_path: Path
) -> None:
    whole = SqliteStateProvider(str(tmp_path / "whole"))
    run(whole, name, "count", WORDS, tmp_path / "place")
    refused = as_before = 0
    for number in range(1, 100):
        provider = SqliteStateProvider(str(tmp_path / f"store-{number}"))
        shutil.copytree(whole.directory, provider.directory)
        place = tmp_path / f"place-{number}"
        shutil.copytree(tmp_path / "place", place)
        with pytest.MonkeyPatch.context() as patched:
            killed = KilledAtRemoval(patched, number, after=after)
            with suppress(Killed):
                purge(provider, name)
            if killed.left > 0:
                break
        try:
            found = run(provider, name, "count", [], place)
        except StateRegressed:
            refused += 1
        else:
            assert found == Counter(WORDS)
            as_before += 1
        if list(provider.namespaces()):
            purge(provider, name)
        assert list(provider.namespaces()) == []
        assert list(Path(provider.directory).iterdir()) == []
    assert min(refused, as_before) > 1


def test_a_removal_that_is_killed_within_leaves_a_namespace_with_nothing_committed(
    sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path
) -> None:
    run(sqlite_provider, name, "count", WORDS, tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("anchorbolt.state_backends.sqlite.database_file.SqliteFile.remove", _killed)
        with pytest.raises(Killed):
            purge(sqlite_provider, name)
    with pytest.raises(StateRegressed):
        run(sqlite_provider, name, "count", WORDS, tmp_path)
    purge(sqlite_provider, name)
    assert list(sqlite_provider.namespaces()) == []


def _killed(*_: Any) -> None:
    raise Killed


def test_a_topology_that_runs_or_has_a_decided_transaction_is_refused(
    sqlite_provider: SqliteStateProvider, start_words: StartWords, name: str, tmp_path: Path
) -> None:
    spout = FeederSpout(["sentence"], [[("to be",)]])
    handle = start_words(sqlite_provider, spout)
    with pytest.raises(MigrationRefused, match=r"holds the fence|is writing"):
        purge(sqlite_provider, name)
    handle.stop()
    handle.await_termination(60)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("anchorbolt.maintenance.one_transaction.OneTransaction.commit", _killed)
        with pytest.raises(Killed):
            rename_state(sqlite_provider, name, name, "count", "counter")
    with pytest.raises(MigrationRefused, match="open"):
        purge(sqlite_provider, name)
    purge(sqlite_provider, name, take_fence=True)
    assert list(sqlite_provider.namespaces()) == []


def test_a_run_that_starts_meanwhile_keeps_its_state(
    sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path
) -> None:
    run(sqlite_provider, name, "count", WORDS, tmp_path)
    read = read_topology

    def read_before_a_run(*arguments: Any) -> Any:
        snapshot = read(*arguments)
        run(sqlite_provider, name, "count", ["to"], tmp_path)
        return snapshot

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(purging, "read_topology", read_before_a_run)
        with pytest.raises(Fenced):
            purge(sqlite_provider, name)
    assert run(sqlite_provider, name, "count", [], tmp_path)["to"] == 3


def test_another_topology_under_the_same_prefix_is_refused(
    sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path
) -> None:
    run(sqlite_provider, name, "count", WORDS, tmp_path)
    with pytest.raises(MigrationRefused, match="belongs to the topology"):
        purge_topology(sqlite_provider, "other", name)


def test_a_store_that_cannot_remove_namespaces_says_so(
    sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(sqlite_provider, name, "count", WORDS, tmp_path)
    monkeypatch.setattr(SqliteStateStorage, "remove", StateStorage.remove)
    with pytest.raises(ConfigError, match="cannot remove"):
        purge(sqlite_provider, name)
    assert run(sqlite_provider, name, "count", [], tmp_path) == Counter(WORDS)


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_the_state_of_one_bolt_is_deleted_and_it_begins_anew(store: StateProvider, name: str, tmp_path: Path) -> None:
    run(store, name, "count", WORDS, tmp_path)
    accepted = {"topology.state.accept.loss": True}
    run(store, name, "other", ["to"], tmp_path, **accepted)
    with pytest.raises(MigrationRefused):
        purge_component(store, name, name, "none")
    purge_component(store, name, name, "count", dry_run=True)
    purge_component(store, name, name, "count")
    purge_component(store, name, name, "count")  # as after a kill behind its decision
    for index in range(2):
        with closing(store.open(f"{name}:count-{index}")) as storage:
            assert entries(storage) == {}
    with closing(store.open(record_namespace(name))) as storage:
        assert len(DecisionLog(storage).changes()) == 1
    assert run(store, name, "other", ["be"], tmp_path) == {"to": 1, "be": 1}
    assert run(store, name, "count", ["to"], tmp_path, **accepted) == {"to": 1}


def test_the_state_of_one_bolt_is_deleted_whole_or_not_at_all(name: str, tmp_path: Path) -> None:
    whole = SqliteStateProvider(str(tmp_path / "whole"))
    run(whole, name, "count", WORDS, tmp_path / "place")
    for number in range(1, 100):
        provider = SqliteStateProvider(str(tmp_path / f"store-{number}"))
        shutil.copytree(whole.directory, provider.directory)
        shutil.copytree(tmp_path / "place", tmp_path / f"place-{number}")
        with pytest.MonkeyPatch.context() as patched:
            killed = KilledAt(patched, number, after=True)
            with suppress(Killed):
                purge_component(provider, name, name, "count")
            if killed.left > 0:
                break
        found = run(provider, name, "count", [], tmp_path / f"place-{number}")
        assert found in (Counter(WORDS), {})
