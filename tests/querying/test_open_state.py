"""The state of a topology read from another program."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anchorbolt import open_state
from anchorbolt.errors import ConfigError, StateError, UnsupportedValue
from anchorbolt.faults.points import FaultPoint, PointReached, observe
from anchorbolt.migration_tools.renaming import rename_state
from anchorbolt.migration_tools.repairing import put_entry
from anchorbolt.querying import StateReader, reader
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.state_backends.sqlite.storage import SqliteStateStorage
from anchorbolt.testing import LocalCluster
from anchorbolt.testing.conformance.base import committed
from anchorbolt.topology import TopologyBuilder
from anchorbolt.windows import Tumbling
from tests.engine.jobs import StatefulBolt
from tests.migration_tools.conftest import ALL, HEADER, MSGPACK, conf_of
from tests.migration_tools.test_renaming import run as run_words
from tests.migration_tools.test_rescaling import LATER, WORDS, Job, Reminds, Windows

Opened = Callable[..., StateReader]


@pytest.fixture
def job(sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path) -> Job:
    return Job(sqlite_provider, name, tmp_path / "place")


@pytest.fixture
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """Open the state of a job; it is closed at the end."""
    states: list[StateReader] = []

    def open_it(job: Job) -> StateReader:
        states.append(open_state(job.name, conf_of(job.provider)))
        return states[-1]

    yield open_it
    for state in states:
        state.close()


@pytest.fixture
def without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "REFRESH_S", 0)


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_a_bolts_state_is_read_key_by_key_and_whole(
    store: StateProvider, name: str, tmp_path: Path, opened: Opened
) -> None:
    job = Job(store, name, tmp_path / "place")
    job.run(WORDS, 3)
    state = opened(job)
    assert state.components == ("count",)
    assert state.get("count", "be") == 2
    assert (state.get("count", "absent"), state.get("count", "absent", 0)) == (None, 0)
    assert state.get_many("count", [*WORDS, "absent"]) == Counter(WORDS)
    assert dict(state.items("count")) == Counter(WORDS)
    job.run(LATER, 3)
    assert state.get_many("count", WORDS + LATER) == dict(state.items("count")) == Counter(WORDS + LATER)


def test_a_key_costs_one_read_and_an_absent_one_two(
    job: Job, opened: Opened, monkeypatch: pytest.MonkeyPatch, without_delay: None
) -> None:
    job.run(WORDS, 2)
    state = opened(job)
    state.get_many("count", WORDS)
    read: list[str] = []
    get_many, head = SqliteStateStorage.get_many, SqliteStateStorage.head

    def counted(call: Any) -> Any:
        def counting(storage: Any, *arguments: Any, **named: Any) -> Any:
            read.append(storage.namespace.partition(":")[2].partition("-")[0])
            return call(storage, *arguments, **named)

        return counting

    monkeypatch.setattr(SqliteStateStorage, "get_many", counted(get_many))
    monkeypatch.setattr(SqliteStateStorage, "head", counted(head))
    assert state.get("count", "be") == 2
    assert read == ["count"]
    assert state.get("count", "absent") is None
    assert read == ["count", "count", "$checkpointspout"]
    monkeypatch.setattr(reader, "REFRESH_S", 60)
    assert state.get("count", "absent") is None
    assert read == ["count", "count", "$checkpointspout", "count"]


def test_a_reader_follows_the_state_to_other_tasks(job: Job, opened: Opened, without_delay: None) -> None:
    job.run(WORDS, 2)
    state = opened(job)
    for tasks in (5, 3, 1):
        assert state.get_many("count", WORDS) == Counter(WORDS)
        job.rescale(tasks)
        assert [state.get("count", word) for word in WORDS] == [Counter(WORDS)[word] for word in WORDS]
        assert dict(state.items("count")) == Counter(WORDS)


def test_a_reader_follows_a_renamed_bolt(
    sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path, without_delay: None
) -> None:
    run_words(sqlite_provider, name, "count", WORDS, tmp_path)
    with open_state(name, conf_of(sqlite_provider)) as state:
        rename_state(sqlite_provider, name, name, "count", "counter")
        assert state.get("counter", "be") == 2
        with pytest.raises(StateError):
            state.get("count", "be")
        assert state.components == ("counter",)


def test_entries_that_have_expired_and_timers_are_not_shown(job: Job, opened: Opened) -> None:
    job.run(WORDS, 2, Reminds())
    assert opened(job).get("count", "be") is None  # the clock of the run began in the past
    assert dict(opened(job).items("count")) == {}
    job.clock.advance(2 * time.time())
    job.run(LATER, 2, Reminds())
    assert opened(job).get("count", "be") == 1
    assert dict(opened(job).items("count")) == Counter(LATER)


def test_an_open_window_is_found_by_its_grouping_value(job: Job, opened: Opened) -> None:
    words = sorted(set(WORDS))
    job.run([(word, 100) for word in words], 3, Windows(Tumbling("1 s"), "5 s"))
    state = opened(job)
    keys = dict(state.items("count"))
    assert sorted(key[0] for key in keys) == words
    for key, value in keys.items():
        assert state.get("count", key, group=key[0]) == value
        assert state.get_many("count", [key], group=key[0]) == {key: value}


def test_threads_of_a_server_read_while_the_topology_runs(job: Job, opened: Opened) -> None:
    job.run(WORDS, 3)
    state = opened(job)

    def read(number: int) -> list[int]:
        return [state.get("count", "be") for _ in range(50)]

    with ThreadPoolExecutor(8) as threads:
        reading = [threads.submit(read, number) for number in range(16)]
        for _ in range(3):
            job.run(["be"], 3)
        counts = [each.result() for each in reading]
    assert all(seen == sorted(seen) and set(seen) <= {2, 3, 4, 5} for seen in counts)
    assert state.get("count", "be") == 5
    state.close()
    with pytest.raises(StateError):
        state.get("count", "be")


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_all_items_are_of_one_wave_or_none_are_returned(
    store: StateProvider, name: str, tmp_path: Path, opened: Opened
) -> None:
    job = Job(store, name, tmp_path / "place")
    job.run(["a", "b", "c", "d", "e"], 3)
    state = opened(job)
    items = state.items("count")
    first = next(items)
    job.run(["a", "b", "c", "d", "e"], 3)
    with pytest.raises(StateError):
        list(items)
    assert first[1] == 1
    assert dict(state.items("count")) == dict.fromkeys("abcde", 2)


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_a_whole_state_is_never_torn_by_a_commit_even_a_half_applied_one(
    store: StateProvider, name: str, tmp_path: Path, opened: Opened
) -> None:
    job = Job(store, name, tmp_path / "place")
    job.run(["a"], 3)
    state = opened(job)
    seen, refused, begun = list[dict[Any, Any]](), 0, list[Iterator[Any]]()

    def strike(place: PointReached) -> None:
        nonlocal refused
        if place.point is FaultPoint.ROUND_ENDED:
            seen.append(dict(state.items("count")))
            begun.append(state.items("count"))
        elif place.point in (FaultPoint.SLICE_APPLIED, FaultPoint.NAMESPACE_COMMITTED):
            try:
                seen.append(dict(begun.pop() if begun else state.items("count")))
            except StateError:
                refused += 1

    before = observe(strike)
    try:
        run_waves(job, [[(word, 0) for word in "bcdefgh"] for _ in range(3)])
    finally:
        observe(before)
    seen.append(dict(state.items("count")))
    whole = [{"a": 1}, *({"a": 1, **dict.fromkeys("bcdefgh", count)} for count in (1, 2, 3))]
    assert [each for each in seen if each not in whole] == []
    assert [each for each in whole if each not in seen] == []
    assert refused >= 3


@pytest.mark.parametrize("store", ["sqlite", ALL[-1]], indirect=True)  # Redis applies all slices at once
def test_slices_that_a_commit_has_applied_before_its_end_are_not_read(
    store: StateProvider, name: str, tmp_path: Path, opened: Opened
) -> None:
    job = Job(store, name, tmp_path / "place")
    job.run(WORDS, 1)
    state = opened(job)
    begun = [state.items("count") for _ in range(9)]
    refused = 0

    def strike(place: PointReached) -> None:
        nonlocal refused
        if place.point is FaultPoint.SLICE_APPLIED:
            try:
                assert dict(begun.pop()) == Counter(WORDS)
            except StateError:
                refused += 1

    before = observe(strike)
    try:
        put_entry(store, name, name, "count", "be", 40, MSGPACK, now=0)
    finally:
        observe(before)
    assert len(begun) < 9
    assert refused == 9 - len(begun)
    assert dict(state.items("count")) == {**Counter(WORDS), "be": 40}


def run_waves(job: Job, waves: list[list[Any]]) -> None:
    builder = TopologyBuilder()
    builder.set_spout("in", FeederSpout(["key", "at"], waves))
    builder.set_bolt("count", StatefulBolt(), parallelism=3).fields_grouping("in", "key")
    settings = {"topology.checkpoint.location": str(job.place), **conf_of(job.provider)}
    assert LocalCluster().submit(builder.create_topology(job.name), settings).await_termination(60)


def test_what_cannot_be_read_is_refused(job: Job, opened: Opened, tmp_path: Path) -> None:
    with pytest.raises(StateError):
        opened(job)
    job.run(WORDS, 2)
    state = opened(job)
    for component in ("cuont", "__acker", ""):
        with pytest.raises(StateError):
            state.get(component, "be")
        with pytest.raises(StateError):
            state.items(component)
    with pytest.raises(UnsupportedValue):
        state.get("count", ["a", "list"])
    with pytest.raises(ConfigError):
        open_state(job.name, {"topology.state.provider": "memory"})
    with pytest.raises(ConfigError):
        open_state(job.name, tmp_path / "missing.yaml")


def test_a_value_that_cannot_be_decoded_is_an_error(job: Job, opened: Opened) -> None:
    job.run(["a"], 1)
    with closing(job.provider.open(f"{job.name}:count-0")) as storage:
        head = storage.head()
        changes = [(b"\xa1a", b"\xc1 no msgpack")]
        committed(storage, changes, fence=head.fence, txid=9, base=head.committed, codec=HEADER)
    with pytest.raises(StateError, match="'a'"):
        opened(job).get("count", "a")
    assert opened(job).get("count", "b") is None


def test_a_file_names_the_store_and_neither_spark_nor_the_engine_is_loaded(job: Job, tmp_path: Path) -> None:
    job.run(WORDS, 2)
    conf = tmp_path / "conf.json"
    conf.write_text(json.dumps(conf_of(job.provider)))
    program = (
        "import sys, anchorbolt\nbefore = set(sys.modules)\n"
        f"with anchorbolt.open_state({job.name!r}, {str(conf)!r}) as state:\n"
        "    print(state.get('count', 'be'))\n"
        "print([name for name in before if name.startswith('anchorbolt.')])\n"
        "print([name for name in sys.modules if name.startswith(('pyspark', 'anchorbolt.engine', 'py4j'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split("\n") == ["2", "[]", "[]", ""], done.stderr
