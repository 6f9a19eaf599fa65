"""What holds the rich spouts back: since when, why, and for how much of the last ten minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from anchorbolt.engine.sources.flow_control import FlowControl, WaveLoad
from anchorbolt.engine.sources.hosted_spout import HostedSpout
from anchorbolt.engine.sources.throttle import SpoutLoad, ThrottleTimes, loads_of
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.testing import LocalCluster, ManualClock
from tests.cli.command import wait_until
from tests.engine.jobs import chain
from tests.reliability.jobs import MESSAGES, QueueSpout, RichBolt


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
