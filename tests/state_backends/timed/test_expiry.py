"""Entries that expire in cases that random calls seldom meet."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.state_backends.timed import expiry
from anchorbolt.state_backends.timed.expiry import indexed_at, joined, keeps_item, split
from anchorbolt.util.times import LATEST_MS
from tests.state_backends.timed.waves import Waves

MS = timedelta(milliseconds=1)


@pytest.mark.parametrize("cache", [0, 10])
def test_a_put_begins_the_ttl_again_and_a_read_does_not(cache: int) -> None:
    waves = Waves(ttl_ms=100, cache_entries=cache)
    waves.put(0)
    waves.put(50)
    assert waves.value(120) == 50
    assert waves.value(149) == 50
    assert waves.value(150) is None
    waves.begin(400)
    waves.commit()
    assert waves.stored() == {}


def test_an_entry_that_is_not_read_expires_in_the_cache() -> None:
    waves = Waves(ttl_ms=100)
    waves.put(0)
    waves.put(50)
    for clock in (60, 99, 100, 120, 149):
        waves.begin(clock)
        waves.commit()
    assert waves.value(150) is None


@pytest.mark.parametrize(
    ("second", "until"), [({}, 1050), ({"ttl": 10 * MS}, 60), ({"ttl": 5000 * MS}, 5050), ({"ttl": "never"}, None)]
)
@pytest.mark.parametrize("cache", [0, 10])
@pytest.mark.parametrize("opens", [False, True])
def test_the_last_put_decides_how_long_an_entry_lives(second: Any, until: int | None, cache: int, opens: bool) -> None:
    waves = Waves(ttl_ms=1000, cache_entries=cache)
    waves.put(0)
    if opens:
        waves.open()
    waves.put(50, **second)
    last = 20_000 if until is None else until - 1
    for clock in sorted({last, *(clock for clock in (900, 1000, 1200, 5000) if clock < last)}):
        if opens:
            waves.open()
        assert waves.value(clock) == 50
    if until is None:
        assert len(waves.stored()) == 1
    else:
        assert waves.value(until) is None
        waves.begin(20_000)  # the item of the first put is in the index until its time
        waves.commit()
        assert waves.stored() == {}


def test_a_ttl_of_one_put_is_not_that_of_the_next_one_in_its_wave() -> None:
    waves = Waves(ttl_ms=1000)
    waves.begin(0)
    waves.state.put("a", 1, ttl=10 * MS)
    waves.state.put("a", 2)
    waves.commit()
    assert waves.value(999) == 2
    assert waves.value(1000) is None


@pytest.mark.parametrize("cache", [0, 10])
def test_the_sweep_keeps_an_entry_that_was_refreshed_and_indexes_it_again(cache: int) -> None:
    waves = Waves(ttl_ms=80, cache_entries=cache)
    waves.put(0)
    for clock in range(8, 1000, 8):  # as many items would be due if each put added one
        waves.put(clock)
        assert len(waves.stored()) <= 5
    assert waves.value(1000) == 992
    waves.begin(1200)
    waves.commit()
    assert waves.stored() == {}


def test_an_entry_with_several_items_in_the_index_keeps_one() -> None:
    waves = Waves(ttl_ms=80)
    waves.put(0)
    waves.put(8, ttl=8 * MS)
    for clock in range(12, 200, 8):
        waves.put(clock)
    assert waves.indexed() == 1
    assert waves.value(260) == 196


@pytest.mark.parametrize("cache", [0, 10])
def test_a_put_in_the_wave_that_sweeps_wins(cache: int) -> None:
    """Quix #1129: the sweep deleted a key that the same wave had put again, or its item in the index."""
    waves = Waves(ttl_ms=80, cache_entries=cache)
    waves.put(0)
    waves.put(500)
    waves.open()
    assert waves.value(579) == 500
    assert waves.indexed() == 1
    waves.begin(700)
    waves.commit()
    assert waves.stored() == {}


def test_what_a_failed_wave_changed_is_forgotten() -> None:
    waves = Waves(ttl_ms=100)
    waves.put(0)
    waves.begin(90)
    waves.state.put("a", 90)
    waves.state.put("b", 90)
    waves.state.prepare_commit(1)
    waves.state.rollback()
    assert waves.value(99) == 0
    assert waves.value(100) is None
    waves.begin(110)
    waves.state.put("b", 110)
    waves.commit()
    waves.begin(400)
    waves.commit()
    assert waves.stored() == {}


def test_a_process_that_has_seen_no_ttl_hides_and_sweeps_expired_entries() -> None:
    waves = Waves()
    waves.put(0, ttl=100 * MS)
    waves.open()
    assert waves.value(99) == 0
    waves.open()
    waves.begin(100)
    waves.state.put("b", 1)
    assert dict(waves.state.items()) == {"b": 1}
    waves.commit()
    waves.open()
    waves.begin(300)
    waves.commit()
    assert len(waves.stored()) == 1


def test_entries_that_stay_in_a_full_cache_expire() -> None:
    waves = Waves(ttl_ms=100, cache_entries=2)
    waves.begin(0)
    for key in ("a", "b", "c"):
        waves.state.put(key, 1)
    waves.commit()
    waves.begin(99)
    assert [waves.state.get(key) for key in ("c", "b")] == [1, 1]
    waves.commit()
    waves.begin(100)
    assert [waves.state.get(key) for key in ("c", "b", "a")] == [None] * 3


def test_a_wave_sweeps_at_most_so_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "SWEPT_PER_WAVE", 2)
    waves = Waves(ttl_ms=100)
    waves.begin(0)
    for key in range(5):
        waves.state.put(key, key)
    waves.commit()
    swept = []
    for _ in range(4):
        waves.begin(400)
        assert len(waves.state) == 0
        waves.commit()
        swept.append(waves.state.timed.swept)
    assert swept == [2, 2, 1, 0]
    assert waves.stored() == {}


def test_an_entry_that_stays_in_a_full_cache_expires_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "_SPARE", -20)  # the headers of evicted entries are forgotten at once
    waves = Waves(ttl_ms=100, cache_entries=3)
    waves.begin(0)
    waves.state.put_many([(key, 1) for key in "bcdefa"])
    waves.commit()
    assert waves.value(50) == 1, "the latest ones are in the cache"
    assert waves.value(100) is None


TIMES = st.integers(0, LATEST_MS) | st.integers(0, 10_000)


@given(now=TIMES, ttls=st.tuples(TIMES, TIMES), later=TIMES, value=st.binary(max_size=3))
def test_a_header_holds_the_due_times_that_a_put_gives_it(
    now: int, ttls: tuple[int, int], later: int, value: bytes
) -> None:
    old = now + ttls[0], indexed_at(now + ttls[0], now)
    assert split(joined(old, value)) == (old, value)
    now += later
    at = now + ttls[1]
    latest = indexed_at(at, now)
    assert latest >= at
    due = at, old[1] if keeps_item(old, at, latest, now) else latest
    assert split(joined(due, value)) == (due, value)
    assert len(joined(due, value)) == len(value) + 11
