"""The older one of two drivers, asleep at any named point while a newer one runs: fenced off, without effect."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts import ParquetSink
from anchorbolt.checkpoint.ports import Batch
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import FaultInjected, Fenced, StateRegressed
from anchorbolt.faults.points import FaultPoint, PointReached, observe
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.topology import Topology
from tests.engine.jobs import word_count

POINTS = [point for point in FaultPoint if point is not FaultPoint.SLICE_APPLIED]  # memory has no slices
OF_A_START = (FaultPoint.CLAIMED, FaultPoint.FENCES_RAISED, FaultPoint.RECOVERED)
OF_A_FAILED_ROUND = (FaultPoint.ROUND_FAILED, FaultPoint.ROLLED_BACK)
BEFORE_THE_DECISION = [*FaultPoint][: [*FaultPoint].index(FaultPoint.DECIDED)]
DEADLINE_S = 60


class Sleeper:
    """An observer that puts the first thread to sleep that comes to a point, until it is woken."""

    def __init__(self, point: FaultPoint) -> None:
        self._point = point
        self._txid = -1 if point in OF_A_START else 1
        self._has_failed = False
        self._lock = threading.Lock()
        self.sleeps = threading.Event()
        self.woken = threading.Event()

    def __call__(self, place: PointReached) -> None:
        if self._fails(place):
            raise FaultInjected("so that a round is rolled back")
        if place.point is self._point and place.txid == self._txid:
            with self._lock:
                if self.sleeps.is_set():
                    return
                self.sleeps.set()
            assert self.woken.wait(DEADLINE_S)

    def _fails(self, place: PointReached) -> bool:
        if self._point not in OF_A_FAILED_ROUND or place.txid != 1 or self._has_failed:
            return False
        self._has_failed = place.point is FaultPoint.TASK_PREPARED
        return self._has_failed


@pytest.fixture
def sleeper(request: pytest.FixtureRequest) -> Iterator[Sleeper]:
    made = Sleeper(request.param)
    before = observe(made)
    yield made
    made.woken.set()
    observe(before)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("sleeper", POINTS, indirect=True, ids=[point.name for point in POINTS])
def test_an_older_driver_that_slept_at_a_point_ends_fenced_and_changes_nothing(
    sleeper: Sleeper, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    point: FaultPoint = request.node.callspec.params["sleeper"]
    cluster = LocalCluster()

    def job(*batches: str) -> Topology:
        spout = FeederSpout(["sentence"], [[(batch,)] for batch in batches])
        return word_count(spout, ParquetSink(str(tmp_path)))

    ended: list[BaseException] = []

    def run_older() -> None:
        try:
            cluster.submit(job("a b a", "b c", "never here")).await_termination(DEADLINE_S)
        except Exception as error:
            ended.append(error)

    older = threading.Thread(target=run_older)
    older.start()
    assert sleeper.sleeps.wait(DEADLINE_S)

    newer = cluster.submit(job("c d", "d"))
    assert newer.await_termination(DEADLINE_S)
    applied = [] if point in OF_A_START else ["a b a"] if point in BEFORE_THE_DECISION else ["a b a", "b c"]
    words = Counter(" ".join([*applied, "c d", "d"]).split())
    assert newer.state("count") == words
    rows = pq.read_table(tmp_path).num_rows
    assert rows == words.total()
    contents = {name: (space.metadata, space.entries) for name, space in cluster._memory._namespaces.items()}

    sleeper.woken.set()
    older.join(DEADLINE_S)
    assert [type(error) for error in ended] == [Fenced]
    assert newer.state("count") == words
    assert pq.read_table(tmp_path).num_rows == rows
    assert not any(cluster._memory.open(name).head().attempts for name in cluster._memory.namespaces())
    assert {name: (space.metadata, space.entries) for name, space in cluster._memory._namespaces.items()} == contents


@pytest.mark.parametrize(("point", "batches"), [(FaultPoint.RECOVERED, []), (FaultPoint.WAVE_ENDED, ["a"])])
def test_an_older_driver_that_finds_no_more_to_do_is_told_that_a_newer_one_has_come(
    point: FaultPoint, batches: list[str]
) -> None:
    cluster = LocalCluster()

    def job(batches: list[str]) -> Topology:
        return word_count(FeederSpout(["sentence"], [[(batch,)] for batch in batches]))

    def run_newer(place: PointReached) -> None:
        if place.point is point:
            observe(None)
            assert cluster.submit(job(["b"])).await_termination(DEADLINE_S)

    before = observe(run_newer)
    try:
        with pytest.raises(Fenced):
            cluster.submit(job(batches)).await_termination(DEADLINE_S)
    finally:
        observe(before)


def test_an_older_driver_that_misses_what_a_newer_one_committed_is_fenced_and_no_state_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = LocalCluster()
    monkeypatch.setattr(CheckpointSpout, "close", lambda self: None)  # they go on

    def spout_of(batch: str) -> CheckpointSpout:
        handle = cluster.submit(word_count(FeederSpout(["sentence"], [[(batch,)]])))
        assert handle.await_termination(DEADLINE_S)
        spout: CheckpointSpout = handle._spout  # type: ignore[attr-defined]
        return spout

    older = spout_of("a")
    late = Batch(older.record.query_id, older.record.batch_id + 2)
    with pytest.raises(StateRegressed):
        older.is_committed(late)
    spout_of("b")
    with pytest.raises(Fenced):
        older.is_committed(late)
