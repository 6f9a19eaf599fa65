"""From the emit of a message to its ack: Storm's complete latency."""

from __future__ import annotations

import time
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from anchorbolt.bolts import BaseBasicBolt
from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.ui.model.component import component
from anchorbolt.ui.model.live import LiveRun
from anchorbolt.ui.model.topology import topology

MESSAGES = 700


class Nothing(BaseBasicBolt):
    """Does nothing with words, the first time for `first_s`."""

    first_s = 0.0

    def execute(self, tup: Any, collector: Any) -> None:
        seconds, Nothing.first_s = Nothing.first_s, 0.0
        time.sleep(seconds)

    def declare_output_fields(self, declarer: Any) -> None:
        """Declare nothing."""


def run(*, tracked: bool = True) -> RunHandle:
    builder = TopologyBuilder()
    spout = GeneratorSpout(["word"], lambda number: (f"w{number % 7}",), count=MESSAGES, batch=10, tracked=tracked)
    builder.set_spout("in", spout)
    builder.set_bolt("nothing", Nothing(), 2).shuffle_grouping("in")
    handle = LocalCluster().submit(builder.create_topology("latency"), {"topology.state.provider": "memory"})
    assert handle.await_termination(60)
    return handle


def test_every_acked_message_counts_and_none_longer_than_the_run() -> None:
    began = time.monotonic()
    handle = run()
    seconds = time.monotonic() - began
    complete = handle.observe().figures.over().complete_ms["in"]
    assert complete.count == MESSAGES
    assert 0 < complete.total / complete.count < seconds * 1000
    seen = LiveRun(handle).observe()
    mean = f"{complete.total / complete.count:.3f}"
    answer: Any = topology(seen, ":all-time")
    assert answer.spouts[0].complete_latency == answer.topology_stats[-1].complete_latency == mean
    of_spout = component(seen, "in", ":all-time", first=0, count=1, sort="task")
    assert of_spout is not None
    assert of_spout.spout_summary[-1].complete_latency == mean
    registry = CollectorRegistry()
    registry.register(handle.collector())
    labels = {"topology": "latency", "spout": "in"}
    assert registry.get_sample_value("anchorbolt_complete_seconds_count", labels) == MESSAGES
    total = registry.get_sample_value("anchorbolt_complete_seconds_sum", labels)
    assert total == pytest.approx(complete.total / 1000)


def test_untracked_tuples_have_no_complete_latency() -> None:
    assert run(tracked=False).observe().figures.over().complete_ms["in"].count == 0


def test_a_message_that_waits_for_its_bolt_is_as_old_as_its_emit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nothing, "first_s", 0.3)
    complete = run().observe().figures.over().complete_ms["in"]
    assert complete.quantile(1.0) >= 300
