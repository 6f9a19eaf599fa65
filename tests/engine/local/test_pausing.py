"""A run on `LocalCluster` that is paused and resumed."""

import threading
from pathlib import Path

import pytest

from anchorbolt.engine import LocalCluster, RunHandle, RunStatus, WaveReport
from anchorbolt.engine.sources.driver_spouts import Feeders
from anchorbolt.errors import Fenced
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.streams.tuple import Tuple
from anchorbolt.testing import FeederSpout
from tests.engine.jobs import CountWords, counted, feeder, finished, word_count

DEADLINE_S = 30
A_WHILE_S = 0.3  # in which a wave would begin if one could


entered, leave = threading.Event(), threading.Event()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    entered.clear()
    leave.clear()


class Waiting(CountWords):
    """Waits in each `execute` until the test lets it go on."""

    def execute(self, tup: Tuple) -> None:
        entered.set()
        assert leave.wait(DEADLINE_S)
        super().execute(tup)


class Committed:
    """A run that goes on until it is stopped, and what it has committed."""

    def __init__(self, spout: FeederSpout) -> None:
        self._changed = threading.Condition()
        self.txids: list[int] = []
        self.handle: RunHandle = LocalCluster().submit(word_count(spout), until_empty=False, on_wave=self._note)

    def _note(self, report: WaveReport) -> None:
        with self._changed:
            self.txids.append(report.txid)
            self._changed.notify_all()

    def wait_for(self, waves: int, timeout: float = DEADLINE_S) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self.txids) >= waves, timeout)


def test_no_wave_begins_in_a_pause_and_what_comes_meanwhile_is_processed_once() -> None:
    spout = feeder("a")
    run = Committed(spout)
    assert run.wait_for(1)
    assert run.handle.pause(DEADLINE_S) is True
    spout.feed([("a b",)])
    spout.feed([("b",)])
    assert (run.handle.paused, run.handle.status) == (True, RunStatus.RUNNING)
    assert not run.wait_for(2, A_WHILE_S)
    run.handle.resume()
    assert run.wait_for(3)
    assert not run.handle.paused
    assert run.handle.stop(DEADLINE_S)
    assert run.txids == [0, 1, 2]
    assert run.handle.state("count") == {"a": 2, "b": 2}


def test_a_run_can_be_paused_twice_and_resumed_twice() -> None:
    spout = feeder()
    run = Committed(spout)
    for waves in (0, 1):
        assert run.handle.pause(DEADLINE_S)
        assert run.handle.pause(DEADLINE_S)
        spout.feed([("a",)])
        assert not run.wait_for(waves + 1, A_WHILE_S)
        run.handle.resume()
        run.handle.resume()
        assert run.wait_for(waves + 1)
    assert run.handle.stop(DEADLINE_S)


def test_a_paused_run_ends_at_once_when_it_is_stopped() -> None:
    spout = feeder()
    run = Committed(spout)
    assert run.handle.pause(DEADLINE_S)
    spout.feed([("a",)])
    assert run.handle.stop(DEADLINE_S)
    assert (run.handle.status, run.handle.paused, run.txids) == (RunStatus.STOPPED, False, [])
    assert run.handle.pause() is False, "it has ended"
    run.handle.resume()


def test_a_run_that_ends_by_itself_does_not_end_in_a_pause() -> None:
    spout = feeder("a", "b")
    handle = LocalCluster().submit(counted(spout, Waiting()), until_empty=True)
    assert entered.wait(DEADLINE_S)
    assert handle.pause(0) is False, "its wave runs"
    assert handle.paused
    leave.set()
    assert handle.pause(DEADLINE_S)
    assert not handle.await_termination(A_WHILE_S)
    assert [report.txid for report in handle.reports] == [0]
    handle.resume()
    assert handle.await_termination(DEADLINE_S)
    assert (handle.status, handle.state("count")) == (RunStatus.FINISHED, {"a": 1, "b": 1})


def test_a_listener_may_pause_the_run_whose_wave_waits_for_it() -> None:
    begun, results = threading.Event(), list[bool]()
    spout = feeder("a", "b")

    def pause(report: WaveReport) -> None:
        assert begun.wait(DEADLINE_S)
        results.append(handle.pause())

    handle = LocalCluster().submit(word_count(spout), until_empty=False, on_wave=pause)
    begun.set()
    assert handle.pause(DEADLINE_S)
    assert len(handle.reports) <= 1
    handle.resume()
    while len(results) < 2:
        assert not handle.await_termination(0.01)
        handle.resume()
    assert handle.stop(DEADLINE_S)
    assert results == [False, False]
    assert handle.state("count") == {"a": 1, "b": 1}


def test_a_pause_that_is_waited_for_ends_with_the_run() -> None:
    results = list[bool]()
    handle = LocalCluster().submit(counted(feeder("a"), Waiting()), until_empty=False)
    assert entered.wait(DEADLINE_S)
    waits = threading.Thread(target=lambda: results.append(handle.pause()), daemon=True)
    waits.start()
    assert not handle.stop(0)
    waits.join(DEADLINE_S)
    assert results == [False]
    leave.set()
    assert handle.await_termination(DEADLINE_S)


def test_a_new_run_of_a_paused_topology_takes_over_and_is_not_paused() -> None:
    spout, cluster = feeder(), LocalCluster()
    paused = cluster.submit(word_count(spout), until_empty=False)
    assert paused.pause(DEADLINE_S)
    spout.feed([("a",)])
    second = finished(word_count(spout), cluster=cluster)
    assert second.state("count") == {"a": 1}
    spout.feed([("b",)])
    paused.resume()
    with pytest.raises(Fenced):
        paused.await_termination(DEADLINE_S)


def test_spouts_whose_rows_wait_for_the_end_of_a_pause_are_not_empty(tmp_path: Path) -> None:
    plan = prepare_plan(word_count(feeder("a")), {}, memory=MemoryStateProvider(), location=str(tmp_path))
    feeders = Feeders(plan)
    waiting = [feeders.poll()]
    feeders.pause()
    waiting.append(feeders.poll())
    assert not feeders.is_empty
    feeders.resume()
    assert [*waiting, feeders.poll()] == [True, False, True]
