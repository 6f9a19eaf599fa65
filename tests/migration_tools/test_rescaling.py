"""The state of bolts divided among other numbers of tasks: whole, or not at all."""

import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import MigrationRefused, TopologyError
from anchorbolt.faults.points import FaultPoint
from anchorbolt.maintenance import namespace_changes
from anchorbolt.maintenance.key_placement import KEY_FUNCTIONS, Survey, tasks_of, whole_key
from anchorbolt.migration_tools.rescaling import RescaleReport, rescale_state
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.testing import LocalCluster, ManualClock, TupleCapture
from anchorbolt.testing.conformance.base import entries
from anchorbolt.topology import TopologyBuilder
from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from anchorbolt.windows import BaseWindowBolt, Session, Sliding, Tumbling
from tests.engine.jobs import StatefulBolt
from tests.migration_tools.conftest import ALL, MSGPACK, Killed, KilledAt, conf_of, killed_at, raise_killed
from tests.migration_tools.test_renaming import Sum, Words
from tests.support.keys import KEYS

WORDS = ["to", "be", "or", "not", "to", "be", "that", "is", "the", "question", "whether", "it", "is", "nobler", "in"]
LATER = ["to", "do", "is", "to", "be", "question"]


class Job:
    """The runs of a topology with one stateful bolt, `count`, and its rescalings."""

    def __init__(self, provider: StateProvider, name: str, place: Path) -> None:
        self.provider, self.name, self.place = provider, name, place
        self.clock = ManualClock()

    def run(
        self, rows: Sequence[Any], tasks: int, bolt: Any = None, grouping: Any = "fields_grouping", **conf: Any
    ) -> dict[Any, Any]:
        """Run the rows, or lists of rows, each in a wave of its own; return the state."""
        waves = [row if isinstance(row, list) else [row] for row in rows]
        values = [[row if isinstance(row, tuple) else (row, 0) for row in wave] for wave in waves]
        builder, self.captured = TopologyBuilder(), TupleCapture()
        builder.set_spout("in", FeederSpout(["key", "at"], values))
        bolt = bolt or StatefulBolt()
        declarer = builder.set_bolt("count", bolt, parallelism=tasks)
        declarer.fields_grouping("in", "key") if grouping == "fields_grouping" else getattr(declarer, grouping)("in")
        if bolt.fields:
            builder.set_bolt("captured", self.captured).shuffle_grouping("count")
        settings = {"topology.checkpoint.location": str(self.place), **conf_of(self.provider), **conf}
        handle = LocalCluster(clock=self.clock).submit(builder.create_topology(self.name), settings)
        assert handle.await_termination(60)
        return dict(handle.state_items("count"))

    def rescale(self, tasks: int, component: str = "count", **options: Any) -> RescaleReport:
        return rescale_state(self.provider, self.name, self.name, {component: tasks}, MSGPACK, **options)

    def stored(self, task: int) -> dict[bytes, bytes]:
        with closing(self.provider.open(f"{self.name}:count-{task}")) as storage:
            return entries(storage)


@pytest.fixture
def job(sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path) -> Job:
    return Job(sqlite_provider, name, tmp_path / "place")


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_counts_go_on_with_more_and_with_fewer_tasks(store: StateProvider, name: str, tmp_path: Path) -> None:
    job = Job(store, name, tmp_path)
    job.run(WORDS, 2)
    with pytest.raises(TopologyError) as refused:
        job.run(LATER, 5)
    assert refused.value.component == "count"
    planned = job.rescale(5, dry_run=True)
    assert job.run([], 2) == Counter(WORDS)
    report = job.rescale(5)
    assert report.bolts == planned.bolts
    assert (report.bolts[0].entries, report.bolts[0].key_function) == (len(set(WORDS)), "key")
    assert job.run(LATER, 5) == Counter(WORDS + LATER)
    assert job.rescale(5).bolts == ()
    job.rescale(3)
    assert job.stored(3) == job.stored(4) == {}
    assert job.run(LATER, 3) == Counter(WORDS + LATER + LATER)
    job.rescale(1)
    assert job.run(LATER, 1) == Counter(WORDS + LATER * 3)
    with pytest.raises(TopologyError):
        job.run(LATER, 3)


RESCALE: dict[str, Any] = {"topology.state.rescale": True}


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_a_start_may_move_the_keys_to_the_tasks_of_the_new_parallelism(
    store: StateProvider, name: str, tmp_path: Path
) -> None:
    job = Job(store, name, tmp_path)
    job.run(WORDS, 2, **RESCALE)
    assert job.run(LATER, 5, **RESCALE) == Counter(WORDS + LATER)
    assert job.run(LATER, 5) == Counter(WORDS + LATER + LATER)
    assert job.run(LATER, 3, **RESCALE) == Counter(WORDS + LATER * 3)


@pytest.mark.parametrize(
    ("point", "committed"), [(FaultPoint.ROUND_ENDED, 3), (FaultPoint.DECIDED, 4), (FaultPoint.NAMESPACE_COMMITTED, 4)]
)
def test_a_run_that_was_killed_is_recovered_before_its_keys_are_moved(
    job: Job, point: FaultPoint, committed: int
) -> None:
    with killed_at(point, 3):
        job.run(WORDS, 2)
    assert job.run(LATER, 4, **RESCALE) == Counter(WORDS[:committed] + LATER)


def test_a_start_that_cannot_move_the_keys_is_refused_and_changes_nothing(job: Job) -> None:
    job.run(WORDS, 2, Prefixed())
    with pytest.raises(TopologyError):
        job.run(LATER, 3, Prefixed(), **RESCALE)
    expected = {f"word:{word}": count for word, count in Counter(WORDS + LATER).items()}
    assert job.run(LATER, 2, Prefixed()) == expected


class Reminds(StatefulBolt):
    """Keeps each key for 10 s, and reminds of it after 5 s."""

    fields = ("reminded",)
    state_ttl = "10 s"

    def init_timers(self, timers: Any) -> None:
        self.timers = timers

    def execute(self, tup: Any) -> None:
        self.state.put(tup[0], self.state.get(tup[0], 0) + 1)
        self.timers.set(tup[0], after="5 s", name="reminder")
        self.collector.ack(tup)

    def on_timer(self, timer: Any) -> None:
        self.collector.emit((timer.key,), anchors=timer)


@pytest.mark.parametrize("numbers", [(2, 5), (5, 2), (1, 4), (4, 1), (2, 5, 2)])
def test_due_times_and_timers_move_along(job: Job, numbers: tuple[int, ...]) -> None:
    words = sorted(set(WORDS))
    job.run(words, numbers[0], Reminds())
    for tasks in numbers[1:]:
        job.rescale(tasks)
    job.clock.advance(6)
    assert job.run(["be"], tasks, Reminds()) == {**dict.fromkeys(words, 1), "be": 2}
    # "be" is set again in the first wave, before its timer fires.
    assert sorted(value for (value,) in job.captured.tuples) == [word for word in words if word != "be"]
    job.clock.advance(6)
    assert job.run(["new"], tasks, Reminds()) == {"be": 2, "new": 1}
    assert job.captured.tuples == [("be",)]
    job.clock.advance(60)
    assert job.run([str(number) for number in range(40)], tasks, Reminds())
    left = {key for task in range(max(numbers)) for key in job.stored(task) if b"be" in key or b"new" in key}
    assert left == set(), "what has expired is swept in its new task"


class Windows(BaseWindowBolt):
    fields = ("key", "start", "count")
    event_time = "at"

    def __init__(self, window: Any, lateness: str = "0 s") -> None:
        self.window, self.lateness = window, lateness

    def create(self) -> int:
        return 0

    def add(self, value: int, tup: Any) -> int:
        return value + 1

    def merge(self, one: int, other: int) -> int:
        return one + other

    def close(self, key: Any, window: Any, value: int, collector: Any) -> None:
        collector.emit((key, window.start, value))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare(*self.fields)


@pytest.mark.parametrize(
    ("window", "function"),
    [(Tumbling("1 s"), "key[0]"), (Sliding("1 s", every="500 ms"), "key[0]"), (Session(gap="1 s"), "key")],
)
def test_open_windows_move_along(job: Job, window: Any, function: str) -> None:
    words = sorted(set(WORDS))
    expected = Job(SqliteStateProvider(str(job.place / "other")), job.name, job.place / "other-place")
    first, second = [(word, 100) for word in words], [(word, 600) for word in words]
    end = [("end", 1_000_000)]
    job.run(first, 3, Windows(window, "5 s"))
    assert job.rescale(4).bolts[0].key_function == function
    job.run(second + end, 4, Windows(window, "5 s"))
    expected.run(first, 3, Windows(window, "5 s"))
    expected.run(second + end, 3, Windows(window, "5 s"))
    assert sorted(job.captured.tuples) == sorted(expected.captured.tuples)
    assert len(job.captured.tuples) >= len(words)


def test_the_keys_of_one_task_do_not_tell_whether_they_are_of_windows(job: Job) -> None:
    job.run([(word, 100) for word in WORDS], 1, Windows(Tumbling("1 s")))
    with pytest.raises(MigrationRefused):
        job.rescale(3)
    job.rescale(3, key_functions={"key[0]": KEY_FUNCTIONS["key[0]"]})
    job.run([*((word, 200) for word in WORDS), ("end", 1_000_000)], 3, Windows(Tumbling("1 s")))
    counts = {key: count for key, start, count in job.captured.tuples}
    assert counts == {word: 2 * count for word, count in Counter(WORDS).items()}


class Prefixed(StatefulBolt):
    def execute(self, tup: Any) -> None:
        key = f"word:{tup[0]}"
        self.state.put(key, self.state.get(key, 0) + 1)
        self.collector.ack(tup)


def without_prefix(key: str) -> str:
    return key.removeprefix("word:")


def test_a_key_function_returns_the_grouping_value(job: Job) -> None:
    job.run(WORDS, 3, Prefixed())
    with pytest.raises(MigrationRefused):
        job.rescale(4)
    assert job.run([], 3, Prefixed()) == {f"word:{word}": count for word, count in Counter(WORDS).items()}
    job.rescale(4, key_functions={"mine": without_prefix})
    expected = {f"word:{word}": count for word, count in Counter(WORDS + WORDS).items()}
    assert job.run(WORDS, 4, Prefixed()) == expected


def raising(key: Any) -> Any:
    raise KeyError(key)


@pytest.mark.parametrize("function", [raising, lambda key: [key]])
def test_a_key_function_that_fails_changes_nothing(job: Job, function: Any) -> None:
    job.run(WORDS, 3)
    with pytest.raises(MigrationRefused):
        job.rescale(4, key_functions={"mine": function})
    assert job.run([], 3) == Counter(WORDS)


def test_what_cannot_be_divided_is_refused(job: Job) -> None:
    with pytest.raises(MigrationRefused):
        job.rescale(3)
    job.run(WORDS, 2, grouping="shuffle_grouping")
    for tasks, component in ((3, "count"), (3, "other"), (3, "__acker"), (0, "count")):
        with pytest.raises(MigrationRefused):
            job.rescale(tasks, component)
    assert sum(job.run([], 2, grouping="shuffle_grouping").values()) > 0


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.timeout(300)
def test_a_rescaling_that_is_killed_anywhere_is_finished_by_the_same_command(
    after: bool, name: str, tmp_path: Path
) -> None:
    whole = SqliteStateProvider(str(tmp_path / "whole"))
    Job(whole, name, tmp_path / "place").run(WORDS, 2)
    repeated = was_decided = 0
    for number in range(1, 100):
        job = Job(SqliteStateProvider(str(tmp_path / f"store-{number}")), name, tmp_path / f"place-{number}")
        shutil.copytree(whole.directory, tmp_path / f"store-{number}")
        shutil.copytree(tmp_path / "place", job.place)
        with pytest.MonkeyPatch.context() as patched:
            killed = KilledAt(patched, number, after=after)
            with suppress(Killed):
                job.rescale(3)
            if killed.left > 0:
                break
        report = job.rescale(3)
        repeated += report.txid is not None
        was_decided += report.txid is None
        assert job.run(LATER, 3) == Counter(WORDS + LATER)
    assert repeated > 5
    assert was_decided > 3


def test_a_run_on_a_rescaling_that_was_killed_before_its_decision_goes_on_as_before(job: Job) -> None:
    job.run(WORDS, 2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("anchorbolt.checkpoint.decision_log.DecisionLog.decide", raise_killed)
        with pytest.raises(Killed):
            job.rescale(5)
    assert job.run(LATER, 2) == Counter(WORDS + LATER)
    job.rescale(5)
    assert job.run([], 5) == Counter(WORDS + LATER)


def test_entries_are_moved_in_parts(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace_changes, "_WAITING_BYTES", 500)
    words = [f"word-{number}" for number in range(200)]
    job.run(words, 2, Reminds())
    job.rescale(3)
    job.clock.advance(6)
    assert job.run(["be"], 3, Reminds()) == {**dict.fromkeys(words, 1), "be": 1}
    assert sorted(value for (value,) in job.captured.tuples) == sorted(words)


def test_the_batches_of_a_transactional_topology_continue_behind_a_rescaling(job: Job) -> None:
    source = MemoryTransactionalSpout({0: [(word,) for word in WORDS]}, ["word"], 4)

    def run(tasks: int) -> dict[Any, Any]:
        builder = TransactionalTopologyBuilder(job.name, "in", source)
        builder.set_bolt("words", Words()).shuffle_grouping("in")
        builder.set_committer_bolt("count", Sum(), tasks).fields_grouping("words", "word")
        settings = {"topology.checkpoint.location": str(job.place), **conf_of(job.provider)}
        handle = LocalCluster().submit(builder.build_topology(), settings)
        assert handle.await_termination(60)
        return dict(handle.state_items("count"))

    assert run(2) == Counter(WORDS)
    job.rescale(4)
    source = MemoryTransactionalSpout({0: [(word,) for word in WORDS + LATER]}, ["word"], 4)
    assert run(4) == Counter(WORDS + LATER)


@given(keys=st.lists(KEYS, max_size=30), numbers=st.tuples(st.integers(1, 7), st.integers(1, 7)))
def test_a_survey_proves_keys_that_are_grouped_by_themselves(keys: list[Any], numbers: tuple[int, int]) -> None:
    before, after = numbers
    survey = Survey("count", {"key": whole_key}, before, after)
    expected = 0
    for task in range(before):
        there = [key for key, place in zip(keys, tasks_of(whole_key, keys, before), strict=True) if place == task]
        survey.add(task, there)
        expected += sum(int(place) != task for place in tasks_of(whole_key, there, after)) if there else 0
    assert survey.proved() == "key"
    assert (survey.keys, survey.moving["key"]) == (len(keys), expected)
