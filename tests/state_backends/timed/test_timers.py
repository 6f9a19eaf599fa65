"""Timers in cases that random calls seldom meet."""

import pytest

from anchorbolt.errors import UnsupportedValue
from tests.state_backends.timed.waves import Waves


def test_a_timer_that_was_cancelled_and_set_to_the_same_time_counts_once_in_the_limit_of_a_wave() -> None:
    waves = Waves()
    for step in ("set", "cancel", "set"):
        waves.begin(0)
        if step == "set":
            waves.timers.set("a", at=10)
        else:
            waves.timers.cancel("a")
        waves.commit()
    waves.begin(20)
    waves.timers.set("b", at=11)
    assert waves.fire(2) == [("a", "", 10), ("b", "", 11)]


@pytest.mark.parametrize("opens", [False, True])
def test_a_timer_fires_once_at_its_time_wherever_it_was_moved(opens: bool) -> None:
    waves = Waves()

    def begin(clock: int) -> None:
        if opens:
            waves.open()
        waves.begin(clock, clock)

    for clock, at in ((0, 10), (1, 40), (2, 20), (3, 30)):
        begin(clock)
        waves.timers.set("a", at=at)
        assert waves.fire() == []
        waves.commit()
    for clock in (10, 20, 29):
        begin(clock)
        assert waves.fire() == []
        waves.commit()
    begin(30)
    assert waves.timers.get("a") == 30
    assert waves.fire() == [("a", "", 30)]
    waves.commit()
    begin(50)
    assert waves.timers.get("a") is None
    assert waves.fire() == []
    waves.commit()
    assert waves.stored() == {}


def test_a_timer_by_another_clock_replaces_the_first() -> None:
    waves = Waves()
    waves.begin(0, 0)
    waves.timers.set("a", at=10, clock="event")
    waves.commit()
    waves.begin(0, 0)
    waves.timers.set("a", at=20)
    waves.commit()
    waves.begin(15, 15)
    assert waves.fire() == []
    waves.commit()
    waves.begin(20, 15)
    assert waves.fire() == [("a", "", 20)]


def test_an_item_of_the_clock_before_does_not_set_the_timer_to_that_clock() -> None:
    waves = Waves()
    waves.begin(0, 0)
    waves.timers.set("a", at=10)
    waves.commit()
    waves.begin(0, 0)
    waves.timers.set("a", at=50, clock="event")
    waves.commit()
    for clock, watermark in ((20, 0), (60, 10)):
        waves.begin(clock, watermark)
        assert waves.fire() == []
        waves.commit()
    waves.begin(60, 50)
    assert waves.fire() == [("a", "", 50)]


@pytest.mark.parametrize("fires", [False, True])
def test_a_wave_whose_only_change_is_a_timer_is_forgotten_when_it_fails(fires: bool) -> None:
    waves = Waves()
    waves.begin(0)
    waves.timers.set("a", at=10)
    if fires:
        assert waves.fire() == []
    waves.begin(0)  # without a commit or a rollback
    assert waves.timers.get("a") is None
    waves.commit()
    assert waves.stored() == {}
    waves.begin(0)
    waves.timers.set("b", at=5)
    waves.commit()
    waves.begin(5)
    assert waves.fire() == [("b", "", 5)]
    waves.begin(5)
    assert waves.fire() == [("b", "", 5)]
    waves.commit()
    waves.begin(5)
    assert waves.fire() == []


def test_a_timer_that_is_set_while_timers_fire_fires_at_its_new_time_only() -> None:
    waves = Waves()
    waves.begin(0)
    waves.timers.set("a", at=10)
    waves.timers.set("b", at=11)
    waves.commit()
    waves.begin(20)
    first, second = waves.state.timed.take_due(100)
    assert waves.timers.fire(first)
    waves.timers.set("b", at=30)
    assert not waves.timers.fire(second)
    waves.commit()
    waves.begin(29)
    assert waves.fire() == []
    waves.commit()
    waves.begin(30)
    assert waves.fire() == [("b", "", 30)]


def test_timers_fire_in_the_order_of_time_and_key_whatever_their_names_and_former_times() -> None:
    waves = Waves()
    waves.begin(0)
    waves.timers.set("b", at=10)
    waves.timers.set("a", at=10, name="z")
    waves.timers.set("c", at=5)
    waves.timers.set("d", at=20)
    waves.commit()
    waves.begin(1)
    waves.timers.set("c", at=15)
    waves.commit()
    waves.begin(20)
    assert waves.fire() == [("a", "z", 10), ("b", "", 10), ("c", "", 15), ("d", "", 20)]


def test_timers_of_both_clocks_share_the_limit_of_a_wave() -> None:
    waves = Waves()
    waves.begin(0, 0)
    waves.timers.set("a", at=10)
    for key, at in (("b", 1), ("c", 2), ("d", 3)):
        waves.timers.set(key, at=at, clock="event")
    waves.commit()
    fired = []
    for _ in range(3):
        waves.begin(10, 10)
        fired.append(waves.fire(2))
        waves.commit()
    assert fired == [[("b", "", 1), ("a", "", 10)], [("c", "", 2), ("d", "", 3)], []]


def test_a_clock_that_does_not_exist_or_that_the_bolt_does_not_have_is_refused() -> None:
    waves = Waves()
    waves.begin(0)
    with pytest.raises(UnsupportedValue, match=r"'the key'.*'processing' or 'event'"):
        waves.timers.set("the key", at=1, clock="wave")  # type: ignore[arg-type]
    waves.timers.set("the key", at=1, clock="event")
    waves.timers.clocks = ("processing",)
    with pytest.raises(UnsupportedValue, match=r"'the key'.*event_time"):
        waves.timers.set("the key", at=2, clock="event")
    assert waves.timers.get("the key") == 1
