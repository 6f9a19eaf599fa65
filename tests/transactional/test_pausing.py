"""A transactional topology in a pause: the batches in flight commit, and no other begins."""

import threading
from typing import Any

import pytest

from anchorbolt.engine import RunStatus
from tests.transactional.conftest import Run
from tests.transactional.jobs import Values, batches, boom, notes, values_topology
from tests.transactional.spouts import Ranges

DEADLINE_S = 120
A_WHILE_S = 0.3  # in which a batch would begin if one could


def begun(conf: dict[str, Any]) -> int:
    return len(notes(conf, "initialize"))


def test_the_batches_in_flight_commit_before_the_waves_cease(run_on: Run, conf: dict[str, Any]) -> None:
    begun_at_pause, submitted = list[int](), threading.Event()

    def pause(report: Any) -> None:
        if report.txid == 2:
            assert submitted.wait(DEADLINE_S)
            begun_at_pause.append(begun(conf))
            assert handle.pause() is False

    handle = run_on(values_topology(Ranges(2, 40)), wait=False, on_wave=pause, max_spout_pending=3)
    submitted.set()
    while not begun_at_pause:
        assert not handle.await_termination(0.01)
    assert handle.pause(DEADLINE_S)
    in_flight = begun(conf)
    assert in_flight == begun_at_pause[0]
    assert sorted(batches(conf)) == [*range(1, in_flight + 1)]
    assert not handle.await_termination(A_WHILE_S)
    assert begun(conf) == in_flight
    handle.resume()
    assert handle.await_termination(DEADLINE_S)
    assert handle.status is RunStatus.FINISHED
    assert batches(conf) == {txid: [2 * txid - 2, 2 * txid - 1] for txid in range(1, 21)}


@pytest.mark.parametrize(("pending", "committed"), [(1, [1]), (3, [1, 2])])
def test_a_batch_that_fails_in_a_pause_is_tried_again_in_it_but_not_those_behind_it(
    run: Run, conf: dict[str, Any], pending: int, committed: list[int]
) -> None:
    bolt = Values()
    bolt.raises = "finish_batch", 2, 2, boom
    submitted = threading.Event()

    def pause(report: Any) -> None:
        assert submitted.wait(DEADLINE_S)
        if report.txid == 1:
            handle.pause()

    handle = run(values_topology(Ranges(2, 12), bolt), wait=False, on_wave=pause, max_spout_pending=pending)
    submitted.set()
    while not handle.paused:
        assert not handle.await_termination(0.01)
    assert handle.pause(DEADLINE_S)
    assert sorted(batches(conf)) == committed
    handle.resume()
    assert handle.await_termination(DEADLINE_S)
    assert sorted(batches(conf)) == [*range(1, 7)]


def test_a_paused_run_ends_at_once_when_it_is_stopped(run: Run, conf: dict[str, Any]) -> None:
    handle = run(values_topology(Ranges(2, 10_000)), wait=False)
    assert handle.pause(DEADLINE_S)
    committed = len(handle.reports)
    assert handle.stop(DEADLINE_S)
    assert (handle.status, len(handle.reports)) == (RunStatus.STOPPED, committed)
