"""The states of a topology in two stores compared."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.errors import StateError
from anchorbolt.migration_tools.comparing import Difference, Side, differences
from anchorbolt.migration_tools.copy import copy_topology
from anchorbolt.migration_tools.repairing import delete_entries, put_entry
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from tests.migration_tools.conftest import ALL, MSGPACK
from tests.migration_tools.test_rescaling import WORDS, Job, Reminds


def compared(source: StateProvider, target: StateProvider, name: str, *components: str, now: int = 0) -> list[Any]:
    here, there = (Side(provider, name, name, MSGPACK) for provider in (source, target))
    found = list(differences(here, there, components, now=now))
    assert {each.component for each in found} <= {"count"}
    return sorted(map(plain, found))


def plain(found: Difference) -> tuple[Any, ...]:
    entry = found.here or found.there
    assert entry is not None
    values = (each and each.value and each.value.value for each in (found.here, found.there))
    return entry.key.value, *values


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
@pytest.mark.parametrize("tasks", [2, 5])
def test_a_copy_is_the_same_until_one_side_changes(
    store: StateProvider, target: SqliteStateProvider, name: str, tmp_path: Path, tasks: int
) -> None:
    job = Job(target, name, tmp_path / "place")
    job.run(WORDS, 2)
    copy_topology(target, store, name, name)
    if tasks != 2:
        job.rescale(tasks)
    assert compared(target, store, name) == []
    for key, value in (("be", 40), ("new", [1])):
        put_entry(target, name, name, "count", key, value, MSGPACK, now=0)
    delete_entries(target, name, name, "count", ["or"], MSGPACK, now=0)
    counts = Counter(WORDS)
    expected = [("be", 40, counts["be"]), ("new", [1], None), ("or", None, counts["or"])]
    assert compared(target, store, name) == expected
    assert compared(store, target, name, "count") == [(key, there, here) for key, here, there in expected]


def test_stores_of_two_formats_are_compared_by_their_values(
    source: SqliteStateProvider, target: SqliteStateProvider, name: str, tmp_path: Path
) -> None:
    Job(source, name, tmp_path / "place").run(WORDS, 2)
    serializers = {"keySerializerClass": "json", "valueSerializerClass": "json"}
    in_json: dict[str, Any] = {"topology.state.provider.config": {"directory": target.directory, **serializers}}
    Job(target, name, tmp_path / "other").run([*WORDS, "be", "new"], 3, **in_json)
    be = WORDS.count("be")
    assert compared(source, target, name) == [("be", be, be + 1), ("new", None, 1)]


def test_due_times_are_compared_and_expired_entries_are_absent(
    source: SqliteStateProvider, target: SqliteStateProvider, name: str, tmp_path: Path
) -> None:
    job = Job(source, name, tmp_path / "place")
    job.run(["be", "to"], 2, Reminds())
    copy_topology(source, target, name, name)
    put_entry(source, name, name, "count", "be", 1, MSGPACK, now=0)
    assert compared(source, target, name) == [("be", 1, 1)]
    assert compared(source, target, name, now=100_000) == [("be", 1, None)]


def test_what_cannot_be_compared_is_refused(
    source: SqliteStateProvider, target: SqliteStateProvider, name: str, tmp_path: Path
) -> None:
    job = Job(source, name, tmp_path / "place")
    job.run(WORDS, 2)
    with pytest.raises(StateError):
        compared(source, target, name)
    copy_topology(source, target, name, name)
    with pytest.raises(StateError, match="count"):
        compared(source, target, name, "cuont")
    here, there = (Side(provider, name, name, MSGPACK) for provider in (source, target))
    reading = differences(here, there, now=0)
    put_entry(source, name, name, "count", "be", 1, MSGPACK, now=0)
    next(reading)
    put_entry(source, name, name, "count", "be", 2, MSGPACK, now=0)
    with pytest.raises(StateError):
        list(reading)
