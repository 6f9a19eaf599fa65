"""How many tuples bolts ack and fail, as far as the topology tracks them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from prometheus_client import CollectorRegistry

from anchorbolt.bolts import BaseBasicBolt, BaseRichBolt, FailedException
from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.observe.figures.tasks import Figure
from anchorbolt.topology import TopologyBuilder
from anchorbolt.ui.model.component import component
from anchorbolt.ui.model.live import LiveRun
from anchorbolt.ui.model.topology import topology
from tests.cli.command import wait_until
from tests.engine.jobs import StatefulBolt
from tests.reliability import jobs


class FailsSome(BaseBasicBolt):
    """Fails each tenth number, and emits the others."""

    def execute(self, tup: Any, collector: Any) -> None:
        if tup["number"] % 10 == 0:
            raise FailedException("a tenth")
        collector.emit((tup["number"],))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("number")


class AcksInPairs(BaseRichBolt):
    """Acks two tuples when the second one comes; fails those of 7."""

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.waiting = collector, list[Any]()

    def execute(self, tup: Any) -> None:
        if tup["number"] == 7:
            self.collector.fail(tup)
            return
        self.waiting.append(tup)
        if len(self.waiting) == 2:
            for each in self.waiting:
                self.collector.ack(each)
            self.waiting = []

    def declare_output_fields(self, declarer: Any) -> None:
        """Declare nothing."""


def run(**conf: Any) -> RunHandle:
    jobs.forget()
    jobs.MESSAGES.extend((number, (number,)) for number in range(13))
    builder = TopologyBuilder()
    builder.set_spout("in", jobs.AllAtOnce("number", replay=False))
    builder.set_bolt("some", FailsSome(), 2).shuffle_grouping("in")
    builder.set_bolt("pairs", AcksInPairs()).global_grouping("some")
    handle = LocalCluster().submit(builder.create_topology("acked"), {"topology.fail.policy": "commit", **conf})
    assert handle.await_termination(60)
    return handle


def counts(handle: RunHandle, bolt: str) -> tuple[int, int, int]:
    found = [each for each in handle.observe().figures.over().tasks if each.task[0] == bolt]
    executed, acked, failed = (
        int(sum(each[figure] for each in found)) for figure in (Figure.EXECUTED, Figure.ACKED, Figure.FAILED)
    )
    return executed, acked, failed


def test_acked_and_failed_tuples_are_counted_by_bolt_and_shown() -> None:
    handle = run()
    assert counts(handle, "some") == (13, 11, 2)
    assert counts(handle, "pairs") == (11, 10, 1)
    seen = LiveRun(handle).observe()
    bolts: Any = topology(seen, ":all-time").bolts
    assert [(each.bolt_id, each.acked, each.failed) for each in bolts] == [("some", 11, 2), ("pairs", 10, 1)]
    pairs = component(seen, "pairs", ":all-time", first=0, count=1, sort="task")
    assert pairs is not None
    assert pairs.bolt_stats[-1].acked == pairs.executor_stats[0].acked == 10
    registry = CollectorRegistry()
    registry.register(handle.collector())
    labels = {"topology": "acked", "component": "pairs", "task": "0"}
    assert registry.get_sample_value("anchorbolt_acked_tuples_total", labels) == 10
    assert registry.get_sample_value("anchorbolt_failed_tuples_total", labels) == 1


def test_without_tracking_nothing_is_said_of_acks() -> None:
    handle = run(**{"topology.acker.executors": 0})
    assert counts(handle, "some") == (13, 0, 0)
    bolts: Any = topology(LiveRun(handle).observe(), ":all-time").bolts
    assert [each.acked for each in bolts] == [UNSET, UNSET]


@pytest.mark.parametrize("ackers", [1, 3])
def test_tuples_of_a_round_that_is_run_again_without_them_count_as_failed(ackers: int) -> None:
    handle = run(**{"topology.fail.policy": "exclude", "topology.acker.executors": ackers})
    assert [report.rounds for report in handle.reports if sum(report.tuples_in.values())] == [2]
    assert counts(handle, "some") == (10, 10, 2)
    assert counts(handle, "pairs") == (10, 10, 1)


class FailsLater(StatefulBolt):
    """Keeps the number 1 and fails it when 3 comes; fails 2 at once; acks 3."""

    def execute(self, tup: Any) -> None:
        if tup["number"] == 1:
            self.state.put("kept", tup.handle)
        elif tup["number"] == 2:
            self.collector.fail(tup)
        else:
            self.collector.fail(self.state.get("kept"))
            self.collector.ack(tup)


def test_a_tuple_of_an_earlier_wave_that_fails_beside_one_that_is_left_out_counts_once() -> None:
    jobs.forget()
    builder = TopologyBuilder()
    builder.set_spout("in", jobs.AllAtOnce("number", replay=False))
    builder.set_bolt("later", FailsLater()).global_grouping("in")
    handle = LocalCluster().submit(builder.create_topology("later"), until_empty=False)
    jobs.MESSAGES.append((1, (1,)))
    wait_until(lambda: counts(handle, "later")[0] == 1, "1 is kept")
    jobs.MESSAGES.extend([(2, (2,)), (3, (3,))])
    jobs.wait_for(lambda: sorted(jobs.FAILED) == [1, 2] and jobs.ACKED == [3])
    assert handle.stop(60)
    assert counts(handle, "later") == (2, 1, 2)
