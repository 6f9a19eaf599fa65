"""Workers that are killed: nothing is lost or counted twice, and what was not hit goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import wait_until
from tests.engine.workers.processes.jobs import FedSpout, Marks, counting, counts_of, generated, word_of
from tests.engine.workers.processes.runs import PATIENCE_S, StartedRun, started
from tests.engine.workers.processes.transactions import batches, in_memory

pytestmark = pytest.mark.slow

BATCH = 200


class Fed:
    """A word count on two workers, which a test feeds."""

    def __init__(self, folder: Path, run: StartedRun, spout: FedSpout, marks: Marks) -> None:
        self.run, self.marks = run, marks
        self._spout, self.sent = spout, 0

    def feed(self, words: int = BATCH) -> None:
        self._spout.feed(self.sent, [word_of(number) for number in range(self.sent, self.sent + words)])
        self.sent += words

    def feed_a_wave(self) -> None:
        before = self.run.waves()
        self.feed()
        self.run.wait_for_waves(1, before)

    def prepared(self, pid: int) -> int:
        """Return how many instances of the plain bolt the process has prepared."""
        lines = [self.marks.lines(f"prepared-pass-{task}") for task in range(3)]
        return sum(line.count(str(pid)) for line in lines)

    def finish(self) -> None:
        """Wait until all is counted, exactly."""
        wait_until(lambda: sum(self.counts().values()) >= self.sent, "all counts", PATIENCE_S)
        self.run.stop()
        assert self.counts() == counts_of(self.sent)

    def counts(self) -> dict[Any, Any]:
        return self.run.handle.state("count")


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[Fed]:
    spout, marks = FedSpout(str(tmp_path)), Marks(tmp_path)
    with started(counting(spout, marks), tmp_path, until_empty=False) as run:
        fed = Fed(tmp_path, run, spout, marks)
        fed.feed_a_wave()
        yield fed


def test_a_worker_that_is_killed_between_waves_is_replaced_and_the_other_stays(fed: Fed) -> None:
    first, second = fed.run.wait_for_workers()
    prepared = fed.prepared(second)
    assert prepared > 0
    assert fed.run.hosts.kill(0) == first
    fed.feed_a_wave()
    now = fed.run.wait_for_workers()
    assert now[0] != first
    assert now[1] == second
    fed.finish()
    assert len(fed.run.runner.failed) <= 1  # if the wave began before the loss was noticed
    if not fed.run.runner.failed:
        assert fed.prepared(second) == prepared


def test_a_wave_after_the_loss_was_noticed_does_not_fail(fed: Fed) -> None:
    first, second = fed.run.wait_for_workers()
    prepared = fed.prepared(second)
    fed.run.hosts.kill(0)
    wait_until(lambda: fed.run.wait_for_workers()[0] != first, "the replacement", PATIENCE_S)
    fed.feed_a_wave()
    assert fed.run.runner.failed == []
    assert fed.prepared(second) == prepared
    fed.finish()


@pytest.mark.parametrize("times", [1, 2])
def test_a_worker_that_is_killed_in_a_wave_fails_it_and_the_next_try_counts_once(fed: Fed, times: int) -> None:
    fed.run.wait_for_workers()
    fed.marks.arm()
    fed.feed()
    for left in reversed(range(times)):
        pid = fed.marks.wait_until_held()
        before = fed.run.wait_for_workers()
        slot = before.index(pid)
        if left:
            fed.marks.arm()  # the next try holds, too
        else:
            fed.marks.release()
        fed.run.hosts.kill(slot)
        wait_until(lambda pid=pid: pid not in fed.run.wait_for_workers(), "the replacement", PATIENCE_S)  # type: ignore[misc]
        assert fed.run.wait_for_workers()[1 - slot] == before[1 - slot]
    fed.finish()
    assert len(fed.run.runner.failed) >= 1


def test_all_workers_are_killed_in_a_wave(fed: Fed) -> None:
    before = fed.run.wait_for_workers()
    fed.marks.arm()
    fed.feed()
    fed.marks.wait_until_held()
    for slot in range(2):
        fed.run.hosts.kill(slot)
    fed.marks.release()
    fed.finish()
    assert not {*before} & {each.pid for slots in fed.run.hosts.started for each in slots[-1:]}


def test_a_worker_that_is_killed_again_at_each_start_comes_at_last(fed: Fed) -> None:
    for _ in range(3):
        known = len(fed.run.hosts.started[1])
        fed.run.hosts.kill(1)
        wait_until(lambda known=known: len(fed.run.hosts.started[1]) > known, "a start", PATIENCE_S)  # type: ignore[misc]
    fed.feed_a_wave()
    fed.finish()


def kill_in_turn(run: StartedRun, waves_between: int) -> None:
    """Kill the workers in turn, eight times."""
    for kill in range(8):
        run.wait_for_waves(waves_between)
        run.wait_for_workers()
        run.hosts.kill(kill % 2)


@pytest.mark.thorough
def test_many_kills_during_a_run_cost_no_count(tmp_path: Path) -> None:
    messages = 30_000
    with started(
        counting(generated(messages), Marks(tmp_path), holds=False), tmp_path, conf={"topology.max.spout.pending": 500}
    ) as run:
        kill_in_turn(run, waves_between=3)
        run.finish()
        assert run.handle.state("count") == counts_of(messages)


def test_a_worker_is_killed_while_several_batches_are_processed(tmp_path: Path) -> None:
    messages, marks = 6000, Marks(tmp_path)
    marks.arm()
    with started(batches(in_memory(messages, 100), marks), tmp_path, conf={"topology.max.spout.pending": 4}) as run:
        pid = marks.wait_until_held()
        before = run.wait_for_workers()
        marks.release()
        run.hosts.kill(before.index(pid), signal.SIGKILL)
        run.finish()
        assert run.handle.state("count") == counts_of(messages)
        other = before[1 - before.index(pid)]
        assert other in [process.pid for process in run.hosts.started[1 - before.index(pid)]]
        assert len(run.hosts.started[1 - before.index(pid)]) == 1


@pytest.mark.thorough
def test_many_kills_while_batches_are_processed_cost_no_count(tmp_path: Path) -> None:
    messages = 40_000
    with started(
        batches(in_memory(messages, 100), Marks(tmp_path)), tmp_path, conf={"topology.max.spout.pending": 4}
    ) as run:
        kill_in_turn(run, waves_between=5)
        run.finish()
        assert run.handle.state("count") == counts_of(messages)
