"""State of real Storm, taken into a topology of Anchorbolt: whole, or not at all."""

import base64
import datetime as dt
import math
import shutil
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from anchorbolt.errors import AnchorboltError, ConfigError, MigrationRefused, StateCorrupted, StateError
from anchorbolt.migration_tools import Progress, storm_import_steps
from anchorbolt.migration_tools.copy import copy_topology
from anchorbolt.migration_tools.storm_import import StormImportReport, import_storm_state
from anchorbolt.migration_tools.storm_state import StormOptions
from anchorbolt.migration_tools.storm_tasks import Recovered, StormCheckpoint, StormTask, recovered
from anchorbolt.migration_tools.topology_inspection import read_topology
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.redis.provider import RedisClusterStateProvider, RedisStateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.storm.wrapper import Generation
from anchorbolt.streams.hashing import destination_of, stable_hash
from anchorbolt.testing import LocalCluster
from anchorbolt.testing.conformance.base import entries
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import StatefulBolt, word_count
from tests.migration_tools.conftest import ALL, MSGPACK, Killed, KilledAt, conf_of
from tests.migration_tools.storm_data import C_ABSENT, Entries, integer, storm_1_0, storm_1_1, storm_1_2, string, words
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.support.storm_fixtures import Dump, dumps

OPTIONS = StormOptions((), (), {"anchorfix.Colour": ["RED", "GREEN", "BLUE"]}, None, None)
WORD_COUNTS = [each for each in dumps() if each.name.endswith("wordcount")]
SPOUT = "$checkpointspout-1"

Load = Callable[[Mapping[str, Mapping[bytes, bytes]]], None]


@pytest.fixture
def storm(redis_database: RedisServer) -> RedisStateProvider:
    """The Redis with Storm's state."""
    return RedisStateProvider(host=redis_database.host, port=redis_database.port)


@pytest.fixture
def load(redis_database: RedisServer) -> Iterator[Load]:
    """Write hashes into Storm's Redis."""
    with redis_database.client() as client:

        def loaded(hashes: Mapping[str, Mapping[bytes, bytes]]) -> None:
            for name, fields in hashes.items():
                client.delete(name)
                if fields:
                    client.hset(name, mapping=dict(fields))

        yield loaded


def txids(committed: int | None, prepared: int | None) -> dict[bytes, bytes]:
    numbers = {b"commit": committed, b"prepare": prepared}
    return {field: b"%d" % number for field, number in numbers.items() if number is not None}


def spout(state: str, txid: int, generation: str = "1.2") -> dict[bytes, bytes]:
    """The hash of a checkpoint spout: that of real Storm, with another transaction."""
    ordinal = {"COMMITTED": 0, "COMMITTING": 1, "PREPARING": 2}[state]
    dump = next(each for each in WORD_COUNTS if each.generation.value == generation)
    [(field, stored)] = dump.hashes[SPOUT].items()
    assert stored.endswith(b"\x02\x0a")  # the ordinal + 1 of COMMITTING, and 5
    return {field: stored[:-2] + bytes([ordinal + 1, 2 * txid])}


def python(form: dict[str, Any]) -> Any:
    """The plain value of a stated form."""
    tag, value = form["t"], form.get("v")
    if tag in ("int", "long", "short", "byte", "biginteger"):
        return int(value)
    if tag in ("float", "double"):
        return struct.unpack(">f" if tag == "float" else ">d", bytes.fromhex(form["bits"]))[0]
    if tag in ("list", "array"):
        return list(map(python, value))
    simple: dict[str, Callable[[], Any]] = {
        "null": lambda: None,
        "bytes": lambda: base64.b64decode(value),
        "bigdecimal": lambda: Decimal(value),
        "date": lambda: dt.datetime.fromtimestamp(0, dt.timezone.utc) + dt.timedelta(milliseconds=int(value)),
        "uuid": lambda: uuid.UUID(value),
        "set": lambda: set(map(python, value)),
        "map": lambda: {python(key): python(one) for key, one in value},
        "optional": lambda: python(value) if form["present"] else None,
    }
    return simple[tag]() if tag in simple else value


def stated(dump: Dump, namespace: str, *, rolls_forward: bool = True) -> dict[Any, Any]:
    """What a namespace holds for Storm's next start, as the fixture states it."""
    expected = dump.expected[namespace]
    pairs = [*expected["entries"], *((expected["prepare"] or ()) if rolls_forward else ())]
    found = {str(key): (python(key), value) for key, value in pairs}
    return {key: python(value) for key, value in found.values() if value["t"] != "tombstone"}


def contents(provider: StateProvider, topology: str = "words") -> dict[str, dict[Any, Any]]:
    """The decoded entries of each namespace of a topology."""
    found = {}
    for name in provider.namespaces(f"{topology}:"):
        with closing(provider.open(name)) as storage:
            if "$" not in name:
                decode = MSGPACK.keys.decode, MSGPACK.values.decode
                found[name] = {decode[0](key): decode[1](value) for key, value in entries(storage).items()}
    return found


def merged(provider: StateProvider, component: str = "count") -> dict[Any, Any]:
    """All entries of a bolt; each must be in the task of its key."""
    tasks = {name: items for name, items in contents(provider).items() if name.startswith(f"words:{component}-")}
    for name, items in tasks.items():
        assert {f"words:{component}-{destination_of(stable_hash(key), len(tasks))}" for key in items} <= {name}
    return {key: value for items in tasks.values() for key, value in items.items()}


def imported(source: StateProvider, target: StateProvider, **options: Any) -> StormImportReport:
    named = {"components": {"count": "count"}, "options": OPTIONS, "codecs": MSGPACK, **options}
    return import_storm_state(source, target, "words", "words", **named)


def is_empty(provider: StateProvider) -> bool:
    snapshot = read_topology(provider, "words", "words")
    return snapshot.stored is None and all(head.committed < 0 for head in snapshot.heads.values())


@pytest.mark.parametrize("dump", WORD_COUNTS, ids=str)
def test_a_word_count_of_every_release_is_taken_as_it_is_stated(
    storm: RedisStateProvider, load: Load, target: SqliteStateProvider, dump: Dump
) -> None:
    load(dump.hashes)
    components = {"count": "count", "types": "types"}
    report = imported(storm, target, components=components, parallelism={"count": 5})
    assert (report.txid, report.rolls_forward, report.was_there) == (5, True, False)
    counts = stated(dump, "count-3") | stated(dump, "count-4")
    assert merged(target) == counts
    [found], expected = (each.items() for each in ({0: merged(target, "types")}, stated(dump, "types-8")))
    assert repr(sorted(found[1].items(), key=repr)) == repr(sorted(expected, key=repr))
    assert [(bolt.component, bolt.tasks, bolt.entries) for bolt in report.bolts] == [
        ("count", 5, len(counts)),
        ("types", 1, len(expected)),
    ]
    assert imported(storm, target, components=components, parallelism={"count": 5}).was_there


def test_state_in_a_cluster_is_taken(empty_redis_cluster: RedisCluster, target: SqliteStateProvider) -> None:
    host, _, port = empty_redis_cluster.nodes[0].partition(":")
    dump = WORD_COUNTS[-1]
    with closing(redis.RedisCluster(host=host, port=int(port))) as client:
        for name, fields in dump.hashes.items():
            client.hset(name, mapping=fields)
    imported(RedisClusterStateProvider(tuple(empty_redis_cluster.nodes)), target)
    assert merged(target) == stated(dump, "count-3") | stated(dump, "count-4")


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_a_topology_counts_on_with_another_parallelism(
    storm: RedisStateProvider, load: Load, store: StateProvider, tmp_path: Path
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


def numbers(**named: int) -> Entries:
    return {string(word): integer(number) for word, number in named.items()}


class Storm:
    """A topology of Storm 1.2 with two tasks of `count`."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.hashes: dict[str, dict[bytes, bytes]] = {
            SPOUT: spout("COMMITTED", 4),
            "count-3": storm_1_2(numbers(one=1, two=2)),
            "count-4": storm_1_2(numbers(four=4, five=5)),
            "count-3$txid": txids(4, 4),
            "count-4$txid": txids(4, 4),
        }
        self.put()

    def put(self, **more: dict[bytes, bytes]) -> None:
        """Replace hashes: `count_3__prepare` for `count-3$prepare`, `spout` for that of the checkpoint spout."""
        for name, fields in more.items():
            self.hashes[SPOUT if name == "spout" else name.replace("__", "$").replace("_", "-")] = fields
        self.load(self.hashes)


@pytest.fixture
def topology(load: Load) -> Storm:
    return Storm(load)


COMMITTED = {"one": 1, "two": 2, "four": 4, "five": 5}


def test_what_a_committing_topology_had_prepared_counts(
    storm: RedisStateProvider, topology: Storm, target: SqliteStateProvider
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
    storm: RedisStateProvider, topology: Storm, target: SqliteStateProvider
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
    storm: RedisStateProvider, topology: Storm, target: SqliteStateProvider
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


def test_a_key_of_two_tasks_is_refused_with_both(
    storm: RedisStateProvider, topology: Storm, target: SqliteStateProvider
) -> None:
    topology.put(count_4=storm_1_2(numbers(four=4, two=2)))
    with pytest.raises(MigrationRefused, match=r"'two' .* count-3 .* count-4"):
        imported(storm, target)
    assert is_empty(target)


LIST = b"\x01\x00java.util.ArrayLis\xf4\x01\x01\x02\x02"  # of the int 1
POJO = b"\x01\x00com.acme.\xd8\x01\x02"


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ({string("two"): POJO}, "com.acme.X"),
        ({POJO: integer(2)}, "com.acme.X"),
        ({LIST: integer(2)}, r"\[1\]"),
        ({string("two"): b"\x03\x01\x84\xed\xa0\x80"}, "two"),  # a lone surrogate
        ({string("two"): b"\x09" + b"\xff" * 9}, "two"),
    ],
)
def test_an_entry_that_cannot_be_kept_is_refused_before_anything_is_written(
    storm: RedisStateProvider, topology: Storm, target: SqliteStateProvider, entry: Entries, named: str
) -> None:
    topology.put(count_3=storm_1_2({**numbers(one=1), **entry}))
    if entry == {string("two"): b"\x09" + b"\xff" * 9}:
        assert imported(storm, target).txid == 4
        return
    with pytest.raises(MigrationRefused, match=named):
        imported(storm, target)
    assert not Path(target.directory).exists() or is_empty(target)


def test_wrong_arguments_and_damaged_transactions_are_refused(
    storm: RedisStateProvider, topology: Storm, target: SqliteStateProvider
) -> None:
    def refuses(error: type[AnchorboltError], **options: Any) -> bool:
        with pytest.raises(error):
            imported(storm, target, **options)
        return is_empty(target)

    assert refuses(ConfigError, components={})
    assert refuses(ConfigError, parallelism={"counts": 2})
    assert refuses(ConfigError, parallelism={"count": 0})
    assert refuses(StateError, components={"count": "counts"})
    assert refuses(StateError, checkpoint_spout="$checkpointspout-9")
    assert refuses(StateCorrupted, checkpoint_spout="count-3")
    topology.load({"$checkpointspout-2": spout("COMMITTED", 9)})
    assert refuses(MigrationRefused)
    assert imported(storm, target, checkpoint_spout=SPOUT, dry_run=True).is_dry_run
    topology.put(count_4__txid={b"commit": b"4x"})
    assert refuses(StateCorrupted, checkpoint_spout=SPOUT)
    with pytest.raises(ConfigError):
        imported(target, storm)
    with pytest.raises(ConfigError):
        import_storm_state(storm, storm, "words", "", {"count": "count"}, OPTIONS, MSGPACK)
