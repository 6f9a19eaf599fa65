"""What becomes of the messages of each task of a rich spout."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from anchorbolt.bolts import BaseBasicBolt, FailedException
from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.ui.model.component import component
from anchorbolt.ui.model.live import LiveRun


class Numbers(BaseRichSpout):
    """Each task emits ten numbers, 100 * its index + 0 to 9, under ids that only it knows or that all know."""

    def __init__(self, *, stable: bool) -> None:
        self.stable_message_ids = stable

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.first, self.next = collector, 100 * context.this_task_index, 0

    def next_tuple(self) -> None:
        if self.next < 10:
            number = self.first + self.next
            self.collector.emit((number,), number)
            self.next += 1

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("number")


class FailsSome(BaseBasicBolt):
    """Fails 0 and 1, and 100 to 103."""

    def execute(self, tup: Any, collector: Any) -> None:
        if tup["number"] in (0, 1, 100, 101, 102, 103):
            raise FailedException("no")

    def declare_output_fields(self, declarer: Any) -> None:
        """Declare nothing."""


def run(spout: Any, tasks: int | None, **conf: Any) -> RunHandle:
    builder = TopologyBuilder()
    builder.set_spout("in", spout, tasks)
    builder.set_bolt("some", FailsSome()).shuffle_grouping("in")
    handle = LocalCluster().submit(builder.create_topology("by-task"), {"topology.state.provider": "memory", **conf})
    assert handle.await_termination(60)
    return handle


def answer(handle: RunHandle) -> Any:
    found = component(LiveRun(handle).observe(), "in", ":all-time", first=0, count=10, sort="failed")
    assert found is not None
    return found


@pytest.mark.parametrize("stable", [False, True])
def test_tasks_of_a_spout_have_their_messages_and_latencies(stable: bool) -> None:
    found = answer(run(Numbers(stable=stable), 2))
    tasks = found.executor_stats
    assert [(each.id, each.acked, each.failed) for each in tasks] == [("1", 6, 4), ("0", 8, 2)]
    assert all(float(each.complete_latency) > 0 for each in tasks)
    assert tasks[0].transferred is UNSET  # of a stream, bolts know the component only
    summary = found.spout_summary[-1]
    assert (summary.acked, summary.failed) == (14, 6)


def test_dead_letters_are_not_acked_messages_of_a_task(tmp_path: Any) -> None:
    conf = {"topology.dead.letter": str(tmp_path / "letters"), "topology.max.tuple.retries": 0}
    found = answer(run(Numbers(stable=False), 1, **conf))
    (task,) = found.executor_stats
    assert (task.acked, task.failed, task.transferred) == (8, 0, 10)
    assert found.spout_summary[-1].acked == 8


def test_a_task_without_messages_does_not_say_that_none_failed() -> None:
    (task,) = answer(run(FeederSpout(["number"], [[(5,)]]), None)).executor_stats
    assert task.transferred == 1
    assert (task.failed, task.acked) == (UNSET, UNSET)
