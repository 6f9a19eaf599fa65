"""What a driver does where two drivers, a crash or a wrong location come between two of its steps."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts import BaseRichBolt, OutputCollector, ParquetSink
from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.checkpoint.namespaces import Namespaces
from anchorbolt.engine import LocalCluster
from anchorbolt.engine.driver.parts_of_run import checkpoints_and_sources
from anchorbolt.engine.local.runner import LocalRunner
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.errors import BoltError, FaultInjected, Fenced, InfrastructureLost, QueryChanged, StateRegressed
from anchorbolt.files import open_folder
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.state_backends.contract import Fence, Seal, StagedSlice
from anchorbolt.state_backends.memory import MemoryStateProvider, MemoryStateStorage
from anchorbolt.streams import CustomStreamGrouping, GlobalStreamId, TopologyContext, Tuple
from anchorbolt.testing import FaultPoint, FeederSpout
from anchorbolt.topology import TopologyBuilder
from tests.engine.conftest import Watch
from tests.engine.jobs import NO_RETRIES, BasicBolt, StatefulBolt, Strikes, chain, feeder, one_bolt, run, word_count
from tests.support.memory_store import heads_of, memory_of, spaces_of


class SecondDriver(BasicBolt):
    """Lets another driver of the same topology run to its end, once, in the middle of a wave."""

    fields = ("word",)

    act: Any = None

    def execute(self, tup: Tuple, collector: Any) -> None:
        act, SecondDriver.act = SecondDriver.act, None
        if act is not None:
            act()
        collector.emit((tup[0],))


def stateless(spout: FeederSpout, out: Path) -> Any:
    return chain("stateless", {"words": spout, "pass": SecondDriver(), "out": ParquetSink(str(out))})


def test_an_older_driver_without_any_state_is_fenced_and_publishes_nothing(tmp_path: Path) -> None:
    cluster = LocalCluster()
    conf = {"topology.checkpoint.location": str(tmp_path / "checkpoint")}

    SecondDriver.act = lambda: run(cluster, stateless(feeder("new"), tmp_path / "out"), conf)
    with pytest.raises(Fenced):
        run(cluster, stateless(feeder("old"), tmp_path / "out"), conf)
    assert pq.read_table(tmp_path / "out").to_pylist() == [{"word": "new"}]


def test_a_checkpoint_location_of_another_topology_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    conf = {"topology.checkpoint.location": str(tmp_path / "one")}
    run(LocalCluster(), word_count(feeder("a"), name="one"), conf)
    two = LocalCluster()
    run(two, word_count(feeder("a"), name="two"))
    before = heads_of(two)
    with pytest.raises(QueryChanged, match="belongs to topology 'one'"):
        two.submit(word_count(feeder("a"), name="two"), conf)
    assert heads_of(two) == before


def test_a_location_whose_query_the_store_never_saw_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"11111111-2222-3333-4444-555555555555"}')
    memory = MemoryStateProvider()
    plan = prepare_plan(word_count(feeder()), None, memory=memory, location=str(tmp_path))
    spout, _ = checkpoints_and_sources(plan, open_folder(str(tmp_path)), Mock(processing=None))
    with pytest.raises(QueryChanged):
        spout.recover("11111111-2222-3333-4444-555555555555")
    assert list(memory.namespaces()) == []
    spout.close()


def test_a_decision_whose_copy_was_never_written_is_copied_by_the_next_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = LocalCluster()
    conf = {"topology.checkpoint.location": str(tmp_path)}
    run(cluster, word_count(feeder("a")), conf)
    copy = DecisionLog.copy

    def dies(self: DecisionLog, record: Any) -> None:
        if record.txid == 1:
            raise RuntimeError("killed here")
        copy(self, record)

    with monkeypatch.context() as patched:
        patched.setattr(DecisionLog, "copy", dies)
        with pytest.raises(RuntimeError, match="killed here"):
            run(cluster, word_count(feeder("b")), conf)
    again = run(cluster, word_count(feeder()), conf)
    assert again.recovery.action == "rolled forward"
    assert again.state("count") == {"a": 1, "b": 1}
    with pytest.raises(StateRegressed, match="txid 1"):
        LocalCluster().submit(word_count(feeder()), conf)


class FailsInHook(StatefulBolt):
    """Counts words; raises, or fails a tuple, in a hook, once."""

    left: list[str] = []  # noqa: RUF012 - the hooks, shared by the instances of a test

    def execute(self, tup: Tuple) -> None:
        self.last = tup
        super().execute(tup)

    def pre_prepare(self, txid: int) -> None:
        if "pre_prepare" in self.left:
            self.left.remove("pre_prepare")
            self.collector.fail(self.last)

    def pre_commit(self, txid: int) -> None:
        if "pre_commit" in self.left:
            self.left.remove("pre_commit")
            raise RuntimeError("in pre_commit")

    def pre_rollback(self) -> None:
        self.state.get("anything")


def test_a_tuple_failed_in_pre_prepare_fails_the_wave() -> None:
    FailsInHook.left.append("pre_prepare")
    handle = run(LocalCluster(), one_bolt(FailsInHook(), feeder("a"), 2))
    assert [report.rounds for report in handle.reports] == [2]
    assert handle.state("bolt") == {"a": 1}


def test_an_exception_in_pre_commit_ends_the_run_and_the_next_one_commits_the_batch_once() -> None:
    FailsInHook.left.append("pre_commit")
    cluster, topology = LocalCluster(), one_bolt(FailsInHook(), feeder("a", "b"), 2)
    with pytest.raises(BoltError, match="in pre_commit"):
        run(cluster, topology)
    assert run(cluster, topology).state("bolt") == {"a": 1, "b": 1}


class ByContext(CustomStreamGrouping):
    """Sends everything to the task with the emitting task's own index."""

    def prepare(self, context: TopologyContext, stream: GlobalStreamId, target_tasks: Sequence[int]) -> None:
        self.task = target_tasks[context.this_task_index]

    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        return [self.task]


class Meets(BaseRichBolt):
    pairs: set[tuple[int, int]] = set()  # noqa: RUF012 - shared by the instances of a test

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.task = context.this_task_id

    def execute(self, tup: Tuple) -> None:
        self.pairs.add((tup.source_task, self.task))


def test_each_emitting_task_has_a_custom_grouping_of_its_own() -> None:
    builder = TopologyBuilder()
    builder.set_spout("words", FeederSpout(["word"], [[(number,) for number in range(20)]]))
    builder.set_bolt("pass", SecondDriver(), 2).shuffle_grouping("words")
    builder.set_bolt("meets", Meets(), 2).custom_grouping("pass", ByContext())
    run(LocalCluster(), builder.create_topology("custom"))
    assert Meets.pairs == {(1, 3), (2, 4)}


def test_a_wave_that_fails_for_good_leaves_nothing_staged(watch: Watch) -> None:
    cluster = LocalCluster()
    watch(Strikes(FaultPoint.ROUND_ENDED, txid=0))  # after everything is staged and sealed
    with pytest.raises(FaultInjected):
        run(cluster, word_count(feeder("a b c")), NO_RETRIES)
    assert len(heads_of(cluster)) > 1
    assert not any(head.attempts for head in heads_of(cluster).values())


def test_what_an_older_driver_stages_until_it_is_fenced_is_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LocalCluster()
    run(cluster, word_count(feeder("a")))
    storage = memory_of(cluster).open("word-count:count-0")
    head = storage.head()
    raise_fence = Namespaces.raise_fence

    def staged_meanwhile(self: Namespaces, fence: Fence) -> Any:
        storage.stage(
            StagedSlice(Fence(1, 9), head.committed + 1, "f" * 32, head.committed, 0, {b"a": b"b"}, head.codec)
        )
        return raise_fence(self, fence)

    monkeypatch.setattr(Namespaces, "raise_fence", staged_meanwhile)
    assert run(cluster, word_count(feeder())).recovery.action == "rolled back"
    assert not storage.head().attempts


def twice(*reports: TaskReport) -> list[TaskReport]:
    return [*reports, replace(reports[-1], attempt="f" * 32)]


def received_otherwise(*reports: TaskReport) -> list[TaskReport]:
    [*others, last] = sorted(reports, key=lambda report: report.received.blobs)
    assert last.received.blobs
    return [*others, replace(last, received=last.received._replace(digest=1))]


@pytest.mark.usefixtures("loss_clock")
@pytest.mark.parametrize(("changed", "says"), [(twice, "reported twice"), (received_otherwise, "saw other attempts")])
def test_a_task_that_reports_twice_or_saw_another_attempt_than_won_fails_the_round(
    monkeypatch: pytest.MonkeyPatch, changed: Any, says: str
) -> None:
    run_round = LocalRunner.run_round
    monkeypatch.setattr(LocalRunner, "run_round", lambda self, current: changed(*run_round(self, current)))
    with pytest.raises(InfrastructureLost, match=says):
        run(LocalCluster(), word_count(feeder("a")), NO_RETRIES)


def test_each_round_of_a_wave_has_a_higher_fence_than_the_one_before(
    monkeypatch: pytest.MonkeyPatch, watch: Watch
) -> None:
    fences: list[Fence] = []
    stage = MemoryStateStorage.stage

    def noted(self: MemoryStateStorage, staged: StagedSlice) -> Seal:
        fences.append(staged.fence)
        return stage(self, staged)

    monkeypatch.setattr(MemoryStateStorage, "stage", noted)
    watch(Strikes(FaultPoint.ROUND_ENDED, txid=0, times=2))
    run(LocalCluster(), word_count(feeder("a", "b")))
    assert len(fences) == 4, "three rounds of the first wave, one of the second"
    assert fences == sorted(set(fences))


def test_a_lost_claim_is_a_store_that_lost_data_not_another_driver() -> None:
    cluster = LocalCluster()
    for word in "ab":
        run(cluster, word_count(feeder(word)))
    spout = spaces_of(cluster)["word-count:$checkpointspout-0"]
    before, metadata = heads_of(cluster), spout.metadata
    spout.metadata = replace(metadata, fence=Fence(0, 0))
    with pytest.raises(StateRegressed) as caught:
        cluster.submit(word_count(feeder("c")))
    assert caught.value.found == "generation 0"
    spout.metadata = metadata
    assert heads_of(cluster) == before
