"""What a driver does where two drivers, a crash or a wrong location come between two of its steps."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts import BaseBasicBolt, BaseRichBolt, BaseStatefulBolt, OutputCollector, ParquetSink
from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.checkpoint.namespaces import Namespaces
from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine import LocalCluster
from anchorbolt.engine.local.cluster import _LocalRunner
from anchorbolt.engine.submit.handle import checkpoint_spout
from anchorbolt.engine.submit.submission import prepare_plan
from anchorbolt.errors import BoltError, FaultInjected, Fenced, QueryChanged, StateRegressed, WaveFailed
from anchorbolt.faults.points import FaultPoint, PointReached, observe
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.contract import Fence, Seal, StagedSlice
from anchorbolt.state_backends.memory import MemoryStateProvider, MemoryStateStorage
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.groupings import CustomStreamGrouping, GlobalStreamId
from anchorbolt.streams.tuple import Tuple
from anchorbolt.topology import TopologyBuilder
from anchorbolt.util.locations import open_folder
from tests.engine.jobs import feeder, word_count


class SecondDriver(BaseBasicBolt):
    """Lets another driver of the same topology run to its end, once, in the middle of a wave."""

    act: Any = None

    def execute(self, tup: Tuple, collector: Any) -> None:
        act, SecondDriver.act = SecondDriver.act, None
        if act is not None:
            act()
        collector.emit((tup[0],))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")


def stateless(spout: FeederSpout, out: Path) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("words", spout)
    builder.set_bolt("pass", SecondDriver()).shuffle_grouping("words")
    builder.set_bolt("out", ParquetSink(str(out))).global_grouping("pass")
    return builder.create_topology("stateless")


def test_an_older_driver_without_any_state_is_fenced_and_publishes_nothing(tmp_path: Path) -> None:
    cluster = LocalCluster()
    conf = {"topology.checkpoint.location": str(tmp_path / "checkpoint")}

    def run_newer() -> None:
        newer = cluster.submit(stateless(feeder(["new"]), tmp_path / "out"), conf)
        assert newer.await_termination(30)

    SecondDriver.act = run_newer
    older = cluster.submit(stateless(feeder(["old"]), tmp_path / "out"), conf)
    with pytest.raises(Fenced):
        older.await_termination(30)
    assert pq.read_table(tmp_path / "out").to_pylist() == [{"word": "new"}]


def test_a_checkpoint_location_of_another_topology_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    conf = {"topology.checkpoint.location": str(tmp_path / "one")}
    one = LocalCluster()
    assert one.submit(word_count(feeder(["a"]), name="one"), conf).await_termination(30)
    two = LocalCluster()
    assert two.submit(word_count(feeder(["a"]), name="two")).await_termination(30)
    before = {name: two._memory.open(name).head() for name in two._memory.namespaces()}
    with pytest.raises(QueryChanged, match="belongs to topology 'one'"):
        two.submit(word_count(feeder(["a"]), name="two"), conf)
    assert {name: two._memory.open(name).head() for name in two._memory.namespaces()} == before


def test_a_location_whose_query_the_store_never_saw_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"11111111-2222-3333-4444-555555555555"}')
    memory = MemoryStateProvider()
    plan = prepare_plan(word_count(feeder()), None, memory=memory, location=str(tmp_path))
    spout = checkpoint_spout(plan, open_folder(str(tmp_path)), Mock())
    with pytest.raises(QueryChanged):
        spout.recover("11111111-2222-3333-4444-555555555555")
    assert list(memory.namespaces()) == []
    spout.close()


def test_a_decision_whose_copy_was_never_written_is_copied_by_the_next_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = LocalCluster()
    conf = {"topology.checkpoint.location": str(tmp_path)}
    assert cluster.submit(word_count(feeder(["a"])), conf).await_termination(30)
    copy = DecisionLog.copy

    def dies(self: DecisionLog, record: Any) -> None:
        if record.txid == 1:
            raise RuntimeError("killed here")
        copy(self, record)

    with monkeypatch.context() as patched:
        patched.setattr(DecisionLog, "copy", dies)
        handle = cluster.submit(word_count(feeder(["b"])), conf)
        with pytest.raises(RuntimeError, match="killed here"):
            handle.await_termination(30)
    again = cluster.submit(word_count(feeder()), conf)
    assert again.recovery is not None
    assert again.recovery.action == "rolled forward"
    assert again.await_termination(30)
    assert again.state("count") == {"a": 1, "b": 1}
    with pytest.raises(StateRegressed, match="txid 1"):
        LocalCluster().submit(word_count(feeder()), conf)


class FailsInHook(BaseStatefulBolt[KeyValueState[str, int]]):
    """Counts words; raises, or fails a tuple, in a hook, once."""

    left: dict[str, int] = {}  # noqa: RUF012 - shared by the instances of a test

    def __init__(self, hook: str) -> None:
        self.hook = hook

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.collector = collector

    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.counts = state

    def execute(self, tup: Tuple) -> None:
        self.last = tup
        self.counts.put(tup[0], self.counts.get(tup[0], 0) + 1)

    def meet(self, hook: str) -> bool:
        if self.hook != hook or not self.left.get(hook):
            return False
        self.left[hook] -= 1
        return True

    def pre_prepare(self, txid: int) -> None:
        if self.meet("pre_prepare"):
            self.collector.fail(self.last)

    def pre_commit(self, txid: int) -> None:
        if self.meet("pre_commit"):
            raise RuntimeError("in pre_commit")

    def pre_rollback(self) -> None:
        self.counts.get("anything")


def hooked(spout: FeederSpout, hook: str) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("words", spout)
    builder.set_bolt("count", FailsInHook(hook), 2).fields_grouping("words", "sentence")
    return builder.create_topology("hooked")


def test_a_tuple_failed_in_pre_prepare_fails_the_wave() -> None:
    FailsInHook.left["pre_prepare"] = 1
    handle = LocalCluster().submit(hooked(feeder(["a"]), "pre_prepare"))
    assert handle.await_termination(30)
    assert [report.rounds for report in handle.reports] == [2]
    assert handle.state("count") == {"a": 1}


def test_an_exception_in_pre_commit_ends_the_run_and_the_next_one_commits_the_batch_once() -> None:
    FailsInHook.left["pre_commit"] = 1
    cluster, spout = LocalCluster(), feeder(["a"], ["b"])
    handle = cluster.submit(hooked(spout, "pre_commit"))
    with pytest.raises(BoltError, match="in pre_commit"):
        handle.await_termination(30)
    again = cluster.submit(hooked(spout, "pre_commit"))
    assert again.await_termination(30)
    assert again.state("count") == {"a": 1, "b": 1}


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
    assert LocalCluster().submit(builder.create_topology("custom")).await_termination(30)
    assert Meets.pairs == {(1, 3), (2, 4)}


def test_a_wave_that_fails_for_good_leaves_nothing_staged() -> None:
    cluster = LocalCluster()

    def fail(place: PointReached) -> None:
        if place.point is FaultPoint.ROUND_ENDED:
            raise FaultInjected("after everything is staged and sealed")

    before = observe(fail)
    try:
        handle = cluster.submit(word_count(feeder(["a b c"])), {"topology.max.batch.retries": 0})
        with pytest.raises(FaultInjected):
            handle.await_termination(30)
    finally:
        observe(before)
    heads = {name: cluster._memory.open(name).head() for name in cluster._memory.namespaces()}
    assert len(heads) > 1
    assert {name: dict(head.attempts) for name, head in heads.items()} == {name: {} for name in heads}


def test_what_an_older_driver_stages_until_it_is_fenced_is_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LocalCluster()
    assert cluster.submit(word_count(feeder(["a"])), None).await_termination(30)
    storage = cluster._memory.open("word-count:count-0")
    head = storage.head()
    raise_fence = Namespaces.raise_fence

    def staged_meanwhile(self: Namespaces, fence: Fence) -> Any:
        storage.stage(
            StagedSlice(Fence(1, 9), head.committed + 1, "f" * 32, head.committed, 0, {b"a": b"b"}, head.codec)
        )
        return raise_fence(self, fence)

    monkeypatch.setattr(Namespaces, "raise_fence", staged_meanwhile)
    newer = cluster.submit(word_count(feeder()), None)
    assert newer.recovery is not None
    assert newer.recovery.action == "rolled back"
    assert newer.await_termination(30)
    assert not storage.head().attempts


def test_a_task_that_reports_twice_fails_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    run_round = _LocalRunner.run_round

    def twice(self: _LocalRunner, current: Round) -> Any:
        reports = list(run_round(self, current))
        return [*reports, replace(reports[-1], attempt="f" * 32)]

    monkeypatch.setattr(_LocalRunner, "run_round", twice)
    handle = LocalCluster().submit(word_count(feeder(["a"])), {"topology.max.batch.retries": 0})
    with pytest.raises(WaveFailed, match="reported twice"):
        handle.await_termination(30)


def test_a_task_that_saw_another_attempt_than_won_fails_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    run_round = _LocalRunner.run_round

    def seen_otherwise(self: _LocalRunner, current: Round) -> Any:
        *reports, last = run_round(self, current)
        assert last.seen
        return [*reports, replace(last, seen=dict.fromkeys(last.seen, "f" * 32))]

    monkeypatch.setattr(_LocalRunner, "run_round", seen_otherwise)
    handle = LocalCluster().submit(word_count(feeder(["a"])), {"topology.max.batch.retries": 0})
    with pytest.raises(WaveFailed, match="saw other attempts"):
        handle.await_termination(30)


def test_each_round_of_a_wave_has_a_higher_fence_than_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    fences: list[Fence] = []
    stage = MemoryStateStorage.stage

    def noted(self: MemoryStateStorage, staged: StagedSlice) -> Seal:
        fences.append(staged.fence)
        return stage(self, staged)

    monkeypatch.setattr(MemoryStateStorage, "stage", noted)
    failures = [FaultInjected("once"), FaultInjected("twice")]

    def fail(place: PointReached) -> None:
        if place.point is FaultPoint.ROUND_ENDED and failures:
            raise failures.pop()

    before = observe(fail)
    try:
        assert LocalCluster().submit(word_count(feeder(["a"], ["b"])), None).await_termination(30)
    finally:
        observe(before)
    assert len(fences) == 4, "three rounds of the first wave, one of the second"
    assert fences == sorted(set(fences))


def test_a_lost_claim_is_a_store_that_lost_data_not_another_driver() -> None:
    cluster = LocalCluster()
    for word in "ab":
        assert cluster.submit(word_count(feeder([word])), None).await_termination(30)
    spout = cluster._memory._namespaces["word-count:$checkpointspout-0"]
    before = {name: cluster._memory.open(name).head() for name in cluster._memory.namespaces()}
    spout.metadata = replace(spout.metadata, fence=Fence(0, 0))
    with pytest.raises(StateRegressed, match="knows only 0"):
        cluster.submit(word_count(feeder(["c"])), None)
    spout.metadata = replace(spout.metadata, fence=before["word-count:$checkpointspout-0"].fence)
    assert {name: cluster._memory.open(name).head() for name in cluster._memory.namespaces()} == before
