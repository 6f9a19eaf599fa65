"""The older one of two drivers, asleep at any named point while a newer one runs: fenced off, without effect."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts import ParquetSink
from anchorbolt.checkpoint.coordinator import CheckpointCoordinator
from anchorbolt.checkpoint.ports import Batch
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import Fenced, StateRegressed
from anchorbolt.faults.points import PointReached, observe
from anchorbolt.testing import FaultPoint
from anchorbolt.topology import Topology
from tests.engine.conftest import Watch
from tests.engine.jobs import BEFORE_THE_DECISION, Strikes, feeder, run, word_count
from tests.support.memory_store import contents_of, heads_of

OF_BATCHES = [point for point in FaultPoint if point.value.startswith("batch.")]
NOT_HERE = (FaultPoint.SLICE_APPLIED, FaultPoint.SINK_MESSAGES_SENT)  # memory has no slices, and the sink is no Kafka's
POINTS = [point for point in FaultPoint if point not in (*NOT_HERE, *OF_BATCHES)]
OF_A_START = (FaultPoint.CLAIMED, FaultPoint.FENCES_RAISED, FaultPoint.RECOVERED)
OF_A_FAILED_ROUND = (FaultPoint.ROUND_FAILED, FaultPoint.ROLLED_BACK)
DEADLINE_S = 60


class Sleeper:
    """An observer that puts the first thread to sleep that comes to a point, until it is woken."""

    def __init__(self, point: FaultPoint) -> None:
        self._point = point
        self._txid = -1 if point in OF_A_START else 1
        self._fails = Strikes(FaultPoint.TASK_PREPARED, times=point in OF_A_FAILED_ROUND)
        self._lock = threading.Lock()
        self.sleeps = threading.Event()
        self.woken = threading.Event()

    def __call__(self, place: PointReached) -> None:
        self._fails(place)
        if place.point is self._point and place.txid == self._txid:
            with self._lock:
                if self.sleeps.is_set():
                    return
                self.sleeps.set()
            assert self.woken.wait(DEADLINE_S)


@pytest.fixture
def sleeper(request: pytest.FixtureRequest, watch: Watch) -> Iterator[Sleeper]:
    made = Sleeper(request.param)
    watch(made)
    yield made
    made.woken.set()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("sleeper", POINTS, indirect=True, ids=[point.name for point in POINTS])
def test_an_older_driver_that_slept_at_a_point_ends_fenced_and_changes_nothing(
    sleeper: Sleeper, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    point: FaultPoint = request.node.callspec.params["sleeper"]
    cluster = LocalCluster()

    def job(*batches: str) -> Topology:
        return word_count(feeder(*batches), ParquetSink(str(tmp_path)))

    ended: list[BaseException] = []

    def run_older() -> None:
        try:
            run(cluster, job("a b a", "b c", "never here"))
        except Exception as error:
            ended.append(error)

    older = threading.Thread(target=run_older)
    older.start()
    assert sleeper.sleeps.wait(DEADLINE_S)

    newer = run(cluster, job("c d", "d"))
    applied = [] if point in OF_A_START else ["a b a"] if point in BEFORE_THE_DECISION else ["a b a", "b c"]
    words = Counter(" ".join([*applied, "c d", "d"]).split())
    assert newer.state("count") == words
    rows = pq.read_table(tmp_path).num_rows
    assert rows == words.total()
    contents = contents_of(cluster)

    sleeper.woken.set()
    older.join(DEADLINE_S)
    assert [type(error) for error in ended] == [Fenced]
    assert newer.state("count") == words
    assert pq.read_table(tmp_path).num_rows == rows
    assert not any(head.attempts for head in heads_of(cluster).values())
    assert contents_of(cluster) == contents


@pytest.mark.parametrize(("point", "batches"), [(FaultPoint.RECOVERED, []), (FaultPoint.WAVE_ENDED, ["a"])])
def test_an_older_driver_that_finds_no_more_to_do_is_told_that_a_newer_one_has_come(
    point: FaultPoint, batches: list[str], watch: Watch
) -> None:
    cluster = LocalCluster()

    def run_newer(place: PointReached) -> None:
        if place.point is point:
            observe(None)
            run(cluster, word_count(feeder("b")))

    watch(run_newer)
    with pytest.raises(Fenced):
        run(cluster, word_count(feeder(*batches)))


def test_an_older_driver_that_misses_what_a_newer_one_committed_is_fenced_and_no_state_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = LocalCluster()
    monkeypatch.setattr(CheckpointCoordinator, "close", lambda self: None)  # they go on
    older = run(cluster, word_count(feeder("a")))._checkpoints
    late = Batch(older.record.query_id, older.record.batch_id + 2)
    with pytest.raises(StateRegressed):
        older.is_committed(late)
    run(cluster, word_count(feeder("b")))
    with pytest.raises(Fenced):
        older.is_committed(late)
