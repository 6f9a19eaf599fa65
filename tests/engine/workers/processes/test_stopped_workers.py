"""Workers that do not answer: they are replaced, and change nothing when they wake up. Long calls do not count."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.command import wait_until
from tests.engine.workers.processes.jobs import FedSpout, Marks, counting, counts_of, word_of
from tests.engine.workers.processes.runs import PATIENCE_S, started
from tests.engine.workers.processes.transactions import batches, in_memory

pytestmark = pytest.mark.slow

SECONDS = {"topology.message.timeout.secs": 2, "topology.enable.message.timeouts": False}


@pytest.mark.parametrize("abandons", [False, True])
def test_a_worker_that_is_stopped_in_a_wave_is_replaced_and_changes_nothing_later(
    tmp_path: Path, abandons: bool
) -> None:
    messages, marks = 2000, Marks(tmp_path)
    marks.arm()
    conf = {**SECONDS, "topology.max.spout.pending": 3}
    with started(batches(in_memory(messages, 100), marks), tmp_path, conf=conf) as run:
        run.hosts.abandons = abandons
        pid = marks.wait_until_held()
        slot = run.wait_for_workers().index(pid)
        run.hosts.kill(slot, signal.SIGSTOP)
        marks.release()
        old = run.hosts.started[slot][-1]
        wait_until(lambda: pid not in run.wait_for_workers(), "the replacement", PATIENCE_S)
        if abandons:
            assert old.poll() is None
            old.send_signal(signal.SIGCONT)
        run.finish()
        assert run.handle.state("count") == counts_of(messages)
        wait_until(lambda: old.poll() is not None, "the end of the old worker", 30)


def test_a_worker_that_is_stopped_between_waves_is_replaced(tmp_path: Path) -> None:
    spout, marks = FedSpout(str(tmp_path)), Marks(tmp_path)
    words = [word_of(number) for number in range(400)]
    with started(counting(spout, marks), tmp_path, until_empty=False, conf=SECONDS) as run:
        run.hosts.abandons = True
        first, second = run.wait_for_workers()
        spout.feed(0, words[:200])
        run.wait_for_waves(1, 0)
        run.hosts.kill(0, signal.SIGSTOP)
        old = run.hosts.started[0][-1]
        waves = run.waves()
        spout.feed(200, words[200:])
        run.wait_for_waves(1, waves)
        now = run.wait_for_workers()
        assert now[0] != first
        assert now[1] == second
        old.send_signal(signal.SIGCONT)
        wait_until(lambda: old.poll() is not None, "the end of the old worker", 30)
        run.stop()
        assert run.handle.state("count") == counts_of(400)


def test_a_worker_whose_bolt_is_in_a_long_call_is_not_taken_for_lost(tmp_path: Path) -> None:
    spout, marks = FedSpout(str(tmp_path)), Marks(tmp_path)
    marks.arm()
    with started(counting(spout, marks), tmp_path, until_empty=False, conf=SECONDS) as run:
        before = run.wait_for_workers()
        spout.feed(0, [word_of(number) for number in range(200)])
        marks.wait_until_held()
        assert not run.committed.wait_for(1, 6.0)
        marks.release()
        run.wait_for_waves(1, 0)
        assert run.wait_for_workers() == before
        assert run.runner.failed == []
        run.stop()
        assert run.handle.state("count") == counts_of(200)
