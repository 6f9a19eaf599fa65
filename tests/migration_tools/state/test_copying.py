"""State copied from store to store: equal, gone on with, refused where it must be, finished when it was killed."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from anchorbolt.checkpoint.custom import CUSTOM_HEADER
from anchorbolt.checkpoint.location import FolderCopy
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.checkpoint.state import CheckpointState, Phase
from anchorbolt.engine import LocalCluster
from anchorbolt.engine.reports import WaveReport
from anchorbolt.errors import (
    AnchorboltError,
    ConfigError,
    Fenced,
    MigrationRefused,
    StateRegressed,
)
from anchorbolt.faults import FaultPoint, Place, observe
from anchorbolt.files import open_folder
from anchorbolt.migration_tools.copy_steps import claimed
from anchorbolt.migration_tools.copying import copy_namespace, copy_topology
from anchorbolt.migration_tools.digest import Digest
from anchorbolt.migration_tools.topology_reading import NoCopy, read_topology
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.base import Fence, NamespaceHead, StateProvider
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from anchorbolt.testing.conformance_base import committed, entries, new_namespace, staged
from tests.engine.jobs import word_count
from tests.migration_tools.state.conftest import TIMEOUT_S, RunWords, conf_of

FIRST = ["to be or not to be", "that is the question"]
LATER = ["to do", "is to be"]
SERVERS = ["redis", "redis_cluster", pytest.param("hbase", marks=pytest.mark.slow)]


@pytest.fixture
def source(sqlite_provider: SqliteStateProvider) -> SqliteStateProvider:
    return sqlite_provider


@pytest.fixture
def target(tmp_path: Path) -> SqliteStateProvider:
    return SqliteStateProvider(str(tmp_path / "target"))


def contents(provider: StateProvider, name: str) -> dict[str, Any]:
    """Everything that a copy must keep: entries, txid and winner of each namespace, and the record's entries."""
    found = {}
    for namespace in provider.namespaces(f"{name}:"):
        with closing(provider.open(namespace)) as storage:
            head = storage.head()
            if head.codec:
                found[namespace] = head.committed, head.winner, head.codec, entries(storage)
    return found


def _gone_on(first: StateProvider, second: StateProvider, name: str, run_words: RunWords) -> None:
    counted = run_words(first, *FIRST)
    report = copy_topology(first, second, name, name)
    assert contents(second, name) == contents(first, name)
    assert sum(each.entries or 0 for each in report.namespaces) == len(counted.state("count"))
    handle = run_words(second, *LATER)
    assert handle.recovery is not None
    assert counted.recovery is not None
    assert handle.recovery.action == "resumed"
    assert handle.recovery.generation > counted.recovery.generation
    assert handle.state("count") == Counter(" ".join(FIRST + LATER).split())


@pytest.mark.parametrize("store", SERVERS, indirect=True)
def test_a_topology_goes_on_at_another_store(
    source: SqliteStateProvider, store: StateProvider, name: str, run_words: RunWords
) -> None:
    _gone_on(source, store, name, run_words)


@pytest.mark.parametrize("store", SERVERS, indirect=True)
def test_a_topology_goes_on_in_sqlite(
    store: StateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
) -> None:
    _gone_on(store, target, name, run_words)


def test_memory_can_be_copied_from_and_to(
    source: SqliteStateProvider, name: str, run_words: RunWords
) -> None:
    run_words(source, *FIRST)
    memory = MemoryStateProvider()
    copy_topology(source, memory, name, name)
    assert contents(memory, name) == contents(source, name)


def test_the_generation_never_goes_back(
    source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords, tmp_path: Path
) -> None:
    for sentence in FIRST:
        run_words(source, sentence)
    before = FolderCopy(open_folder(str(tmp_path / "checkpoint"))).read()
    copy_topology(source, target, name, name)
    handle = run_words(target, *LATER)
    assert handle.recovery is not None
    assert handle.recovery.generation == 3
    files = sorted(path.name for path in (tmp_path / "checkpoint" / "anchorbolt").iterdir())
    assert files == ["decision-3"]
    assert FolderCopy(open_folder(str(tmp_path / "checkpoint"))).read() != before


def test_a_later_start_at_the_source_is_refused_once_the_target_has_gone_on(
    source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
) -> None:
    run_words(source, *FIRST)
    copy_topology(source, target, name, name)
    run_words(target, *LATER)
    before = contents(source, name)
    with pytest.raises(StateRegressed, match="expected a decision record at txid 3"):
        run_words(source, "never here")
    assert contents(source, name) == before


def test_the_source_is_left_as_it_is(
    source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
) -> None:
    run_words(source, *FIRST)
    before = read_topology(source, name, name)
    copy_topology(source, target, name, name)
    assert read_topology(source, name, name) == before
    assert not read_topology(target, name, name).holds_fence


def test_a_second_copy_compares_and_changes_nothing(
    source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
) -> None:
    run_words(source, *FIRST)
    first = copy_topology(source, target, name, name)
    before = read_topology(target, name, name)
    again = copy_topology(source, target, name, name)
    assert all(each.was_there for each in again.namespaces)
    assert [each.checksum for each in again.namespaces] == [each.checksum for each in first.namespaces]
    assert read_topology(target, name, name) == before


def test_a_dry_run_writes_nothing_anywhere(
    source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
) -> None:
    run_words(source, *FIRST)
    before = read_topology(source, name, name)
    report = copy_topology(source, target, name, name, take_fence=True, dry_run=True)
    assert (report.is_dry_run, len(report.namespaces), report.txid) == (True, 2, 1)
    assert list(target.namespaces()) == []
    assert read_topology(source, name, name) == before


class TestARunThatIsAlive:
    def test_is_noticed_by_its_fence_even_if_it_is_idle(
        self, source: SqliteStateProvider, target: SqliteStateProvider, name: str, tmp_path: Path
    ) -> None:
        spout = FeederSpout(["sentence"], [[("a b",)]])
        conf = {"topology.checkpoint.location": str(tmp_path / "checkpoint"), **conf_of(source)}
        waves: Queue[WaveReport] = Queue()
        topology = word_count(spout, name=name)
        handle = LocalCluster().submit(topology, conf, until_empty=False, on_wave=waves.put)
        waves.get(timeout=TIMEOUT_S)  # from here on it waits for input
        with pytest.raises(MigrationRefused, match="holds the fence"):
            copy_topology(source, target, name, name)
        with pytest.raises(MigrationRefused):
            copy_namespace(source, target, f"{name}:count-0")
        assert list(target.namespaces()) == []
        handle.stop()
        copy_topology(source, target, name, name)
        assert contents(target, name) == contents(source, name)

    def test_ends_fenced_where_its_fence_is_taken(
        self,
        source: SqliteStateProvider,
        target: SqliteStateProvider,
        name: str,
        tmp_path: Path,
        run_words: RunWords,
    ) -> None:
        run_words(source, *FIRST)
        spout = FeederSpout(["sentence"])
        conf = {"topology.checkpoint.location": str(tmp_path / "checkpoint"), **conf_of(source)}
        handle = LocalCluster().submit(word_count(spout, name=name), conf, until_empty=False)
        copy_topology(source, target, name, name, take_fence=True)
        before = contents(source, name)
        spout.feed([("too late",)])
        with pytest.raises(Fenced):
            handle.await_termination(TIMEOUT_S)
        after = contents(source, name)
        assert after == before
        assert contents(target, name) == after

    def test_that_commits_meanwhile_is_noticed_and_no_record_is_written(
        self, source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
    ) -> None:
        run_words(source, *FIRST)

        class Meanwhile:
            def begin(self, what: str, total: int | None) -> None:
                if what == f"comparing {name}:count-1":
                    run_words(source, *LATER)

            def advance(self, entries: int) -> None: ...

        with pytest.raises(MigrationRefused, match="was written to"):
            copy_topology(source, target, name, name, progress=Meanwhile())
        assert read_topology(target, name, name).stored is None
        with pytest.raises(MigrationRefused, match="holds something else"):
            copy_topology(source, target, name, name)
        with pytest.raises(StateRegressed):
            run_words(target)


class _Killed(BaseException):
    pass


class _KillAfter:
    """Kills the copy when so many calls of its progress have been made."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def begin(self, what: str, total: int | None) -> None:
        self._count()

    def advance(self, entries: int) -> None:
        self._count()

    def _count(self) -> None:
        self.calls -= 1
        if self.calls == 0:
            raise _Killed


@pytest.mark.parametrize("store", SERVERS, indirect=True)
def test_a_copy_that_is_killed_anywhere_is_finished_by_a_second_one(
    source: SqliteStateProvider, store: StateProvider, name: str, run_words: RunWords
) -> None:
    run_words(source, *FIRST)
    for calls in range(1, 100):
        try:
            copy_topology(source, store, name, name, progress=_KillAfter(calls))
        except _Killed:
            assert read_topology(store, name, name).stored is None
        else:
            break
    assert calls > 3
    assert contents(store, name) == contents(source, name)


@pytest.mark.parametrize("store", SERVERS, indirect=True)
def test_a_commit_that_is_cut_off_half_applied_is_finished_by_a_second_copy(
    memory_provider: MemoryStateProvider, store: StateProvider
) -> None:
    name = new_namespace()
    items = {b"%d" % number: b"v" for number in range(10_000)}
    with closing(memory_provider.open(name)) as storage:
        committed(storage, list(items.items()))

    def strike(place: Place) -> None:
        if place.point is FaultPoint.SLICE_APPLIED:
            raise _Killed

    before = observe(strike)
    try:
        with pytest.raises(_Killed):
            copy_namespace(memory_provider, store, name)
    finally:
        observe(before)
    with closing(store.open(name)) as target:
        assert target.head().committed == -1
    [copied] = copy_namespace(memory_provider, store, name).namespaces
    assert (copied.entries, copied.was_there) == (10_000, False)
    with closing(store.open(name)) as target:
        assert entries(target) == items


def test_a_custom_state_is_copied_only_where_its_content_was(
    source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
) -> None:
    run_words(source, *FIRST)
    with closing(sqlite3.connect(f"{source.directory}/{name}@count-1.sqlite")) as file, file:
        file.execute("UPDATE bookkeeping SET codec = ?", (CUSTOM_HEADER,))
        file.execute("DELETE FROM entries")
    with pytest.raises(MigrationRefused, match=f"{name}:count-1: beside a custom state"):
        copy_topology(source, target, name, name)
    with pytest.raises(MigrationRefused, match="beside a custom state"):
        copy_namespace(source, target, f"{name}:count-1")
    copy_topology(source, target, name, name, with_custom_states=True)
    assert contents(target, name) == contents(source, name)


def test_a_run_on_half_a_copy_is_refused(
    source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
) -> None:
    run_words(source, *FIRST)
    with pytest.raises(_Killed):
        copy_topology(source, target, name, name, progress=_KillAfter(6))
    assert any(head.committed >= 0 for head in read_topology(target, name, name).heads.values())
    with pytest.raises(StateRegressed):
        run_words(target)


def test_a_copy_that_was_overtaken_by_another_is_fenced_off(
    source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
) -> None:
    run_words(source, *FIRST)

    class Overtaken:
        begun = False

        def begin(self, what: str, total: int | None) -> None:
            if not self.begun:
                self.begun = True
                copy_topology(source, target, name, name)

        def advance(self, entries: int) -> None: ...

    with pytest.raises(Fenced):
        copy_topology(source, target, name, name, progress=Overtaken())
    assert contents(target, name) == contents(source, name)


class TestASource:
    def test_that_was_killed_in_a_wave_is_refused_until_it_was_started_again(
        self,
        source: SqliteStateProvider,
        target: SqliteStateProvider,
        name: str,
        run_words: RunWords,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(CheckpointSpout, "let_go", lambda self, fence: None)  # as after a kill
            run_words(source, *FIRST)
        with closing(source.open(f"{name}:count-0")) as storage:
            head = storage.head()
            staged(storage, [(b"x", b"y")], fence=head.fence, txid=2, base=head.committed, codec=head.codec)
        with pytest.raises(MigrationRefused, match="holds the fence"):
            copy_topology(source, target, name, name)
        run_words(source)
        copy_topology(source, target, name, name)
        assert contents(target, name) == contents(source, name)

    def test_with_a_decided_transaction_is_refused_even_if_the_fence_is_taken(
        self, source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
    ) -> None:
        run_words(source, *FIRST)
        with closing(source.open(f"{name}:$checkpointspout-0")) as storage:
            fence = storage.claim()

            spout = CheckpointSpout(storage, NoCopy())
            record, _ = spout.load()
            assert record is not None
            spout.write(fence, replace(record, state=CheckpointState(record.txid, Phase.COMMITTING)))
        with pytest.raises(MigrationRefused, match=r"a transaction of .* is open"):
            copy_topology(source, target, name, name, take_fence=True)

    def test_without_such_a_topology_is_refused(
        self, source: SqliteStateProvider, target: SqliteStateProvider
    ) -> None:
        with pytest.raises(MigrationRefused, match="no decision record of topology 'none'"):
            copy_topology(source, target, "none", "none")

    def test_that_is_the_target_is_refused(self, source: SqliteStateProvider, name: str) -> None:
        with pytest.raises(ConfigError, match="the same"):
            copy_topology(source, SqliteStateProvider(source.directory), name, name)


class TestATarget:
    def test_that_has_a_run_of_its_own_is_refused_and_not_fenced(
        self, source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
    ) -> None:
        run_words(source, *FIRST)
        run_words(target, "other", **{"topology.checkpoint.location": f"{target.directory}/checkpoint"})
        before = read_topology(target, name, name)
        with pytest.raises(MigrationRefused):
            copy_topology(source, target, name, name)
        assert read_topology(target, name, name) == before

    def test_that_holds_something_else_under_a_name_is_refused(
        self, source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
    ) -> None:
        run_words(source, *FIRST)
        with closing(target.open(f"{name}:count-1")) as storage:
            committed(storage, [(b"a", b"b")])
        with pytest.raises(MigrationRefused, match=f"something else as {name}:count-1"):
            copy_topology(source, target, name, name)
        with closing(target.open(f"{name}:$checkpointspout-0")) as storage:
            assert storage.head() == NamespaceHead()


def test_one_namespace_is_copied_and_a_copy_of_it_compared(
    memory_provider: MemoryStateProvider, target: SqliteStateProvider
) -> None:
    name = new_namespace()
    items = {b"%d" % number: b"v" * (number % 7) for number in range(5000)}
    with closing(memory_provider.open(name)) as storage:
        committed(storage, list(items.items()))
        head = storage.head()
    [copied] = copy_namespace(memory_provider, target, name).namespaces
    with closing(target.open(name)) as storage:
        assert entries(storage) == items
        assert (storage.head().committed, storage.head().winner) == (head.committed, head.winner)
    assert copied.entries == 5000
    [again] = copy_namespace(memory_provider, target, name).namespaces
    assert again.was_there
    with closing(target.open(name)) as storage:
        attempt = staged(storage, [(b"0", b"damaged")], fence=Fence(9, 0), txid=1, base=0)
        storage.commit(Fence(9, 0), 1, attempt)
    with pytest.raises(MigrationRefused, match="holds something else"):
        copy_namespace(memory_provider, target, name)


def test_a_difference_between_both_sides_is_found(
    source: SqliteStateProvider, name: str, run_words: RunWords
) -> None:
    run_words(source, *FIRST)
    memory = MemoryStateProvider()
    copy_topology(source, memory, name, name)
    memory._namespaces[f"{name}:count-0"].entries[b"more"] = b""
    with pytest.raises(MigrationRefused, match="is not equal"):
        copy_topology(source, memory, name, name)


def test_a_namespace_without_entries_is_copied(
    memory_provider: MemoryStateProvider, target: SqliteStateProvider
) -> None:
    name = new_namespace()
    with closing(memory_provider.open(name)) as storage:
        committed(storage, [])
    copy_namespace(memory_provider, target, name)
    with closing(target.open(name)) as storage:
        assert storage.head().committed == 0
        assert entries(storage) == {}


def test_what_is_too_large_for_the_target_is_said_before_anything_is_committed(
    memory_provider: MemoryStateProvider, redis_provider: Any
) -> None:
    name = new_namespace()
    with closing(memory_provider.open(name)) as storage:
        committed(storage, [(b"a", b"x" * 2000)])
    small = type(redis_provider)(redis_provider.host, redis_provider.port, largest_value=1000)
    with pytest.raises(MigrationRefused, match=r"2,000 bytes; the target takes .* 1,000"):
        copy_namespace(memory_provider, small, name)


def test_a_decision_record_is_not_copied_alone(
    source: SqliteStateProvider, target: SqliteStateProvider
) -> None:
    with pytest.raises(MigrationRefused, match="naming the topology"):
        copy_namespace(source, target, "t:$checkpointspout-0")


def test_no_two_copies_claim_the_same_generation(memory_provider: MemoryStateProvider) -> None:
    with closing(memory_provider.open("t:$checkpointspout-0")) as storage:
        assert claimed(storage, 7) == (7, 0)
        assert claimed(storage, 7) == (8, 0)


def test_a_digest_does_not_depend_on_order_and_pages_and_sees_every_difference() -> None:
    items = [(b"a", b"1"), (b"b", b"2"), (b"", b"")]
    whole = Digest().plus(items)
    assert Digest().plus(items[::-1]) == whole == Digest().plus(items[:1]).plus(items[1:])
    others = [
        [*items, items[0], items[0]],
        items[:2],
        [(b"a1", b""), *items[1:]],
        [(b"a", b"2"), (b"b", b"1"), items[2]],
    ]
    assert all(Digest().plus(other) != whole for other in others)


def test_errors_of_a_store_come_through(source: SqliteStateProvider, name: str, run_words: RunWords) -> None:
    run_words(source, "a")
    nowhere = SqliteStateProvider("/proc/nowhere")
    with pytest.raises(AnchorboltError, match="/proc/nowhere"):
        copy_topology(source, nowhere, name, name)
