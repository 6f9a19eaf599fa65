"""The points that the engine reaches, and the faults with which it refuses to start."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import BaseStatefulBolt, ParquetSink
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import ConfigError
from anchorbolt.faults import points
from anchorbolt.faults.injection import FAULTS_VARIABLE, FaultFolder
from anchorbolt.faults.points import FaultPoint, PointReached, observe
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams import Tuple
from anchorbolt.testing import Fault, FaultAction
from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.jobs import word_count
from tests.support.stores import settings_of

STATE_TASKS = {("count", 0), ("count", 1)}
OF_BATCHES = {point for point in FaultPoint if point.value.startswith("batch.")}
HERE = set(FaultPoint) - {FaultPoint.SINK_MESSAGES_SENT}  # that one needs Kafka: tests/bolts/kafka/test_kafka_sink.py


@pytest.fixture(autouse=True)
def unobserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the observer after a test."""
    monkeypatch.setattr(points, "_observer", None)


@pytest.fixture
def conf(tmp_path: Path) -> Mapping[str, Any]:
    """State in SQLite: its commits apply slices."""
    return {"topology.checkpoint.location": str(tmp_path / "checkpoint"), **settings_of(tmp_path / "state")}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FaultFolder:
    """The faults of the runs of this test."""
    folder = FaultFolder(tmp_path / "faults")
    monkeypatch.setenv(FAULTS_VARIABLE, str(folder.path))
    return folder


def run(tmp_path: Path, conf: Mapping[str, Any]) -> None:
    spout = FeederSpout(["sentence"], [[("to be or not to be",)], [("to be the question or not",)]])
    handle = LocalCluster(seed=1).submit(word_count(spout, ParquetSink(str(tmp_path / "out"))), conf)
    assert handle.await_termination(60)


def run_batches(conf: Mapping[str, Any]) -> None:
    """Run a transactional topology: it alone reaches the points of batches."""
    spout = MemoryTransactionalSpout({0: [("to",), ("be",)]}, ["word"], take=1)
    builder = TransactionalTopologyBuilder("batches", "words", spout)
    builder.set_committer_bolt("count", CountWords()).global_grouping("words")
    assert LocalCluster(seed=1).submit(builder.build_topology(), own_location(conf)).await_termination(60)


def own_location(conf: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**conf, "topology.checkpoint.location": f"{conf['topology.checkpoint.location']}-batches"}


class CountWords(BaseStatefulBolt[KeyValueState[str, int]]):
    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.counts = state

    def execute(self, tup: Tuple) -> None:
        self.counts.put(tup["word"], self.counts.get(tup["word"], 0) + 1)


def test_each_point_is_reached_with_the_component_task_and_transaction_that_it_has(
    tmp_path: Path, conf: Mapping[str, Any]
) -> None:
    seen: list[PointReached] = []
    failed: list[PointReached] = []

    def record(reached: PointReached) -> None:
        seen.append(reached)
        if reached.point is FaultPoint.TASK_ALIGNED and reached.txid == 0 and not failed:
            failed.append(reached)
            raise RuntimeError("so that a round is rolled back")

    observe(record)
    run(tmp_path, conf)
    assert {each.point for each in seen} == HERE - OF_BATCHES
    run_batches(conf)
    assert {each.point for each in seen} == HERE
    for each in seen:
        assert bool(each.component) == each.point.has_component, each
        assert (each.task_index >= 0) == each.point.has_task, each
    first = {point: min(each.txid for each in seen if each.point is point) for point in HERE}
    for point in HERE:
        assert first[point] == (-1 if point.first_txid is None else point.first_txid), point
    for point in (FaultPoint.SLICE_APPLIED, FaultPoint.NAMESPACE_COMMITTED):
        assert {(each.component, each.task_index) for each in seen if each.point is point} == STATE_TASKS, point


def test_faults_in_a_commit_strike_at_their_task_and_one_for_any_task_of_a_spout_is_accepted(
    tmp_path: Path, conf: Mapping[str, Any], folder: FaultFolder
) -> None:
    in_commit = (FaultPoint.SLICE_APPLIED, FaultPoint.NAMESPACE_COMMITTED)
    faults = [Fault(point, FaultAction.DELAY, component="count", task_index=1, txid=1) for point in in_commit]
    of_a_spout = Fault(FaultPoint.TASK_BEGUN, FaultAction.DELAY, component="sentences", task_index=7)
    folder.write([*faults, of_a_spout])  # a spout has as many tasks as Spark gives it
    run(tmp_path, conf)
    struck = [event for event in folder.events() if event["event"] == "fault"]
    assert [(each["point"], each["component"], each["task_index"], each["txid"]) for each in struck] == [
        (point.value, "count", 1, 1) for point in in_commit
    ]


@pytest.mark.parametrize(
    ("fault", "hint"),
    [
        (Fault(FaultPoint.SEALED, component="cuont"), "Did you mean 'count'?"),
        (Fault(FaultPoint.SEALED, component="count", task_index=2), "'count' has 2 tasks"),
    ],
)
def test_a_fault_for_an_unknown_component_or_task_is_refused_before_anything_changes(
    tmp_path: Path, conf: Mapping[str, Any], folder: FaultFolder, fault: Fault, hint: str
) -> None:
    folder.write([fault])
    with pytest.raises(ConfigError) as refusal:
        run(tmp_path, conf)
    assert hint in refusal.value.message
    assert [path.name for path in tmp_path.iterdir()] == ["faults"]
    assert [path.name for path in folder.path.iterdir()] == ["faults.json"]
