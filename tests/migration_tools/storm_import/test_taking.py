"""State of real Storm, taken into a topology of Anchorbolt."""

from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import redis

from anchorbolt.errors import MigrationRefused
from anchorbolt.migration_tools.storm_state import StormOptions
from anchorbolt.migration_tools.storm_tasks import Recovered, StormCheckpoint, StormTask, recovered
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.redis.provider import RedisClusterStateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.testing import LocalCluster
from tests.engine.jobs import word_count
from tests.migration_tools.conftest import ALL, conf_of
from tests.migration_tools.storm_data import C_ABSENT, storm_1_2, string
from tests.migration_tools.storm_import.conftest import (
    COMMITTED,
    OPTIONS,
    SPOUT,
    WORD_COUNTS,
    Load,
    Storm,
    contents,
    imported,
    is_empty,
    merged,
    numbers,
    spout,
    stated,
    txids,
)
from tests.servers.redis_cluster import RedisCluster
from tests.support.storm_fixtures import Dump, dumps


@pytest.mark.parametrize("dump", WORD_COUNTS, ids=str)
def test_a_word_count_of_every_release_is_taken_as_it_is_stated(
    storm: StateProvider, load: Load, target: SqliteStateProvider, dump: Dump
) -> None:
    load(dump.hashes)
    with pytest.raises(MigrationRefused, match="twice in types-8"):  # Integer 1 and Long 1
        imported(storm, target, components={"types": "types"})
    report = imported(storm, target, parallelism={"count": 5})
    assert (report.txid, report.rolls_forward, report.was_there) == (5, True, False)
    counts = stated(dump, "count-3") | stated(dump, "count-4")
    assert merged(target) == counts
    [bolt] = report.bolts
    assert (bolt.storm_tasks, bolt.tasks, bolt.entries) == (("count-3", "count-4"), 5, len(counts))
    before = contents(target)
    assert imported(storm, target, parallelism={"count": 5}).was_there
    assert contents(target) == before


WITHOUT_PLAIN_FORM = {"checkpointstate-1", "checkpointstate-2", "pojo-1", "pojo-2", "nested-2"}
MUTABLE_KEYS = {"arraylist-2", "hashmap-2", "mixed-1"}
KEYS_EQUAL_IN_PYTHON = {"double-2", "float-2"}
UNDECIDED = {"firstprepare-1", "merged-1", "plaincommit-1", "prepared-1", "strandedtombstone-1"}
REFUSED = WITHOUT_PLAIN_FORM | MUTABLE_KEYS | KEYS_EQUAL_IN_PYTHON | UNDECIDED


@pytest.mark.slow
@pytest.mark.parametrize("dump", [each for each in dumps() if "mixed-1" in each.expected], ids=str)
def test_every_namespace_of_every_release_is_taken_as_it_is_stated_or_refused(
    storm: StateProvider, load: Load, dump: Dump
) -> None:
    for name, expected in dump.expected.items():
        hashes = {each: dump.hashes.get(each, {}) for each in (name, f"{name}$prepare", f"{name}$txid")}
        load(hashes)
        config = expected.get("provider_config", {})
        of_keys, of_values = ([config[key]] if config.get(key) else [] for key in ("keyClass", "valueClass"))
        options = StormOptions(of_keys, of_values, OPTIONS.enums, None, dump.generation)
        target = MemoryStateProvider()
        components = {"count": name.rpartition("-")[0]}
        if name in REFUSED:
            with pytest.raises(MigrationRefused):
                imported(storm, target, components=components, options=options)
            assert is_empty(target), name
        else:
            imported(storm, target, components=components, options=options)
            found, wanted = merged(target), stated(dump, name, rolls_forward=False)
            assert shown(found) == shown(wanted), name
        load({key: {} for key in hashes})


def shown(items: dict[Any, Any]) -> list[str]:
    """Entries for a comparison in which NaN is equal to itself, and a Decimal as key has no zeros at its end."""
    return sorted(repr((key.normalize() if isinstance(key, Decimal) else key, value)) for key, value in items.items())


def test_state_in_a_cluster_is_taken(empty_redis_cluster: RedisCluster, target: SqliteStateProvider) -> None:
    host, _, port = empty_redis_cluster.nodes[0].partition(":")
    dump = WORD_COUNTS[-1]
    with closing(redis.RedisCluster(host=host, port=int(port))) as client:
        for name, fields in dump.hashes.items():
            client.hset(name, mapping=dict[Any, Any](fields))
    imported(RedisClusterStateProvider(tuple(empty_redis_cluster.nodes)), target)
    assert merged(target) == stated(dump, "count-3") | stated(dump, "count-4")


@pytest.mark.parametrize("place", ["redis_database"], indirect=True)
@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_a_topology_counts_on_with_another_parallelism(
    storm: StateProvider, load: Load, store: StateProvider, tmp_path: Path
) -> None:
    load(WORD_COUNTS[0].hashes)
    imported(storm, store, parallelism={"count": 3})
    before = merged(store)
    conf = {"topology.checkpoint.location": str(tmp_path / "place"), **conf_of(store)}
    for _ in range(2):
        sentences = FeederSpout(["sentence"], [[("apple to be",)], [("apple",)]])
        handle = LocalCluster().submit(word_count(sentences, name="words", parallelism=3), conf)
        assert handle.await_termination(60)
    assert handle.recovery.txid == 7
    assert handle.state("count") == before | {
        word: before.get(word, 0) + added for word, added in (("apple", 4), ("to", 2), ("be", 2))
    }


def test_what_a_committing_topology_had_prepared_counts(
    storm: StateProvider, topology: Storm, target: SqliteStateProvider
) -> None:
    topology.put(
        spout=spout("COMMITTING", 5),
        count_3__prepare={**storm_1_2(numbers(one=10, six=6)), string("two"): C_ABSENT},
        count_3__txid=txids(4, 5),
        count_4__txid=txids(5, 5),
    )
    report = imported(storm, target)
    assert (report.txid, report.rolls_forward) == (5, True)
    assert merged(target) == {"one": 10, "six": 6, "four": 4, "five": 5}


def test_what_a_preparing_topology_had_prepared_does_not_count(
    storm: StateProvider, topology: Storm, target: SqliteStateProvider
) -> None:
    topology.put(
        spout=spout("PREPARING", 5),
        count_3__prepare={**storm_1_2(numbers(one=10, six=6)), string("two"): C_ABSENT},
        count_3__txid=txids(4, 5),
    )
    report = imported(storm, target)
    assert (report.txid, report.rolls_forward) == (4, False)
    assert merged(target) == COMMITTED


def test_a_tombstone_that_storm_left_in_the_committed_entries_is_no_entry(
    storm: StateProvider, topology: Storm, target: SqliteStateProvider
) -> None:
    topology.put(count_3={**storm_1_2(numbers(one=1)), string("two"): C_ABSENT})
    imported(storm, target)
    assert merged(target) == {"one": 1, "four": 4, "five": 5}


def task(committed: int | None, prepared: int | None, prepared_entries: int = 0) -> StormTask:
    return StormTask("count-3", committed, prepared, 1, prepared_entries)


@pytest.mark.parametrize(
    ("state", "txid", "tasks", "outcome"),
    [
        ("COMMITTED", 4, [task(4, 4), task(None, None)], Recovered(4, False)),
        ("COMMITTED", 0, [task(None, 0)], Recovered(0, False)),  # Storm leaves this behind a rollback of its first
        ("COMMITTED", -1, [task(None, None)], None),
        ("COMMITTED", 4, [task(4, 5, 1)], None),
        ("COMMITTED", 4, [task(4, 4), task(2, 2)], None),
        ("COMMITTING", 5, [task(4, 5, 1), task(5, 5, 1), task(5, 5)], Recovered(5, True)),
        ("COMMITTING", 0, [task(None, 0, 1)], Recovered(0, True)),
        ("COMMITTING", 5, [task(4, 5, 1), task(4, 4)], None),
        ("COMMITTING", 5, [task(4, 5, 1), task(6, 6)], None),
        ("PREPARING", 5, [task(4, 5, 1), task(4, 4)], Recovered(4, False)),
        ("PREPARING", 0, [task(None, 0, 1)], None),
        ("PREPARING", 5, [task(5, 5)], None),
        (None, 0, [task(4, 4), task(4, 4)], Recovered(4, False)),
        (None, 0, [task(4, 4), task(5, 5)], None),
        (None, 0, [task(4, 5, 1)], None),
        (None, 0, [task(None, None)], None),
    ],
)
def test_the_transaction_is_that_of_storms_recovery(
    state: str | None, txid: int, tasks: list[StormTask], outcome: Recovered | None
) -> None:
    checkpoint = None if state is None else StormCheckpoint(SPOUT, txid, state)
    if outcome is None:
        with pytest.raises(MigrationRefused):
            recovered(tasks, checkpoint)
    else:
        assert recovered(tasks, checkpoint) == outcome


def test_several_bolts_are_taken_in_one_transaction_into_the_store_that_storm_used(
    storm: StateProvider, topology: Storm
) -> None:
    topology.put(total_11=storm_1_2(numbers(all=12)), total_11__txid=txids(4, 4))
    imported(storm, storm, components={"count": "count", "sum": "total"}, parallelism={"sum": 2})
    assert (merged(storm), merged(storm, "sum")) == (COMMITTED, {"all": 12})
    assert imported(storm, storm, components={"count": "count", "sum": "total"}, parallelism={"sum": 2}).was_there
    with pytest.raises(MigrationRefused):
        imported(storm, storm)
