"""State copied from store to store: equal, gone on with, refused where it must be, finished when it was killed."""

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision_log import FolderCopy
from anchorbolt.errors import MigrationRefused, StateRegressed
from anchorbolt.files import open_folder
from anchorbolt.migration_tools.copy import copy_namespace
from anchorbolt.migration_tools.copy_steps import Digest, claimed
from anchorbolt.serialization import pack
from anchorbolt.state_backends.contract import Fence, StateProvider
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.testing.conformance.base import entries, staged
from anchorbolt.util.keys import canonical_key
from tests.migration_tools.conftest import HEADER, RunWords, put
from tests.migration_tools.copy.conftest import FIRST, LATER, SERVERS, Job


@pytest.mark.parametrize("store", SERVERS, indirect=True)
@pytest.mark.parametrize("at_store", [True, False], ids=["to", "from"])
def test_a_topology_goes_on_at_another_store(
    at_store: bool, store: StateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
) -> None:
    job = Job(target, store, name, run_words) if at_store else Job(store, target, name, run_words)
    counted = run_words(job.source, *FIRST)
    report = job.copy()
    assert job.is_copied()
    assert sum(each.entries or 0 for each in report.namespaces) == len(counted.state("count"))
    handle = run_words(job.target, *LATER)
    assert handle.recovery.action == "resumed"
    assert handle.recovery.generation > counted.recovery.generation
    assert handle.state("count") == Counter(" ".join(FIRST + LATER).split())


def test_the_generation_never_goes_back(job: Job, tmp_path: Path) -> None:
    job.run(job.source, "a later generation")
    location = open_folder(str(tmp_path / "checkpoint"))
    before = FolderCopy(location).read()
    job.copy()
    handle = job.run(job.target, *LATER)
    assert handle.recovery.generation == 3
    assert sorted(location.names("anchorbolt")) == ["decision-3", "history"]
    assert FolderCopy(location).read() != before


def test_a_later_start_at_the_source_is_refused_once_the_target_has_gone_on(job: Job) -> None:
    job.copy()
    job.run(job.target, *LATER)
    before = job.contents(job.source)
    with pytest.raises(StateRegressed, match="expected a decision record at txid 3"):
        job.run(job.source, "never here")
    assert job.contents(job.source) == before


def test_the_source_is_left_as_it_is_and_a_second_copy_only_compares(job: Job) -> None:
    source = job.read(job.source)
    first = job.copy()
    assert job.read(job.source) == source
    target = job.read(job.target)
    assert not target.holds_fence
    again = job.copy()
    assert all(each.was_there for each in again.namespaces)
    assert [each.checksum for each in again.namespaces] == [each.checksum for each in first.namespaces]
    assert job.read(job.target) == target


def test_a_dry_run_writes_nothing_anywhere(job: Job) -> None:
    before = job.read(job.source)
    report = job.copy(take_fence=True, dry_run=True)
    assert (report.is_dry_run, len(report.namespaces), report.txid) == (True, 2, 1)
    assert list(job.target.namespaces()) == []
    assert job.read(job.source) == before


def test_a_custom_state_is_copied_only_where_its_content_was(job: Job, source: SqliteStateProvider) -> None:
    with closing(sqlite3.connect(f"{source.directory}/{job.name}@count-1.sqlite")) as file, file:
        file.execute("UPDATE metadata SET codec = ?, entries = 0", (CUSTOM_HEADER,))
        file.execute("DELETE FROM entries")
    assert job.refuses(f"{job.name}:count-1: .*custom state")
    with pytest.raises(MigrationRefused, match="custom state"):
        copy_namespace(source, job.target, f"{job.name}:count-1")
    job.copy(with_custom_states=True)
    assert job.is_copied()


def test_memory_can_be_copied_to_and_a_later_difference_is_found(job: Job) -> None:
    memory = MemoryStateProvider()
    job = replace(job, target=memory)
    job.copy()
    assert job.is_copied()
    memory._namespaces[f"{job.name}:count-0"].entries[b"more"] = b""
    assert job.refuses("is not equal")


def test_one_namespace_is_copied_and_a_copy_of_it_compared(
    memory_provider: MemoryStateProvider, target: SqliteStateProvider
) -> None:
    items = {b"%d" % number: b"v" * (number % 7) for number in range(5000)}
    name = put(memory_provider, list(items.items()))
    with closing(memory_provider.open(name)) as storage:
        head = storage.head()
    [copied] = copy_namespace(memory_provider, target, name).namespaces
    with closing(target.open(name)) as storage:
        assert entries(storage) == items
        assert (storage.head().committed, storage.head().winner) == (head.committed, head.winner)
    assert copied.entries == 5000
    [again] = copy_namespace(memory_provider, target, name).namespaces
    assert again.was_there
    with closing(target.open(name)) as storage:
        attempt = staged(storage, [(b"0", b"damaged")], fence=Fence(9, 0), txid=1, base=0, codec=HEADER)
        storage.commit(Fence(9, 0), 1, attempt)
    with pytest.raises(MigrationRefused, match="other data"):
        copy_namespace(memory_provider, target, name)


def test_a_namespace_without_entries_is_copied(
    memory_provider: MemoryStateProvider, target: SqliteStateProvider
) -> None:
    name = put(memory_provider, [])
    copy_namespace(memory_provider, target, name)
    with closing(target.open(name)) as storage:
        assert storage.head().committed == 0
        assert entries(storage) == {}


def test_what_is_too_large_for_the_target_is_said_before_anything_is_committed(
    memory_provider: MemoryStateProvider, redis_provider: Any
) -> None:
    name = put(memory_provider, [(b"a", b"x" * 2000)])
    small = type(redis_provider)(redis_provider.host, redis_provider.port, largest_value=1000)
    with pytest.raises(MigrationRefused, match=r"2,000 bytes; the target takes .* 1,000"):
        copy_namespace(memory_provider, small, name)


def test_a_decision_record_is_not_copied_alone(source: SqliteStateProvider, target: SqliteStateProvider) -> None:
    with pytest.raises(MigrationRefused, match="decision record"):
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


OLDER = "keys msgpack/1, values msgpack/1"


def test_the_keys_of_an_older_namespace_are_rewritten(target: SqliteStateProvider) -> None:
    source = MemoryStateProvider()
    keys: list[Any] = ["a", 1, -0.0, Decimal("1.50"), ("b", Decimal("2.0"))]
    namespace = put(source, [(pack(key), pack(number)) for number, key in enumerate(keys)], OLDER)
    report = copy_namespace(source, target, namespace)
    assert copy_namespace(source, target, namespace).namespaces[0].was_there
    assert report.namespaces[0].entries == 5
    with closing(target.open(namespace)) as storage:
        assert storage.head().codec == HEADER
        assert entries(storage) == {pack(canonical_key(key)): pack(number) for number, key in enumerate(keys)}


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("other", [Decimal("1.50"), Decimal("1.5")], ids=["both rewritten", "one rewritten"])
def test_a_key_that_was_stored_twice_is_refused_and_named(
    first: int, other: Decimal, target: SqliteStateProvider
) -> None:
    source = MemoryStateProvider()
    keys = [Decimal("1.500"), *(f"{number}" for number in range(3000)), other]
    namespace = put(source, [(pack(key), pack(1)) for key in (keys if first else keys[::-1])], OLDER)
    with pytest.raises(MigrationRefused, match=r"Decimal\('1.5'\)"):
        copy_namespace(source, target, namespace)
    with closing(target.open(namespace)) as storage:
        assert storage.head().committed == -1
