"""Flow control: how much waits and is pending at most; what holds the rich spouts back, and since when."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from anchorbolt.engine import WaveReport
from anchorbolt.engine.sources.flow_control import FlowControl, WaveLoad
from anchorbolt.engine.sources.hosted_spout import HostedSpout
from anchorbolt.engine.sources.throttle import SpoutLoad, ThrottleTimes, loads_of
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.testing import FeederSpout, LocalCluster, ManualClock
from anchorbolt.topology import Topology, TopologyBuilder
from tests.cli.command import wait_until
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


def test_only_the_throttled_part_of_the_last_ten_minutes_counts() -> None:
    times = ThrottleTimes()
    times.change(0, throttled=True)
    assert (times.current(30), times.in_window(30), times.total(30)) == (30, 30, 30)
    assert times.in_window(900) == 600
    times.change(1000, throttled=False)
    assert (times.current(1100), times.in_window(1100), times.total(1100)) == (0, 500, 1000)
    times.change(1150, throttled=True)
    times.change(1200, throttled=False)
    assert times.in_window(1500) == 150
    assert times.in_window(1900) == 0
    assert times.total(1900) == 1050


def test_back_pressure_says_since_when_and_for_which_task_it_holds() -> None:
    clock = ManualClock()
    flow = FlowControl(100, high=2.0, low=1.0, enabled=True, clock=clock)
    flow.measure(WaveLoad(taken_in=100, slowest=("slow", 3), execute_ms=100, wave_ms=100))
    assert flow.throttle([]).reason == ""
    flow.add(500)
    clock.advance(7)
    held = flow.throttle([])
    assert (held.by, held.seconds, held.window_seconds) == (("slow", 3), 7, 7)
    assert "500 tuples waited" in held.reason
    flow.take(500)
    clock.advance(5)
    free = flow.throttle([])
    assert (free.reason, free.by, free.seconds, free.window_seconds, free.total_seconds) == ("", None, 0, 7, 7)


@pytest.mark.parametrize(
    ("most", "loads"),
    [
        (None, [SpoutLoad("a", 12, None, 0), SpoutLoad("b", 1, None, 0)]),
        (10, [SpoutLoad("a", 12, 20, 1), SpoutLoad("b", 1, 10, 0)]),
    ],
)
def test_the_load_of_a_spout_is_that_of_all_its_tasks(most: int | None, loads: list[SpoutLoad]) -> None:
    assert loads_of([("a", 10), ("b", 1), ("a", 2)], most) == loads


def test_a_tuple_waits_from_its_emit_on_however_many_a_wave_has_taken_before(tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoint")
    plan = prepare_plan(
        chain(
            "waits",
            {"in": GeneratorSpout(["number"], lambda number: (number,), batch=1, tracked=False), "keeps": Keeps()},
        ),
        {},
        memory=MemoryStateProvider(),
        location=folder,
    )
    clock = ManualClock()
    task = HostedSpout(plan, ("in", 0), FlowControl(1000, 0.9, 0.4, enabled=False), clock)
    task.open()
    for steps in (2500, 3):
        assert task.waiting_since is None
        clock.advance(1)
        began = clock()
        for _ in range(steps):
            task.step()
            clock.advance(1)
        assert task.waiting_since == began
        assert task.take()[0].since == began


class Keeps(RichBolt):
    def execute(self, tup: Any) -> None:
        """Ack nothing."""


def test_a_run_tells_that_its_spouts_are_at_the_limit_of_pending_messages_and_how_old_the_oldest_is() -> None:
    MESSAGES.extend((number, (number,)) for number in range(4))
    clock = ManualClock()
    conf = {"topology.max.spout.pending": 4}
    handle = LocalCluster(clock=clock).submit(
        chain("keeping", {"in": QueueSpout("number", replay=False), "keeps": Keeps()}), conf, until_empty=False
    )
    wait_until(lambda: handle.observe().messages_in_flight == 4 and len(handle.reports) > 0, "four messages", 30)
    wait_until(lambda: handle.observe().current_wave is None, "the end of the wave", 30)
    throttle = handle.observe().throttle
    assert throttle is not None
    assert (list(throttle.spouts), throttle.reason) == ([SpoutLoad("in", 4, 4, 1)], "")
    clock.advance(20)
    assert handle.observe().oldest_message_s == 20
    clock.advance(20)
    wait_until(lambda: sum(handle.observe().figures.timed_out.values()) == 4, "time-outs", 30)
    assert handle.observe().figures.timed_out == {("in", ("keeps", 0)): 4}
    registry = CollectorRegistry()
    registry.register(handle.collector())
    labels = {"topology": "keeping", "spout": "in", "component": "keeps", "task": "0"}
    assert registry.get_sample_value("anchorbolt_timed_out_messages_total", labels) == 4
    assert registry.get_sample_value("anchorbolt_oldest_message_seconds", {"topology": "keeping"}) == 0
    assert registry.get_sample_value("anchorbolt_throttled_seconds_total", {"topology": "keeping"}) == 0
    assert handle.observe().oldest_message_s == 0
    assert handle.stop(60)
