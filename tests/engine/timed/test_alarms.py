"""`Alarms`, the source that causes a wave when a timer is due."""

from types import SimpleNamespace
from typing import Any

import pytest

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.times import BoltTimes
from anchorbolt.config.settings import Settings
from anchorbolt.engine.sources.driver_spouts import Alarms
from anchorbolt.state_backends.timed.entries import NextDue
from anchorbolt.topology.time import NO_TIME


def polls(due: NextDue, *, now: float, clock: int = 0, watermark: int | None = None, has_timers: bool = True) -> bool:
    """Return whether a wave is caused at `now`, in seconds, after a wave at `clock`, in ms."""
    plan: Any = SimpleNamespace(times={"cart": NO_TIME._replace(has_timers=has_timers)}, settings=Settings())
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


def test_a_timer_that_the_last_wave_left_causes_a_wave_although_the_machine_s_clock_goes_back() -> None:
    assert polls(NextDue(processing=10_000), now=3, clock=10_000)
