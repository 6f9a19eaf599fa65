"""`Alarms`, the source that causes a wave when a timer is due."""

from types import SimpleNamespace
from typing import Any

import pytest

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.times import BoltTimes, EventTime, Latest
from anchorbolt.config.settings import Settings
from anchorbolt.engine.sources.driver_spouts import Alarms
from anchorbolt.state_backends.timed.entries import NextDue
from anchorbolt.topology.time import NO_TIME


def polls(due: NextDue, *, now: float, clock: int = 0, watermark: int | None = None, has_timers: bool = True) -> bool:
    """Return whether a wave is caused at `now`, in seconds, after a wave at `clock`, in ms."""
    times = {"cart": NO_TIME._replace(has_timers=has_timers)}
    plan: Any = SimpleNamespace(times=times, event_times={}, settings=Settings())
    record = DecisionRecord(clock=clock, times={"cart": BoltTimes(watermark, due)})
    alarms = Alarms(plan, lambda: now)
    alarms.open(SimpleNamespace(record=record), lambda: None, until_empty=False)  # type: ignore[arg-type]
    assert alarms.is_empty is not alarms.poll()
    return alarms.poll()


@pytest.mark.parametrize(
    ("due", "options", "expected"),
    [
        (NextDue(), {"now": 10}, False),
        (NextDue(processing=10_000), {"now": 9.999}, False),
        (NextDue(processing=10_000), {"now": 10}, True),
        (NextDue(processing=10_000), {"now": 10, "has_timers": False}, False),
        (NextDue(expiry=1), {"now": 10}, False),
        (NextDue(event=10_000), {"now": 10}, False),
        (NextDue(event=10_000), {"now": 0, "watermark": 9_999}, False),
        (NextDue(event=10_000), {"now": 0, "watermark": 10_000}, True),
    ],
)
def test_a_due_timer_causes_a_wave(due: NextDue, options: Any, expected: bool) -> None:
    assert polls(due, **options) is expected


@pytest.mark.parametrize(("now", "expected"), [(9.9, False), (10, True), (99, True)])
@pytest.mark.parametrize("latest", [(None, 5_000), (2_000, 5_000)])
def test_a_stream_that_becomes_idle_causes_a_wave_if_the_other_has_passed_a_timer(
    now: float, latest: tuple[int | None, int], *, expected: bool
) -> None:
    one, other = ("one", "default"), ("other", "default")
    event_times = {"cart": EventTime((one, other), 0, 5_000)}
    plan: Any = SimpleNamespace(
        times={"cart": NO_TIME._replace(has_timers=True)}, event_times=event_times, settings=Settings()
    )
    times = BoltTimes(None, NextDue(event=3_000), latest={one: Latest(*latest), other: Latest(3_000, 6_000)})
    alarms = Alarms(plan, lambda: now)
    record = DecisionRecord(clock=6_000, times={"cart": times})
    alarms.open(SimpleNamespace(record=record), lambda: None, until_empty=False)  # type: ignore[arg-type]
    assert alarms.poll() is expected


def test_a_timer_that_the_last_wave_left_causes_a_wave_although_the_machine_s_clock_goes_back() -> None:
    assert polls(NextDue(processing=10_000), now=3, clock=10_000)
