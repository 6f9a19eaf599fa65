"""A TTL given to the entries that a bolt already has: to all of them, or to none."""

import shutil
from collections import Counter
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.errors import MigrationRefused
from anchorbolt.migration_tools import giving_ttl
from anchorbolt.migration_tools.giving_ttl import TtlReport, give_ttl
from anchorbolt.migration_tools.topology_inspection import read_topology
from anchorbolt.serialization.codecs import INDEX_TAG
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.state_backends.sqlite.storage import SqliteStateStorage
from anchorbolt.state_backends.timed.index import IndexClock, Item, TimeIndex
from anchorbolt.testing import LocalCluster, ManualClock
from anchorbolt.testing.conformance.base import entries
from anchorbolt.topology import TopologyBuilder
from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from anchorbolt.windows import BaseStatefulWindowedBolt
from tests.engine.jobs import StatefulBolt
from tests.migration_tools.conftest import ALL, Killed, KilledAt, conf_of, raise_killed
from tests.migration_tools.test_renaming import Sum, Words

DAY_S, DAY_MS = 86_400, 86_400_000
WORDS = ["to", "be", "or", "not", "to", "be", "that", "is", "the", "question"]


class Puts(StatefulBolt):
    """Counts words; "question" lives for 90 days, and the others as the attribute `state_ttl` says."""

    def __init__(self, state_ttl: Any = None) -> None:
        self.state_ttl = state_ttl

    def execute(self, tup: Any) -> None:
        ttl = "90 d" if tup[0] == "question" else None
        self.state.put(tup[0], self.state.get(tup[0], 0) + 1, ttl=ttl)
        self.collector.ack(tup)


class Job:
    """The runs of a topology on a store, and the commands on its state. `day` is the day of the next one."""

    def __init__(self, provider: StateProvider, name: str, place: Path) -> None:
        self.provider, self.name, self.place = provider, name, place
        self.day = 1.0

    def run(self, words: list[str], bolt: Any = None, day: float | None = None, **conf: Any) -> dict[Any, Any]:
        """Count words that the source has, each in a wave of its own; return the counts."""
        self.day = self.day if day is None else day
        builder = TopologyBuilder()
        builder.set_spout("in", FeederSpout(["word"], [[(word,)] for word in words]))
        builder.set_bolt("count", bolt or StatefulBolt(), parallelism=2).fields_grouping("in", "word")
        clock = ManualClock()
        clock.advance(self.day * DAY_S)
        given = {"topology.checkpoint.location": str(self.place), **conf_of(self.provider), **conf}
        handle = LocalCluster(clock=clock).submit(builder.create_topology(self.name), given)
        assert handle.await_termination(60)
        return dict(handle.state_items("count"))

    def give(
        self, days: float | None = 30, component: str = "count", day: float | None = None, **more: Any
    ) -> TtlReport:
        self.day = self.day if day is None else day
        ttl_ms, now = None if days is None else round(days * DAY_MS), round(self.day * DAY_MS)
        return give_ttl(self.provider, self.name, self.name, component, ttl_ms, now=now, **more)

    def stored(self) -> dict[bytes, bytes]:
        """Return the entries of all tasks, but those of the index."""
        return {key: data for key, data in self.everything().items() if not key.startswith(INDEX_TAG)}

    def everything(self) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for task in (0, 1):
            with closing(self.provider.open(f"{self.name}:count-{task}")) as storage:
                found |= entries(storage)
        return found

    def indexed(self) -> list[Item]:
        """Return the items of the index of entries that expire."""
        items: list[Item] = []
        for task in (0, 1):
            with closing(self.provider.open(f"{self.name}:count-{task}")) as storage:
                index = TimeIndex(storage.namespace, storage.get_many)
                items += index.take(IndexClock.EXPIRY, 1 << 62, 1 << 40)
        return sorted(items)

    def record(self) -> DecisionRecord:
        found = read_topology(self.provider, self.name, self.name).stored
        assert found is not None
        return found


class OfAMonth(StatefulBolt):
    state_ttl = "30 d"


@pytest.fixture
def job(sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path) -> Job:
    return Job(sqlite_provider, name, tmp_path / "place")


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_old_entries_live_until_they_are_due_and_a_later_run_deletes_all_but_the_refreshed_ones(
    store: StateProvider, name: str, tmp_path: Path
) -> None:
    job = Job(store, name, tmp_path)
    job.run(WORDS, day=1)
    report = job.give(30)
    assert (report.entries, report.expires_at, report.txid) == (len(set(WORDS)), 31 * DAY_MS, len(WORDS))
    assert job.run(["be"], Puts("30 d"), day=30.9) == Counter([*WORDS, "be"])
    assert job.run([], day=31) == {"be": 3}
    assert len(job.stored()) == len(set(WORDS))
    assert job.run(["x", "y", "z", "x", "y", "z"], day=36) == {"be": 3, "x": 2, "y": 2, "z": 2}
    assert len(job.stored()) == 4
    assert job.run(["x", "y", "z"], day=61) == {"x": 3, "y": 3, "z": 3}


def test_the_entries_and_the_index_are_those_of_a_run_with_this_ttl(job: Job, name: str, tmp_path: Path) -> None:
    other = Job(SqliteStateProvider(str(tmp_path / "other")), name, tmp_path / "other-place")
    other.run(sorted(set(WORDS)), OfAMonth())
    job.run(sorted(set(WORDS)))
    job.give(30)
    assert job.stored() == other.stored()
    assert job.indexed() == other.indexed()
    assert job.record().times["count"].due == other.record().times["count"].due


def test_many_entries_are_indexed_in_parts_and_all_are_swept(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving_ttl, "_WAITING_BYTES", 50_000)

    class Many(StatefulBolt):
        def execute(self, tup: Any) -> None:
            self.state.put_many({f"{tup[0]}-{number}": number for number in range(9000)})
            self.collector.ack(tup)

    job.run(["a", "b"], Many())
    assert job.give(30).entries == 18_000
    assert len({due for due, _ in job.indexed()}) == 1
    assert len({key for _, key in job.indexed()}) == len(job.indexed()) == 18_000
    assert job.run(["x", "y", "z", "x", "y", "z"], day=40) == {"x": 2, "y": 2, "z": 2}
    assert len(job.stored()) == 3


def test_entries_with_a_ttl_keep_it_unless_all_are_meant(job: Job) -> None:
    job.run(WORDS, Puts())
    assert job.give(30).entries == len(set(WORDS)) - 1
    assert job.run([], day=32) == {"question": 1}
    assert job.give(5, day=33).entries == 0
    assert job.give(5, every_entry=True).entries == 1  # expired ones stay expired
    assert job.run([], day=37.9) == {"question": 1}
    assert job.run([], day=38) == {}
    job.run(["x", "y", "z", "x", "y", "z"], day=120)
    assert len(job.stored()) == 3
    assert job.indexed() == []


def test_never_removes_the_ttl_of_entries_that_have_not_expired(job: Job) -> None:
    job.run(["question"], Puts())
    job.run(["to", "be"], Puts("5 d"))
    assert job.give(None, day=10).entries == 1
    assert job.run(["x", "y", "z"], day=200) == {"question": 1, "x": 1, "y": 1, "z": 1}
    assert job.give(1).entries == 4


def test_a_second_ttl_replaces_the_first_whether_it_is_longer_or_shorter(job: Job) -> None:
    job.run(WORDS)
    job.give(30)
    job.give(60, every_entry=True, day=2)
    assert job.run([], day=61.9) == Counter(WORDS)
    job.give(2, every_entry=True)
    assert job.run([], day=63.9) == {}
    assert job.run(["x", "y", "z", "x", "y", "z"], day=65) == {"x": 2, "y": 2, "z": 2}
    assert len(job.stored()) == 3
    assert job.indexed() == []


def test_a_shorter_ttl_does_not_wait_for_the_sweep_of_the_longer_one(job: Job) -> None:
    job.run(WORDS)
    job.give(60)
    job.give(2, every_entry=True)
    job.run(["x", "y", "z", "x", "y", "z"], day=4)
    assert len(job.stored()) == 3
    job.run(["x", "y", "z", "x", "y", "z"], day=90)
    assert job.indexed() == []


def test_the_clock_of_the_last_wave_counts_if_this_machine_s_is_behind(job: Job) -> None:
    job.run(WORDS, day=5)
    assert job.give(30, day=1).expires_at == 35 * DAY_MS


def test_a_dry_run_writes_nothing(job: Job) -> None:
    job.run(WORDS)
    before = job.everything(), job.record()
    planned = job.give(30, dry_run=True)
    assert (job.everything(), job.record()) == before
    report = job.give(30)
    assert (planned.namespaces, planned.expires_at, planned.txid) == (report.namespaces, report.expires_at, report.txid)
    assert (planned.entries, report.entries) == (None, len(set(WORDS)))


def test_what_cannot_get_a_ttl_is_refused(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MigrationRefused):
        job.give()
    job.run(WORDS)
    for component in ("other", "in", "__acker"):
        with pytest.raises(MigrationRefused, match=component):
            job.give(component=component)
    monkeypatch.setattr("anchorbolt.checkpoint.decision_log.DecisionLog.release", lambda _: None)  # as after a kill
    job.run([])
    monkeypatch.undo()
    with pytest.raises(MigrationRefused, match="--take-fence"):
        job.give()
    assert job.give(take_fence=True).entries == len(set(WORDS))


def test_a_custom_state_is_refused(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.run(WORDS)
    head = SqliteStateStorage.head
    monkeypatch.setattr(SqliteStateStorage, "head", lambda self: replace(head(self), codec=CUSTOM_HEADER))
    with pytest.raises(MigrationRefused, match="custom state"):
        job.give()


class Reminders(StatefulBolt):
    def init_timers(self, timers: Any) -> None:
        self.timers = timers

    def execute(self, tup: Any) -> None:
        self.timers.set(tup[0], after="60 d")
        super().execute(tup)

    def on_timer(self, timer: Any) -> None:
        self.state.put(timer.key, -self.state.get(timer.key, 0))


def test_a_bolt_with_timers_is_refused_unless_its_entries_are_no_windows_and_its_timers_stay(job: Job) -> None:
    job.run(["to", "be"], Reminders())
    with pytest.raises(MigrationRefused, match="--with-timers"):
        job.give(30)
    assert job.give(None).entries == 0  # it cannot lose a window
    assert job.give(30, with_timers=True).entries == 2
    assert job.record().times["count"].due.processing == 61 * DAY_MS
    assert job.run(["be"], Reminders(), day=30) == {"to": 1, "be": 2}
    assert job.run(["x"], Reminders(), day=62) == {"to": 0, "be": 2, "x": 1}


class Triples(BaseStatefulWindowedBolt[str, int]):
    """Counts windows by their tuples."""

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, window: Any) -> None:
        self.state.put("".join(tup[0] for tup in window.get()), 1)

    def declare_output_fields(self, declarer: Any) -> None:
        pass


def test_the_tuples_of_a_window_by_count_do_not_expire(job: Job) -> None:
    def own(found: dict[Any, Any]) -> set[Any]:
        return {key for key in found if not key.startswith("anchorbolt.window/")}

    bolt = Triples().with_tumbling_window(count=3)
    assert own(job.run(["a", "a", "a"], bolt)) == {"aaa"}
    assert own(job.run(["a", "a"], bolt)) == {"aaa"}
    assert job.give(30).entries == 1
    assert own(job.run(["a"], bolt, day=30)) == {"aaa"}  # put again, without a TTL
    assert job.give(30).entries == 1
    assert own(job.run(["b", "b", "b"], bolt, day=80)) == {"bbb"}


@pytest.mark.parametrize(
    "after", [pytest.param(False, marks=pytest.mark.slow), pytest.param(True, marks=pytest.mark.thorough)]
)
@pytest.mark.timeout(300)
def test_a_command_that_is_killed_anywhere_is_finished_by_the_same_command(
    after: bool, name: str, tmp_path: Path
) -> None:
    whole = Job(SqliteStateProvider(str(tmp_path / "whole")), name, tmp_path / "place")
    whole.run(WORDS)
    repeated = was_decided = 0
    for number in range(1, 100):
        provider = SqliteStateProvider(str(tmp_path / f"store-{number}"))
        shutil.copytree(str(tmp_path / "whole"), provider.directory)
        job = Job(provider, name, tmp_path / f"place-{number}")
        shutil.copytree(whole.place, job.place)
        with pytest.MonkeyPatch.context() as patched:
            killed = KilledAt(patched, number, after=after)
            with suppress(Killed):
                job.give(30)
            if killed.left > 0:
                break
        report = job.give(30)
        repeated += report.entries != 0
        was_decided += report.entries == 0
        assert job.run([], day=30.9) == Counter(WORDS)
        assert job.run(["x", "y", "z"], day=40) == {"x": 1, "y": 1, "z": 1}
        assert len(job.stored()) == 3
    assert repeated > 5
    assert was_decided > 2


def test_a_run_on_a_command_that_was_killed_before_its_decision_has_no_ttl(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.run(WORDS)
    monkeypatch.setattr("anchorbolt.checkpoint.decision_log.DecisionLog.decide", raise_killed)
    with pytest.raises(Killed):
        job.give(30)
    monkeypatch.undo()
    assert job.run(["x"], day=50) == Counter([*WORDS, "x"])
    assert job.give(30).entries == len(set(WORDS)) + 1


def test_the_batches_of_a_transactional_topology_continue_behind_the_command(job: Job) -> None:
    done: list[int] = []

    def count(batches: int, day: float) -> dict[Any, Any]:
        spout = MemoryTransactionalSpout({0: [(word,) for word in WORDS]}, ["word"], 2)
        builder = TransactionalTopologyBuilder(job.name, "in", spout)
        builder.set_bolt("words", Words()).shuffle_grouping("in")
        builder.set_committer_bolt("count", Sum(), 2).fields_grouping("words", "word")

        def stop(report: Any) -> None:
            done.append(report.txid)
            if len(done) == batches:
                handle.stop()

        clock = ManualClock()
        clock.advance(day * DAY_S)
        conf = {"topology.checkpoint.location": str(job.place), **conf_of(job.provider)}
        handle = LocalCluster(clock=clock).submit(builder.build_topology(), conf, on_wave=stop)
        assert handle.await_termination(60)
        return dict(handle.state_items("count"))

    assert count(2, day=1) == Counter(WORDS[:4])
    job.give(30)
    assert count(100, day=40) == Counter(WORDS[4:])
    assert done == [1, 2, 4, 5, 6]
