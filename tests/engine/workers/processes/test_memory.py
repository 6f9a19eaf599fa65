"""More data than all buffers hold: a wave ends, the rest is in files, and the memory of workers is bounded."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import BasicOutputCollector
from anchorbolt.streams import TopologyContext, Tuple
from anchorbolt.topology import Topology, TopologyBuilder
from tests.cli.command import wait_until
from tests.engine.jobs import BasicBolt
from tests.engine.workers.processes.jobs import FedSpout, Marks, Total
from tests.engine.workers.processes.runs import PATIENCE_S, StartedRun, started

LONGEST = 1 << 16
COPIES = 10
VALUES = 10
SMALL = {"topology.worker.buffer.mb": 1, "topology.enable.message.timeouts": False}


class Blobs(BasicBolt):
    """Emits many large values for each tuple."""

    fields = ("key", "value")

    def __init__(self, many: int, *, one_key: bool = False) -> None:
        self.many, self.one_key = many, one_key

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        for number in range(self.many):
            key = 0 if self.one_key and number % 2 else 2 * number + 1
            collector.emit((key, os.urandom(LONGEST)))


class Copies(BasicBolt):
    """Emits each large value `COPIES` times."""

    fields = ("key", "value")

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        for number in range(COPIES):
            collector.emit((tup[0] and tup[0] + number, tup[1]))


class Forwards(BasicBolt):
    """Passes large values on; the second task may wait before the first."""

    fields = ("key", "value")

    def __init__(self, marks: Marks) -> None:
        self.marks = marks

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.waits = context.this_task_index == 1

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        if self.waits:
            self.marks.hold()
        collector.emit((tup[0], tup[1]))


class SlowTotal(Total):
    slow_s = 0.002


def flooding(spout: FedSpout, marks: Marks, many: int, last: Any, *, one_key: bool = False) -> Topology:
    """Two bolts whose tasks are in both workers, and a single task at the end."""
    builder = TopologyBuilder()
    builder.set_spout("words", spout)
    builder.set_bolt("blobs", Blobs(many, one_key=one_key), 2).shuffle_grouping("words")
    builder.set_bolt("copies", Copies(), 2).shuffle_grouping("blobs")
    builder.set_bolt("forward", Forwards(marks), 2).fields_grouping("copies", "key")
    builder.set_bolt("total", last).global_grouping("forward")
    return builder.create_topology("flood")


class Peak:
    """The highest resident memory of workers, and the most that they have spilled, in MB."""

    def __init__(self, run: StartedRun) -> None:
        self._run, self._ended = run, threading.Event()
        self.memory, self.spilled = dict[int, float](), 0.0
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Peak:
        self._look()
        self.at_first = dict(self.memory)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def growth(self) -> float:
        return max(self.memory[pid] - self.at_first[pid] for pid in self.at_first)

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            self._look()

    def _look(self) -> None:
        for each in self._run.fleet.figures():
            resident = int(Path(f"/proc/{each.pid}/statm").read_text().split()[1]) * 4096 / (1 << 20)
            self.memory[each.pid] = max(self.memory.get(each.pid, 0.0), resident)
            self.spilled = max(self.spilled, each.spilled_bytes / (1 << 20))


def total(run: StartedRun) -> int:
    return sum(run.handle.state("total").values())


@pytest.mark.thorough
@pytest.mark.parametrize("one_key", [False, True])
def test_workers_that_flood_each_other_need_no_more_memory_for_a_larger_wave(tmp_path: Path, one_key: bool) -> None:
    spout, marks = FedSpout(str(tmp_path)), Marks(tmp_path)
    topology = flooding(spout, marks, VALUES, SlowTotal(), one_key=one_key)
    peaks, fed = [], 0
    with started(topology, tmp_path, until_empty=False, conf=SMALL) as run:
        before = run.wait_for_workers()
        with Peak(run) as peak:
            for messages in (20, 100):
                spout.feed(fed, [(str(number),) for number in range(messages)])
                fed += messages
                wait_until(lambda: total(run) >= VALUES * COPIES * fed, "all values", PATIENCE_S)  # noqa: B023
                peaks.append(peak.growth)
        assert run.wait_for_workers() == before
        assert run.runner.failed == []
        run.stop()
        assert total(run) == VALUES * COPIES * fed
    assert peak.spilled > 100
    assert peaks[0] < 160  # 80 of them for modules that the first wave loads
    assert peaks[1] - peaks[0] < 40  # of 625 MB that go through each level


@pytest.mark.thorough
def test_a_call_that_is_longer_than_a_dead_peer_is_waited_for_does_not_end_the_connections(tmp_path: Path) -> None:
    """The worker in the call takes no bytes for longer than a machine may stay silent, but its machine answers."""
    spout, marks, messages = FedSpout(str(tmp_path)), Marks(tmp_path), 100
    with started(flooding(spout, marks, VALUES, Total()), tmp_path, until_empty=False, conf=SMALL) as run:
        before = run.wait_for_workers()
        marks.arm()
        spout.feed(0, [(str(number),) for number in range(messages)])
        marks.wait_until_held()
        assert not run.committed.wait_for(1, 25.0)
        marks.release()
        wait_until(lambda: total(run) >= VALUES * COPIES * messages, "all values", PATIENCE_S)
        assert run.runner.failed == []
        assert run.wait_for_workers() == before
        run.stop()
        assert total(run) == VALUES * COPIES * messages
