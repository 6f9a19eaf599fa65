"""What a driver looks at before it rolls a failed round back: whose the topology is, and whose the last decision."""

import copy
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts import ParquetSink
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.location import FolderCopy
from anchorbolt.checkpoint.state_machine import CheckpointState, Phase
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import FaultInjected, Fenced, StateRegressed
from anchorbolt.faults.points import FaultPoint, PointReached, observe
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import word_count

DEADLINE_S = 60


@pytest.fixture
def watch() -> Iterator[Callable[[Callable[[PointReached], None]], None]]:
    """Sets the observer of the fault points for the test."""
    before = observe(None)
    yield lambda watcher: observe(watcher) and None
    observe(before)


def count(*batches: str) -> Topology:
    return word_count(FeederSpout(["sentence"], [[(batch,)] for batch in batches]), parallelism=1)


class FailsOnce:
    """Fails the round of txid 1 once, and acts before it is rolled back."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._left = 1

    def __call__(self, place: PointReached) -> None:
        if place.point is FaultPoint.TASK_PREPARED and place.txid == 1 and self._left:
            self._left -= 1
            raise FaultInjected("so that a round is rolled back")
        if place.point is FaultPoint.ROUND_FAILED:
            self._act()


def test_a_store_that_lost_only_the_mark_of_a_commit_has_lost_nothing(watch: Any) -> None:
    cluster = LocalCluster()

    def lose_the_mark() -> None:
        [space] = [space for name, space in cluster._memory._namespaces.items() if "$checkpointspout" in name]
        [(key, value)] = space.entries.items()
        record = DecisionRecord.decode(value, "the test")
        assert record.winners
        space.entries[key] = replace(record, state=CheckpointState(record.txid, Phase.COMMITTING)).encode()

    watch(FailsOnce(lose_the_mark))
    handle = cluster.submit(count("a", "a b"))
    assert handle.await_termination(DEADLINE_S)
    assert handle.state("count") == {"a": 2, "b": 1}


def test_a_location_that_cannot_be_read_for_a_moment_is_waited_for(watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    watch(FailsOnce(lambda: fail_to_read(monkeypatch, times=1)))
    handle = LocalCluster().submit(count("a", "a b"))
    assert handle.await_termination(DEADLINE_S)
    assert handle.state("count") == {"a": 2, "b": 1}


def test_an_overtaken_driver_is_told_so_where_it_cannot_read_what_the_newer_one_wrote(
    watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = LocalCluster()

    def overtake() -> None:
        observe(None)
        assert cluster.submit(count("b")).await_termination(DEADLINE_S)
        fail_to_read(monkeypatch, times=10**9)

    watch(FailsOnce(overtake))
    conf = {"topology.message.timeout.secs": 1, "topology.state.checkpoint.interval.ms": 100}
    with pytest.raises(Fenced):
        cluster.submit(count("a", "a b"), conf).await_termination(DEADLINE_S)


def fail_to_read(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    read, left = FolderCopy.read, [times]

    def fail(self: FolderCopy) -> bytes | None:
        if left[0]:
            left[0] -= 1
            raise OSError(5, "Input/output error")
        return read(self)

    monkeypatch.setattr(FolderCopy, "read", fail)


class TwoOfOneGeneration:
    """Starts another driver over a store that was put back to before the claim of the one that runs."""

    def __init__(self, cluster: LocalCluster, start: Callable[[], None], until: FaultPoint) -> None:
        self._namespaces = cluster._memory._namespaces
        self._backup = copy.deepcopy(self._namespaces)
        self._other = threading.Thread(target=self._run, args=[start])
        self._until = until
        self._reached, self._goes_on = threading.Event(), threading.Event()
        self._fails = until is FaultPoint.ROUND_ENDED
        self.ended: list[BaseException] = []

    def _run(self, start: Callable[[], None]) -> None:
        try:
            start()
        except Exception as error:
            self.ended.append(error)

    def __call__(self, place: PointReached) -> None:
        if place.point is FaultPoint.RECOVERED and not self._other.ident:
            self._namespaces.clear()
            self._namespaces.update(self._backup)
            self._other.start()
            assert self._reached.wait(DEADLINE_S)
        elif place.point is FaultPoint.TASK_PREPARED and self._fails:
            self._fails = False
            raise FaultInjected("so that the other one's second round has a higher fence")
        elif place.point is self._until and not self._reached.is_set():
            self._reached.set()
            assert self._goes_on.wait(DEADLINE_S)

    def let_the_other_end(self) -> None:
        self._goes_on.set()
        if self._other.ident:
            self._other.join(DEADLINE_S)


@pytest.mark.timeout(120)
def test_a_driver_whose_generation_a_store_put_back_gave_to_another_one_as_well_blames_the_store(
    watch: Any, tmp_path: Path
) -> None:
    """Found by seed 417439 of the simulation: it blamed the sink's directory, where the other one's file was."""
    cluster = LocalCluster()

    def run(batch: str) -> None:
        builder = TopologyBuilder()
        builder.set_spout("sentences", FeederSpout(["sentence"], [[(batch,)]]))
        builder.set_bolt("out", ParquetSink(str(tmp_path))).shuffle_grouping("sentences")
        assert cluster.submit(builder.create_topology("lines")).await_termination(DEADLINE_S)

    run("a")
    two = TwoOfOneGeneration(cluster, lambda: run("b"), FaultPoint.SINK_FILE_MOVED)
    watch(two)
    try:
        with pytest.raises(StateRegressed, match="the same generation"):
            run("c")
    finally:
        two.let_the_other_end()
    assert not two.ended
    assert pq.read_table(tmp_path).column("sentence").to_pylist() == ["a", "b"]
    run("d")  # as the message says: the next start goes on
    assert pq.read_table(tmp_path).column("sentence").to_pylist() == ["a", "b", "d"]


@pytest.mark.timeout(120)
def test_a_driver_that_is_fenced_does_not_let_go_of_a_fence_that_another_one_holds_as_well(watch: Any) -> None:
    cluster = LocalCluster()

    def run(batch: str) -> None:
        assert cluster.submit(count(batch)).await_termination(DEADLINE_S)

    run("a")
    two = TwoOfOneGeneration(cluster, lambda: run("b"), FaultPoint.ROUND_ENDED)
    watch(two)
    try:
        with pytest.raises(Fenced):
            run("c")
    finally:
        two.let_the_other_end()
    assert not two.ended
    assert cluster.submit(count()).state("count") == {"a": 1, "b": 1}
