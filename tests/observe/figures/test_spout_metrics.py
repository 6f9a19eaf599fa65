"""What rich spouts register as metrics, and the errors that they report."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from anchorbolt.bolts import BaseBasicBolt, FailedException
from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.observe.figures.tasks import Figure
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.topology import TopologyBuilder

CONF = {"topology.state.provider": "memory", "topology.fail.policy": "commit"}


class Twenty(BaseRichSpout):
    """Emits 20 numbers; counts what it is told, and has a gauge that raises and one that does not."""

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.next = collector, 0
        self.acks, self.fails = context.register_counter("acks"), context.register_counter("fails")
        self.calls = context.register_timer("call")
        context.register_gauge("left", lambda: 20 - self.next)
        context.register_gauge("broken", lambda: 1 / 0)

    def next_tuple(self) -> None:
        if self.next < 20:
            with self.calls.time():
                self.collector.emit((self.next,), self.next)
            self.next += 1
            if self.next == 10:
                self.collector.report_error(ValueError("ten is odd"))

    def ack(self, msg_id: Any) -> None:
        self.acks.inc()

    def fail(self, msg_id: Any) -> None:
        self.fails.inc()

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("number")


class FailsFives(BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        if tup["number"] % 5 == 0:
            raise FailedException("five")

    def declare_output_fields(self, declarer: Any) -> None:
        """Declare nothing."""


def spouts_run() -> RunHandle:
    builder = TopologyBuilder()
    builder.set_spout("in", Twenty())
    builder.set_bolt("fives", FailsFives()).shuffle_grouping("in")
    handle = LocalCluster().submit(builder.create_topology("rich"), CONF)
    assert handle.await_termination(60)
    return handle


def test_metrics_of_a_rich_spout_have_what_its_calls_counted_also_after_the_last_wave() -> None:
    handle = spouts_run()
    registry = CollectorRegistry()
    registry.register(handle.collector())
    labels = {"topology": "rich", "component": "in", "task": "0"}
    read = {
        name: registry.get_sample_value(f"anchorbolt_user_{name}", labels)
        for name in ("acks_total", "fails_total", "left", "call_seconds_count", "broken")
    }
    assert read == {"acks_total": 16, "fails_total": 4, "left": 0, "call_seconds_count": 20, "broken": None}


def test_errors_that_a_spout_reports_are_counted_by_its_task() -> None:
    (spout,) = [each for each in spouts_run().observe().figures.over().tasks if each.task == ("in", 0)]
    assert spout[Figure.ERRORS] == 1
