"""A run on `LocalCluster` that is paused and resumed; the moves of a pause, and how long it makes others wait."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.engine import LocalCluster, RunHandle, RunStatus, WaveReport
from anchorbolt.engine.driver.loop import Pause
from anchorbolt.errors import Fenced
from anchorbolt.streams import Tuple
from anchorbolt.testing import FeederSpout
from tests.engine.jobs import Committed, CountWords, counted, feeder, finished, word_count

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


def started(spout: FeederSpout) -> tuple[RunHandle, Committed]:
    """Start a run that goes on until it is stopped."""
    committed = Committed()
    return LocalCluster().submit(word_count(spout), until_empty=False, on_wave=committed), committed


def test_no_wave_begins_in_a_pause_and_what_comes_meanwhile_is_processed_once() -> None:
    spout = feeder("a")
    handle, committed = started(spout)
    assert committed.wait_for(1, DEADLINE_S)
    assert handle.pause(DEADLINE_S) is True
    spout.feed([("a b",)])
    spout.feed([("b",)])
    assert (handle.paused, handle.status) == (True, RunStatus.RUNNING)
    assert not committed.wait_for(2, A_WHILE_S)
    handle.resume()
    assert committed.wait_for(3, DEADLINE_S)
    assert not handle.paused
    assert handle.stop(DEADLINE_S)
    assert committed.txids == [0, 1, 2]
    assert handle.state("count") == {"a": 2, "b": 2}


def test_a_paused_run_ends_at_once_when_it_is_stopped() -> None:
    spout = feeder()
    handle, committed = started(spout)
    assert handle.pause(DEADLINE_S)
    spout.feed([("a",)])
    assert handle.stop(DEADLINE_S)
    assert (handle.status, handle.paused, committed.txids) == (RunStatus.STOPPED, False, [])
    assert handle.pause() is False, "it has ended"
    handle.resume()


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


MOVES = {  # by phase: the phase behind each move that changes it
    "off": {"begin": "pausing", "close": "closed"},
    "pausing": {"cease": "ceased", "end": "off", "close": "closed"},
    "ceased": {"end": "off", "close": "closed"},
    "closed": {},
}


@given(st.lists(st.sampled_from(["begin", "cease", "end", "close"])))
def test_a_move_that_is_not_drawn_changes_nothing(moves: list[str]) -> None:
    pause, phase = Pause(), "off"
    for move in moves:
        getattr(pause, move)()
        phase = MOVES[phase].get(move, phase)
        assert (pause.is_on, pause.has_ceased) == (phase in ("pausing", "ceased"), phase == "ceased")
        assert pause.wait_until_ceased(0) is (phase != "pausing")


@pytest.mark.parametrize("move", ["cease", "end", "close"])
def test_who_waits_for_the_waves_to_cease_does_not_wait_beyond_the_pause(move: str) -> None:
    pause, ended = Pause(), list[bool]()
    pause.begin()
    waits = threading.Thread(target=lambda: ended.append(pause.wait_until_ceased(None)), daemon=True)
    waits.start()
    getattr(pause, move)()
    waits.join(30)
    assert ended == [True]
