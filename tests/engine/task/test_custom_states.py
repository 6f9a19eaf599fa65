"""States of a user's own class: committed by the driver's decision, rolled back, rolled forward, and kept apart."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.errors import CodecMismatch, ConfigError, FaultInjected, StateError, StateRegressed, TopologyError
from anchorbolt.observe.figures.state_sizes import total
from anchorbolt.state_backends import AttemptState, KeyValueState, State
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.streams import TopologyContext
from anchorbolt.testing import FaultPoint
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.conftest import Watch
from tests.engine.custom_states import CountInCustom, CountWithHooks, StormCounts, committed_counts
from tests.engine.jobs import BEFORE_THE_DECISION, CountWords, Strikes, words

NAME = "custom"
CUSTOM = ("storm", "attempts")


@pytest.fixture(autouse=True)
def _forget() -> None:
    StormCounts.calls.clear()
    StormCounts.fail_after_commit.clear()
    CountInCustom.failures.clear()
    CountInCustom.seen.clear()


class Job:
    """A topology with a `KeyValueState` and both custom states, over one folder."""

    def __init__(self, folder: Path) -> None:
        self.custom = folder / "custom"
        self.conf: dict[str, Any] = {
            "topology.state.provider": "tests.engine.custom_states.CustomProvider",
            "topology.state.provider.config": {"directory": str(folder / "sqlite"), "custom": str(self.custom)},
            "topology.checkpoint.location": str(folder / "checkpoint"),
            "topology.max.batch.retries": 0,
        }
        (folder / "sqlite").mkdir()

    def topology(self, *batches: str, bolt: type[CountInCustom] = CountInCustom, without: str = "") -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("words", words(*batches))
        builder.set_bolt("count", CountWords(), 2).fields_grouping("words", "word")
        for name in CUSTOM:
            if name != without:
                builder.set_bolt(name, bolt(), 2).fields_grouping("words", "word")
        return builder.create_topology(NAME)

    def submit(self, *batches: str, retries: int = 0, **options: Any) -> RunHandle:
        conf = {**self.conf, "topology.max.batch.retries": retries}
        return LocalCluster().submit(self.topology(*batches, **options), conf)

    def run(self, *batches: str, **options: Any) -> RunHandle:
        handle = self.submit(*batches, **options)
        assert handle.await_termination(60)
        return handle

    def counts(self, component: str) -> Counter[str]:
        return committed_counts(self.custom, NAME, component, 2)

    def holds(self, words: str) -> bool:
        """Whether all three states are the count of these words, and nothing is left that was prepared."""
        expected = Counter(words.split())
        assert {name: self.counts(name) for name in CUSTOM} == dict.fromkeys(CUSTOM, expected)
        assert self.run().state("count") == expected
        assert not list(self.custom.rglob("prepared*"))
        return True


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_custom_states_are_the_count_of_the_words_after_waves_rollbacks_and_restarts(job: Job) -> None:
    CountInCustom.failures.update({"c": 1, "d": 4})
    handle = job.run("a b a", "c a", "d", retries=4)
    assert [report.rounds for report in handle.reports] == [1, 2, 3]
    assert job.holds("a b a c a d")
    job.run("a", "e f")
    assert job.holds("a b a c a d a e f")


def test_the_calls_of_a_state_with_storms_four_methods(job: Job) -> None:
    CountInCustom.failures["b"] = 1
    job.run("a", "a", "b", retries=1)
    objects: dict[int, list[tuple[str, Any]]] = {}
    for identity, name, txid in StormCounts.calls:
        objects.setdefault(identity, []).append((name, txid))
    drivers = [calls for calls in objects.values() if ("rollback", None) in calls]
    assert len(drivers) == 2, "one for each task"
    for calls in drivers:
        assert calls == [("commit", 0), ("commit", 1), ("rollback", None), ("commit", 2), ("close", None)]
    tasks = [calls for calls in objects.values() if ("rollback", None) not in calls]
    used_again = [calls for calls in tasks if calls[:1] == [("prepare_commit", 0)]]
    assert len(used_again) == 2
    for calls in used_again:
        # Its own commit comes before the next wave's first tuple.
        assert calls[:3] == [("prepare_commit", 0), ("commit", 0), ("prepare_commit", 1)]


POINTS = """
    ROUND_BEGUN TASK_EXECUTED SLICE_STAGED STAGED SEALED TASK_PREPARED ROUND_ENDED DECIDED DECISION_COPIED HOOKS_CALLED
    NAMESPACE_COMMITTED NAMESPACES_COMMITTED COMMITTED
"""


@pytest.mark.slow
@pytest.mark.parametrize("bolt", [CountInCustom, CountWithHooks])
@pytest.mark.parametrize("point", [FaultPoint[name] for name in POINTS.split()], ids=lambda point: point.value)
def test_a_driver_that_dies_anywhere_in_a_wave_has_one_effect(
    point: FaultPoint, watch: Watch, job: Job, bolt: type[CountInCustom]
) -> None:
    watch(Strikes(point, *CUSTOM))
    with pytest.raises(FaultInjected):
        job.run("a b", "b c d", "a", bolt=bolt)
    rest = ["b c d", "a"] if point in BEFORE_THE_DECISION else ["a"]
    job.run(*rest, bolt=bolt)
    assert job.holds("a b b c d a")


@pytest.mark.parametrize("bolt", [CountInCustom, CountWithHooks])
def test_a_driver_that_dies_between_the_users_commit_and_ours_commits_once(job: Job, bolt: type[CountInCustom]) -> None:
    StormCounts.fail_after_commit += [1, 1]
    with pytest.raises(FaultInjected):
        job.run("a b", "b c d", "a", bolt=bolt)
    if StormCounts.fail_after_commit:
        with pytest.raises(FaultInjected):
            job.submit("a", bolt=bolt)
    assert job.run("a", bolt=bolt).recovery.action == "rolled forward"
    assert job.holds("a b b c d a")


def test_a_custom_store_that_lost_data_is_noticed_by_the_state_that_checks(job: Job) -> None:
    job.run("a b c d")
    for folder in job.custom.glob("custom_attempts-*"):
        shutil.rmtree(folder)
    with pytest.raises(StateRegressed, match="custom_attempts"):
        job.run("a")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_bolt_whose_state_becomes_another_kind_of_state_is_refused(job: Job, tmp_path: Path) -> None:
    job.run("a b")
    before = contents(job.custom)
    conf = {**job.conf, "topology.state.provider": "sqlite"}
    conf["topology.state.provider.config"] = {"directory": str(tmp_path / "sqlite")}
    with pytest.raises(CodecMismatch, match=r"'custom state'.*Set topology\.state\.provider back"):
        LocalCluster().submit(job.topology("a"), conf)
    assert contents(job.custom) == before
    job.run("a b")


def test_a_decided_wave_waits_for_the_bolt_whose_custom_state_it_changes(job: Job, watch: Watch) -> None:
    watch(Strikes(FaultPoint.HOOKS_CALLED))
    with pytest.raises(FaultInjected):
        job.run("a", "b c d")
    with pytest.raises(TopologyError, match="custom:attempts-0"):
        job.submit(without="attempts")
    job.run()
    assert job.holds("a b c d")


def test_a_custom_state_has_no_entries_for_the_handle_to_read(job: Job) -> None:
    handle = job.run("a")
    with pytest.raises(StateError, match="state of its own class"):
        handle.state("storm")
    with pytest.raises(StateError, match="state of its own class"):
        handle.lookup("storm", "a")
    assert list(handle.lookup("count", "a").values()) == [1]


def test_the_size_of_a_custom_state_is_unknown(job: Job) -> None:
    handle = job.run("a")
    handle.observe().state_sizes.start()
    handle.observe().state_sizes.close()
    sizes = handle.observe().state_sizes.measured().tasks
    assert sizes["storm", 0] == sizes["attempts", 1] == (None, None)
    assert total(size for task, size in sizes.items() if task[0] == "count").keys == 1


class Returns(MemoryStateProvider):
    """Its `new_state` returns, or raises, what it was made with."""

    def __init__(self, made: Any) -> None:
        super().__init__()
        self.made = made

    def new_state(self, namespace: str, context: TopologyContext) -> State | None:
        if isinstance(self.made, Exception):
            raise self.made
        made: State | None = self.made
        return made


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (KeyValueState(MemoryStateProvider().open("n")), "returned a KeyValueState"),
        ({}, "returned a dict"),
        (AttemptState, "returned a ABCMeta"),
        (ZeroDivisionError("in there"), "raised ZeroDivisionError: in there"),
    ],
)
def test_a_provider_that_returns_no_state_is_refused_naming_it(
    job: Job, monkeypatch: pytest.MonkeyPatch, made: Any, says: str
) -> None:
    monkeypatch.setattr("anchorbolt.run.preparation.provider_from", lambda *_, **__: Returns(made))
    with pytest.raises(ConfigError, match=says) as caught:
        job.submit("a")
    assert "test_custom_states.Returns.new_state" in caught.value.message


def test_what_a_users_commit_raises_ends_the_run_with_its_traceback_and_the_next_start_commits(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, failures = StormCounts.commit, [OSError("no space left")]

    def fail_once(self: StormCounts, txid: int | None = None) -> None:
        if failures:
            raise failures.pop()
        commit(self, txid)

    monkeypatch.setattr(StormCounts, "commit", fail_once)
    with pytest.raises(StateError) as caught:
        job.run("a")
    for part in ("Traceback", "no space left", "StormCounts.commit", "'custom:storm-"):
        assert part in caught.value.message
    assert job.run().recovery.action == "rolled forward"
    assert job.holds("a")
