"""The errors that components report: what the answers say of the latest one, and what its report costs."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest

from anchorbolt.bolts import BaseBasicBolt, ReportedFailedException
from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.ui.model.component import component
from anchorbolt.ui.model.live import LiveRun
from anchorbolt.ui.model.topology import topology
from tests.engine.jobs import StatefulBolt

CANARY = "canary-7c1e55a0"
CONF = {"topology.state.provider": "memory", "my.api.token": CANARY}


class Three(BaseRichSpout):
    """Emits three numbers, and reports an error when 1 is acked, behind all waves."""

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.next = collector, 0

    def next_tuple(self) -> None:
        if self.next < 3:
            self.collector.emit((self.next,), self.next)
            self.next += 1

    def ack(self, msg_id: Any) -> None:
        if msg_id == 1:
            self.collector.report_error(OSError("cannot confirm 1"))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("number")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Reports(BaseBasicBolt):
    """Reports an error for 1: a long text that has a secret where it is cut."""

    def execute(self, tup: Any, collector: Any) -> None:
        if tup["number"] == 1:
            collector.report_error(Unspeakable())
            collector.report_error(ValueError("x" * 479 + CANARY + "y" * 1000))
        collector.emit((tup["number"],))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("number")


class Fails(BaseBasicBolt):
    """Reports that 2 fails."""

    def execute(self, tup: Any, collector: Any) -> None:
        if tup["number"] == 2:
            raise ReportedFailedException(f"two, said {CANARY}")

    def declare_output_fields(self, declarer: Any) -> None:
        """Declare nothing."""


@pytest.fixture(params=["commit", "exclude"])
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(policy: str) -> RunHandle:
    builder = TopologyBuilder()
    builder.set_spout("in", Three())
    builder.set_bolt("reports", Reports()).shuffle_grouping("in")
    builder.set_bolt("fails", Fails()).shuffle_grouping("in")
    builder.set_bolt("sum", StatefulBolt()).global_grouping("reports")
    conf = {**CONF, "topology.fail.policy": policy}
    handle = LocalCluster().submit(builder.create_topology("words"), conf)
    assert handle.await_termination(60)
    return handle


def test_the_latest_reported_error_is_shown_with_its_time_short_and_masked(policy: str) -> None:
    began = int(time.time())
    seen = LiveRun(run(policy)).observe()
    shown: Any = topology(seen, ":all-time")
    found = {each.bolt_id: each for each in shown.bolts} | {"in": shown.spouts[0]}
    assert found["reports"].last_error == f"ValueError: {'x' * 479}***yyyyyy"
    assert began <= found["reports"].error_time <= time.time()
    assert found["fails"].last_error == "ReportedFailedException: two, said ***"
    assert found["in"].last_error == "OSError: cannot confirm 1"
    assert found["sum"].last_error == ""
    spout = component(seen, "in", ":all-time", first=0, count=1, sort="task")
    assert spout is not None
    (error,) = spout.component_errors
    assert error.error == "OSError: cannot confirm 1"
    assert error.error_time >= began


def test_a_report_without_an_error_has_no_byte_for_one() -> None:
    report = TaskReport(("a", 0), "attempt", 1)
    assert b"error" not in pickle.dumps(report).replace(b"errors_reported", b"")
