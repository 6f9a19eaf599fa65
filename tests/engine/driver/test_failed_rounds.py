"""What a driver looks at before it rolls a failed round back: whose the topology is, and whose the last decision."""

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts import ParquetSink
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import FolderCopy
from anchorbolt.checkpoint.state_machine import CheckpointState, Phase
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import FaultInjected, Fenced, StateRegressed
from anchorbolt.faults.points import Observer, PointReached, observe
from anchorbolt.testing import FaultPoint
from anchorbolt.topology import Topology
from tests.engine.conftest import Watch
from tests.engine.jobs import Strikes, feeder, one_bolt, run, word_count
from tests.support.memory_store import spaces_of

DEADLINE_S = 60


def count(*batches: str) -> Topology:
    return word_count(feeder(*batches), parallelism=1)


class FailsOnce(Strikes):
    """Fails the round of txid 1 once, and acts before it is rolled back."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__(FaultPoint.TASK_PREPARED)
        self._act = act

    def __call__(self, place: PointReached) -> None:
        super().__call__(place)
        if place.point is FaultPoint.ROUND_FAILED:
            self._act()


def test_a_store_that_lost_only_the_mark_of_a_commit_has_lost_nothing(watch: Watch) -> None:
    cluster = LocalCluster()

    def lose_the_mark() -> None:
        [space] = [space for name, space in spaces_of(cluster).items() if "$checkpointspout" in name]
        [(key, value)] = space.entries.items()
        record = DecisionRecord.decode(value, "the test")
        assert record.winners
        space.entries[key] = replace(record, state=CheckpointState(record.txid, Phase.COMMITTING)).encode()

    watch(FailsOnce(lose_the_mark))
    assert run(cluster, count("a", "a b")).state("count") == {"a": 2, "b": 1}


def test_a_location_that_cannot_be_read_for_a_moment_is_waited_for(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(FailsOnce(lambda: fail_to_read(monkeypatch, times=1)))
    assert run(LocalCluster(), count("a", "a b")).state("count") == {"a": 2, "b": 1}


def test_an_overtaken_driver_is_told_so_where_it_cannot_read_what_the_newer_one_wrote(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = LocalCluster()

    def overtake() -> None:
        observe(None)
        run(cluster, count("b"))
        fail_to_read(monkeypatch, times=10**9)

    watch(FailsOnce(overtake))
    conf = {"topology.message.timeout.secs": 1, "topology.state.checkpoint.interval.ms": 100}
    with pytest.raises(Fenced):
        run(cluster, count("a", "a b"), conf)


def fail_to_read(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    read, left = FolderCopy.read, [times]

    def fail(self: FolderCopy) -> bytes | None:
        if left[0]:
            left[0] -= 1
            raise OSError(5, "Input/output error")
        return read(self)

    monkeypatch.setattr(FolderCopy, "read", fail)


@contextmanager
def two_of_one_generation(cluster: LocalCluster, start: Callable[[], object], until: FaultPoint) -> Iterator[Observer]:
    """Starts another driver over a store that was put back to before the claim of the one that runs.

    The other one sleeps at the point `until`, until the one that runs has ended.
    """
    namespaces = spaces_of(cluster)
    backup = copy.deepcopy(namespaces)
    ended: list[Exception] = []
    reached, goes_on = threading.Event(), threading.Event()
    fails = [until is FaultPoint.ROUND_ENDED]

    def run_other() -> None:
        try:
            start()
        except Exception as error:
            ended.append(error)

    other = threading.Thread(target=run_other)

    def on_point(place: PointReached) -> None:
        if place.point is FaultPoint.RECOVERED and not other.ident:
            namespaces.clear()
            namespaces.update(backup)
            other.start()
            assert reached.wait(DEADLINE_S)
        elif place.point is FaultPoint.TASK_PREPARED and fails[0]:
            fails[0] = False
            raise FaultInjected("so that the other one's second round has a higher fence")
        elif place.point is until and not reached.is_set():
            reached.set()
            assert goes_on.wait(DEADLINE_S)

    try:
        yield on_point
    finally:
        goes_on.set()
        other.join(DEADLINE_S)
    assert not ended


@pytest.mark.timeout(120)
def test_a_driver_whose_generation_a_store_put_back_gave_to_another_one_as_well_blames_the_store(
    watch: Watch, tmp_path: Path
) -> None:
    """Found by seed 417439 of the simulation: it blamed the sink's directory, where the other one's file was."""
    cluster = LocalCluster()

    def write(batch: str) -> None:
        run(cluster, one_bolt(ParquetSink(str(tmp_path)), feeder(batch)))

    write("a")
    with two_of_one_generation(cluster, lambda: write("b"), FaultPoint.SINK_FILE_MOVED) as observer:
        watch(observer)
        with pytest.raises(StateRegressed, match="the same generation"):
            write("c")
    assert pq.read_table(tmp_path).column("sentence").to_pylist() == ["a", "b"]
    write("d")  # as the message says: the next start goes on
    assert pq.read_table(tmp_path).column("sentence").to_pylist() == ["a", "b", "d"]


@pytest.mark.timeout(120)
def test_a_driver_that_is_fenced_does_not_let_go_of_a_fence_that_another_one_holds_as_well(watch: Watch) -> None:
    cluster = LocalCluster()
    run(cluster, count("a"))
    with two_of_one_generation(cluster, lambda: run(cluster, count("b")), FaultPoint.ROUND_ENDED) as observer:
        watch(observer)
        with pytest.raises(Fenced):
            run(cluster, count("c"))
    assert run(cluster, count()).state("count") == {"a": 1, "b": 1}
