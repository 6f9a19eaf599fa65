"""Flow control: how many tuples wait, and how many messages are pending, however slow the bolts are."""

import time
from typing import Any

import pytest

from anchorbolt.engine import WaveReport
from anchorbolt.engine.sources.flow_control import FlowControl, WaveLoad
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.testing import FeederSpout, LocalCluster
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import chain, finished
from tests.reliability.jobs import ACKED, MESSAGES, QueueSpout, RichBolt


class Slow(RichBolt):
    """Takes half a millisecond for each tuple."""

    def execute(self, tup: Any) -> None:
        time.sleep(0.0005)
        self.collector.ack(tup)


class PendingSpout(QueueSpout):
    """Notes the most messages that it had pending."""

    most = 0

    def next_tuple(self) -> None:
        super().next_tuple()
        PendingSpout.most = max(PendingSpout.most, len(self.pending))


def slowly(spout: Any) -> Topology:
    return chain("slowly", {"in": spout, "slow": Slow()})


@pytest.mark.parametrize("most", [1, 7])
def test_max_spout_pending_is_never_exceeded(most: int) -> None:
    PendingSpout.most = 0
    MESSAGES.extend((number, (number,)) for number in range(100))
    finished(slowly(PendingSpout("number")), {"topology.max.spout.pending": most})
    assert sorted(ACKED) == list(range(100))
    assert PendingSpout.most == most


def test_a_spout_that_is_faster_than_the_slowest_bolt_is_throttled_and_nothing_times_out() -> None:
    conf = {"topology.state.checkpoint.interval.ms": 100, "topology.message.timeout.secs": 1}
    spout = GeneratorSpout(["number"], lambda number: (number,), batch=10)
    began, throttled = time.monotonic(), list[WaveReport]()

    def stop_later(report: WaveReport) -> None:
        if report.throttled_by == ("slow", 0):
            assert "'slow', task 0" in report.throttled
            throttled.append(report)
        if len(throttled) >= 3 and time.monotonic() > began + 1.5:  # longer than the time-out
            handle.stop()

    handle = LocalCluster().submit(slowly(spout), conf, on_wave=stop_later)
    assert handle.await_termination(60)
    assert not any(sum(report.messages_failed.values()) for report in handle.reports)
    acked = sum(sum(report.messages_acked.values()) for report in handle.reports)
    assert acked == sum(report.tuples_in["slow"] for report in handle.reports) > 0


def test_without_it_only_the_intake_limits_what_waits() -> None:
    conf = {"topology.backpressure.enable": False, "topology.spout.intake.tuples": 500}
    spout = GeneratorSpout(["number"], lambda number: (number,), count=1000, batch=10)
    handle = finished(slowly(spout), conf)
    assert not any(report.throttled for report in handle.reports)
    assert max(report.tuples_in["slow"] for report in handle.reports) <= 510


def test_the_speed_of_the_bolts_is_measured_with_the_tuples_of_all_spouts(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[WaveLoad] = []
    monkeypatch.setattr(FlowControl, "measure", lambda self, load: loads.append(load))
    MESSAGES.extend((number, (number,)) for number in range(20))
    builder = TopologyBuilder()
    builder.set_spout("in", QueueSpout("number"))
    builder.set_spout("feeder", FeederSpout(["number"], [[(number,) for number in range(50)]] * 2))
    builder.set_bolt("slow", Slow()).shuffle_grouping("in").shuffle_grouping("feeder")
    handle = finished(builder.create_topology("both"))
    executed = [report.tuples_in["slow"] for report in handle.reports if report.tuples_in["slow"]]
    assert sum(executed) == 120
    assert [load.taken_in for load in loads] == executed


def test_the_intake_is_limited_in_bytes_too() -> None:
    conf = {"topology.backpressure.enable": False, "topology.spout.intake.bytes": 2048}
    spout = GeneratorSpout(["number"], lambda number: ("x" * 600,), count=400, batch=1)
    handle = finished(slowly(spout), conf)
    # The first bytes are counted when 16 tuples wait: the encoding of a stream begins with so many.
    taken_in = [report.tuples_in["slow"] for report in handle.reports]
    assert sum(taken_in) == 400
    assert max(taken_in) <= 16


def test_it_throttles_from_the_high_watermark_to_the_low_one() -> None:
    flow = FlowControl(1000, 0.9, 0.4, enabled=True)
    flow.measure(WaveLoad(100, ("slow", 1), 1000, 1010))  # 100 tuples in an interval
    flow.add(89)
    assert not flow.is_throttled
    flow.add(1)
    assert flow.is_throttled
    assert "'slow', task 1" in flow.reason
    flow.take(49)
    assert flow.is_throttled
    flow.take(1)
    assert not flow.is_throttled


@pytest.mark.parametrize(
    ("interval_ms", "overhead_ms", "waiting"), [(1000, 40, 900), (1000, 80, 1440), (100, 500, 2700)]
)
def test_more_may_wait_where_a_wave_costs_much_beside_the_bolt(
    interval_ms: float, overhead_ms: float, waiting: int
) -> None:
    flow = FlowControl(interval_ms, 0.9, 0.4, enabled=True)
    flow.measure(WaveLoad(1000, ("slow", 0), 1000, 1000 + overhead_ms))
    flow.add(waiting - 1)
    assert not flow.is_throttled
    flow.add(1)
    assert flow.is_throttled


def test_it_never_throttles_while_nothing_waits() -> None:
    flow = FlowControl(1000, 0.9, 0.4, enabled=True)
    flow.measure(WaveLoad(1, ("slow", 0), 1e9, 1e9))  # less than one tuple in an interval
    assert not flow.is_throttled
    flow.add(1)
    assert flow.is_throttled
    flow.take(1)
    assert not flow.is_throttled
