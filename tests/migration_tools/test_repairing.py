"""Single entries of a bolt put and deleted: in one transaction, or not at all."""

import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.errors import MigrationRefused, UnsupportedValue
from anchorbolt.migration_tools.entries import get_entries
from anchorbolt.migration_tools.repairing import RepairReport, delete_entries, put_entry
from anchorbolt.migration_tools.stopped_topology import read_stopped
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.state_backends.sqlite.storage import SqliteStateStorage
from anchorbolt.testing import LocalCluster
from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from anchorbolt.windows import Tumbling
from tests.migration_tools.conftest import ALL, MSGPACK, Killed, KilledAt, StartWords, conf_of, raise_killed
from tests.migration_tools.test_renaming import Sum, Words
from tests.migration_tools.test_rescaling import LATER, WORDS, Job, Reminds, Windows

COUNTS = Counter(WORDS)


def put(job: Job, key: Any, value: Any, component: str = "count", **options: Any) -> RepairReport:
    now = options.pop("now", 0)
    return put_entry(job.provider, job.name, job.name, component, key, value, MSGPACK, now=now, **options)


def delete(job: Job, *keys: Any, component: str = "count", **options: Any) -> RepairReport:
    now = options.pop("now", 0)
    return delete_entries(job.provider, job.name, job.name, component, keys, MSGPACK, now=now, **options)


def before(report: RepairReport) -> list[Any]:
    return [None if each.before.value is None else each.before.value.value for each in report.entries]


@pytest.fixture
def job(sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path) -> Job:
    return Job(sqlite_provider, name, tmp_path / "place")


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_a_topology_continues_with_what_was_put_and_without_what_was_deleted(
    store: StateProvider, name: str, tmp_path: Path
) -> None:
    job = Job(store, name, tmp_path / "place")
    job.run(WORDS, 3)
    planned = put(job, "be", 40, dry_run=True)
    assert job.run([], 3) == COUNTS
    assert replace(put(job, "be", 40), is_dry_run=True) == planned
    assert before(planned) == [2]
    assert before(put(job, "new", 7)) == [None]
    expected = {**COUNTS, "be": 40, "new": 7}
    assert job.run([], 3) == expected
    deleted = delete(job, "question", "absent", "to")
    assert before(deleted) == [COUNTS["question"], None, COUNTS["to"]]
    del expected["question"], expected["to"]
    assert job.run([], 3) == expected
    assert job.run(["be", "to", "new"], 3) == {**expected, "be": 41, "to": 1, "new": 8}


def test_a_delete_of_absent_keys_only_is_no_transaction(job: Job) -> None:
    job.run(WORDS, 2)
    record = read_stopped(job.provider, job.name, job.name, taken=False, dry_run=True)[1]
    assert delete(job, "absent", "other").txid is None
    assert read_stopped(job.provider, job.name, job.name, taken=False, dry_run=True)[1] == record


def test_a_key_goes_to_a_task_that_had_no_entries(job: Job) -> None:
    job.run(["be"], 5)
    words = [f"word-{number}" for number in range(20)]
    for word in words:
        put(job, word, {"a": [1, 2]})
    assert job.run([], 5) == {"be": 1, **{word: {"a": [1, 2]} for word in words}}
    assert {each for task in range(5) for each in job.stored(task)} == {
        each.before.key.data for word in ["be", *words] for each in put(job, word, 1, dry_run=True).entries
    }
    assert job.run(["be"], 5)["be"] == 2


def test_an_entry_gets_a_due_time_loses_it_and_is_swept(job: Job) -> None:
    job.run(WORDS, 2, Reminds())
    clock = round(job.clock() * 1000)
    report = put(job, "be", 5, ttl_ms=60_000, now=clock)
    assert report.expires_at is not None
    assert 60_000 <= report.expires_at - clock < 70_000
    put(job, "to", 6)
    put(job, "or", 6, ttl_ms=60_000)
    put(job, "or", 7, ttl_ms=30_000)
    job.clock.advance(20)
    left = job.run(["end"], 2, Reminds())
    assert left == {"be": 5, "to": 6, "or": 7, "end": 1}
    job.clock.advance(20)
    assert job.run(["end"], 2, Reminds()) == {"be": 5, "to": 6, "end": 1}
    job.clock.advance(60)
    assert job.run(["end", "again"], 2, Reminds()) == {"to": 6, "end": 1, "again": 1}
    stored = {key for task in range(2) for key in job.stored(task)}
    assert not any(b"be" in key or b"or" in key for key in stored if not key.startswith(b"\xc1"))


def test_a_ttl_is_given_where_no_entry_had_one(job: Job) -> None:
    job.run(WORDS, 2)
    put(job, "be", 5, ttl_ms=60_000)
    assert job.run([], 2) == {**COUNTS, "be": 5}
    job.clock.advance(100)
    assert job.run(["end"], 2) == {**{word: count for word, count in COUNTS.items() if word != "be"}, "end": 1}


def test_the_key_of_an_open_window_needs_its_task(job: Job) -> None:
    job.run([(word, 100) for word in WORDS], 3, Windows(Tumbling("1 s"), "5 s"))
    namespaces = [f"{job.name}:count-{task}" for task in range(3)]
    _, found = get_entries(job.provider, namespaces, ["['be', 0]"], MSGPACK)
    task = int(found[0][0][-1])
    with pytest.raises(MigrationRefused):
        put(job, ("new", 0), 9)
    put(job, ("be", 0), 9, task=task)
    job.run([("end", 1_000_000)], 3, Windows(Tumbling("1 s"), "5 s"))
    counts = {key: count for key, start, count in job.captured.tuples}
    assert counts == {**COUNTS, "be": 9}


def test_a_key_that_its_hash_does_not_place_needs_its_task(job: Job) -> None:
    job.run(WORDS, 2, grouping="shuffle_grouping")
    with pytest.raises(MigrationRefused):
        put(job, "new", 1)
    put(job, "new", 1, task=1)
    with pytest.raises(MigrationRefused):  # its hash gives task 0
        put(job, "new", 2)
    put(job, "new", 3, task=1)
    assert job.run([], 2, grouping="shuffle_grouping")["new"] == 3
    with pytest.raises(MigrationRefused):
        put(job, "new", 1, task=2)


def test_what_cannot_be_repaired_is_refused(job: Job) -> None:
    with pytest.raises(MigrationRefused):
        put(job, "be", 1)
    job.run(WORDS, 2)
    for component in ("other", "__acker"):
        with pytest.raises(MigrationRefused):
            put(job, "be", 1, component)
        with pytest.raises(MigrationRefused):
            delete(job, "be", component=component)
    with pytest.raises(UnsupportedValue):
        put(job, ["a list"], 1)
    with pytest.raises(UnsupportedValue):
        put(job, "be", object())
    assert job.run([], 2) == COUNTS


def test_a_custom_state_is_refused(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.run(WORDS, 1)
    head = SqliteStateStorage.head
    monkeypatch.setattr(SqliteStateStorage, "head", lambda self: replace(head(self), codec=CUSTOM_HEADER))
    for change in (put, delete):
        with pytest.raises(MigrationRefused, match="custom state"):
            change(job, "be", "to")


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_driver_that_runs_is_not_overwritten(store: StateProvider, start_words: StartWords, name: str) -> None:
    spout = FeederSpout(["sentence"], [[("a b a",)]])
    handle = start_words(store, spout)
    try:
        with pytest.raises(MigrationRefused):
            put_entry(store, name, name, "count", "a", 1, MSGPACK, now=0)
    finally:
        handle.stop()
        handle.await_termination(60)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kind", ["put", "delete"])
@pytest.mark.timeout(300)
def test_a_repair_that_is_killed_anywhere_is_finished_by_the_same_call(
    kind: str, after: bool, name: str, tmp_path: Path
) -> None:
    whole = SqliteStateProvider(str(tmp_path / "whole"))
    Job(whole, name, tmp_path / "place").run(WORDS, 2)
    expected = Counter({**COUNTS, "be": 40}) if kind == "put" else Counter({**COUNTS, "be": 0, "the": 0, "or": 0})

    def repair(job: Job, **options: Any) -> None:
        put(job, "be", 40, **options) if kind == "put" else delete(job, "be", "the", "or", **options)

    repeated = 0
    for number in range(1, 100):
        job = Job(SqliteStateProvider(str(tmp_path / f"store-{number}")), name, tmp_path / f"place-{number}")
        shutil.copytree(whole.directory, tmp_path / f"store-{number}")
        shutil.copytree(tmp_path / "place", job.place)
        with pytest.MonkeyPatch.context() as patched:
            killed = KilledAt(patched, number, after=after)
            with suppress(Killed):
                repair(job)
            if killed.left > 0:
                break
        repair(job)
        repeated += 1
        assert job.run(LATER, 2) == +(expected + Counter(LATER))
    assert repeated > 7


def test_a_run_on_a_repair_that_was_killed_before_its_decision_goes_on_as_before(job: Job) -> None:
    job.run(WORDS, 2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("anchorbolt.checkpoint.decision_log.DecisionLog.decide", raise_killed)
        with pytest.raises(Killed):
            put(job, "be", 40)
    assert job.run(LATER, 2) == Counter(WORDS + LATER)
    put(job, "be", 40)
    assert job.run([], 2)["be"] == 40


@pytest.mark.parametrize("damaged", [b"\xc1d\x00", b"\xc1 no msgpack"])
def test_a_value_that_cannot_be_decoded_is_replaced(job: Job, damaged: bytes) -> None:
    job.run(["a"], 1)
    get_many = SqliteStateStorage.get_many

    def damaging(self: Any, keys: Any, *others: Any, **named: Any) -> Any:
        found = get_many(self, keys, *others, **named)
        return [damaged if key == b"\xa1a" else value for key, value in zip(keys, found, strict=True)]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SqliteStateStorage, "get_many", damaging)
        [entry] = put(job, "a", 3, ttl_ms=60_000).entries
    assert entry.before.value is not None
    assert (entry.before.value.data, bool(entry.before.value.problem)) == (damaged, True)
    assert job.run([], 1) == {"a": 3}


def test_the_batches_of_a_transactional_topology_continue_behind_a_repair(job: Job) -> None:
    source = MemoryTransactionalSpout({0: [(word,) for word in WORDS]}, ["word"], 4)

    def run() -> dict[Any, Any]:
        builder = TransactionalTopologyBuilder(job.name, "in", source)
        builder.set_bolt("words", Words()).shuffle_grouping("in")
        builder.set_committer_bolt("count", Sum(), 2).fields_grouping("words", "word")
        settings = {"topology.checkpoint.location": str(job.place), **conf_of(job.provider)}
        handle = LocalCluster().submit(builder.build_topology(), settings)
        assert handle.await_termination(60)
        return dict(handle.state_items("count"))

    assert run() == COUNTS
    put(job, "be", 40)
    source = MemoryTransactionalSpout({0: [(word,) for word in WORDS + LATER]}, ["word"], 4)
    assert run() == Counter({**COUNTS, "be": 40}) + Counter(LATER)
