"""Many workers, and many tasks in each: what the driver sends and receives for an almost empty wave."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.engine.workers import frames
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.workers.processes.jobs import FedSpout, Nothing
from tests.engine.workers.processes.runs import started

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

WAVES = 5


class Traffic:
    """The frames of the driver and their bytes, without pulses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.frames: Counter[str] = Counter()
        self.bytes = 0
        encoded, add = frames.Frame.encoded, frames.Frames.add

        def counted_encoded(frame: frames.Frame) -> bytes:
            self._count(frame)
            return encoded(frame)

        def counted_add(cutter: frames.Frames, data: bytes) -> Any:
            found = add(cutter, data)
            for frame in found:
                self._count(frame)
            return found

        monkeypatch.setattr(frames.Frame, "encoded", counted_encoded)
        monkeypatch.setattr(frames.Frames, "add", counted_add)

    def _count(self, frame: frames.Frame) -> None:
        if frame.kind is not frames.Kind.PULSE:
            self.frames[frame.kind.name] += 1
            self.bytes += frames.HEAD.size + len(frame.payload)


def cheap(spout: FedSpout, tasks: int) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("words", spout)
    builder.set_bolt("nothing", Nothing(), tasks).shuffle_grouping("words")
    return builder.create_topology("cheap")


def traffic_of_waves(folder: Path, patched: pytest.MonkeyPatch, workers: int, tasks: int) -> Traffic:
    """Return what a few waves cost, each with one tuple."""
    folder.mkdir()
    spout = FedSpout(str(folder))
    conf = {"topology.message.timeout.secs": 300, "topology.acker.executors": 0}
    with started(cheap(spout, tasks), folder, workers=workers, until_empty=False, conf=conf) as run:
        run.wait_for_workers()
        spout.feed(0, [("first",)])
        run.wait_for_waves(1, 0)
        with patched.context() as patch:
            traffic = Traffic(patch)
            for number in range(1, WAVES + 1):
                waves = run.waves()
                spout.feed(number, [("word",)])
                run.wait_for_waves(1, waves)
        assert run.runner.failed == []
        run.stop()
    return traffic


def test_sixty_workers_of_one_task_each_run_waves_for_frames_like_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = traffic_of_waves(tmp_path / "few", monkeypatch, 6, 6)
    many = traffic_of_waves(tmp_path / "many", monkeypatch, 60, 60)
    assert sum(many.frames.values()) <= 12 * sum(few.frames.values())
    assert many.bytes <= 15 * few.bytes


def test_a_thousand_tasks_in_four_workers_cost_frames_like_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = traffic_of_waves(tmp_path / "few", monkeypatch, 4, 100)
    many = traffic_of_waves(tmp_path / "many", monkeypatch, 4, 1000)
    assert sum(many.frames.values()) <= 1.2 * sum(few.frames.values())
    assert many.bytes <= 12 * few.bytes
