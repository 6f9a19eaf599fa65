"""How large states are, how they grew, and when they are measured."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from anchorbolt.engine import RunHandle
from anchorbolt.errors import StateUnavailable
from anchorbolt.observe.figures.size_meter import SizeMeter
from anchorbolt.observe.figures.state_sizes import Point, Size, StateSizes, total
from anchorbolt.state_backends.memory import MemoryStateProvider, MemoryStateStorage
from anchorbolt.testing import ManualClock

TASK = ("count", 0)


def test_growth_is_since_the_point_that_is_as_old_as_asked_for_or_the_oldest() -> None:
    sizes = StateSizes()
    for minute in range(30):
        sizes.add({TASK: Size(100 * minute, 1000 * minute)}, 60.0 * minute)
    seen = sizes.measured(60.0 * 29 + 5)
    assert seen.age_s == 5
    assert seen.tasks == {TASK: Size(2900, 29_000)}
    assert seen.grown("count", 600) == Point(600, Size(1000, 10_000))
    assert seen.grown("count", 3600) == Point(60 * 29, Size(2900, 29_000))
    assert seen.grown("other", 600) is None


def test_nothing_has_grown_before_the_second_measurement() -> None:
    sizes = StateSizes()
    assert sizes.measured(1).age_s is None
    sizes.add({TASK: Size(1, None)}, 1)
    assert sizes.measured(2).grown("count", 600) is None
    sizes.add({TASK: Size(3, None)}, 2)
    assert sizes.measured(2).grown("count", 600) == Point(1, Size(2, None))


def test_the_points_of_an_hour_are_kept_however_often_it_was_measured() -> None:
    sizes = StateSizes()
    for second in range(10_000):
        sizes.add({TASK: Size(second, None)}, second)
    points = sizes.measured(10_000).history["count"]
    assert len(points) <= 300
    assert points[-1] == Point(1, Size(9_999, None))


@pytest.mark.parametrize(
    ("sizes", "expected"), [([Size(1, 10), Size(2, 20)], Size(3, 30)), ([Size(1, None), Size(2, 20)], Size(3, None))]
)
def test_a_total_is_unknown_if_a_part_of_it_is(sizes: list[Size], expected: Size) -> None:
    assert total(sizes) == expected


class SlowStore(MemoryStateProvider):
    """Takes some seconds of manual clocks to be asked, and may be away."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.cpu_clock = ManualClock(), ManualClock()
        self.waits_s, self.computes_s, self.is_away = 0.0, 0.0, False

    def open(self, namespace: str) -> MemoryStateStorage:
        if self.is_away:
            raise StateUnavailable("away")
        self.clock.advance(self.waits_s + self.computes_s)
        self.cpu_clock.advance(self.computes_s)
        return super().open(namespace)


def rests(meter: SizeMeter, between: Mapping[int, Any], count: int) -> list[float]:
    """Run the meter without a thread for some measurements; return how long it rests after each."""
    found: list[float] = []

    def wait(seconds: float) -> None:
        found.append(seconds)
        between.get(len(found), lambda: None)()
        if len(found) == count:
            meter.close()

    meter.run(wait)
    return found


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


@pytest.fixture
def meter(ended: RunHandle, store: SlowStore, monkeypatch: pytest.MonkeyPatch) -> SizeMeter:
    """A meter of three tasks, whose store is the slow one."""
    monkeypatch.setattr(ended.observe().plan, "provider", store)
    return SizeMeter(ended.observe().plan, store.clock, store.cpu_clock)


@pytest.mark.parametrize(
    ("waits_s", "computes_s", "rest_s"), [(0, 0, 15), (0, 0.04, 15), (0, 0.1, 30), (1, 0.1, 33), (2, 0, 60)]
)
def test_measuring_takes_at_most_a_hundredth_of_a_core_and_a_tenth_of_the_time(
    meter: SizeMeter, store: SlowStore, waits_s: float, computes_s: float, rest_s: float
) -> None:
    store.waits_s, store.computes_s = waits_s, computes_s
    assert rests(meter, {}, 2) == pytest.approx([rest_s, rest_s])


def test_a_store_that_is_away_ends_a_measurement_and_the_last_sizes_stay(meter: SizeMeter, store: SlowStore) -> None:
    def away() -> None:
        store.is_away = True
        store.clock.advance(7)

    assert rests(meter, {1: away}, 3) == [15, 60, 60]
    seen = meter.measured()
    assert seen.age_s == 7
    assert set(seen.tasks) == {("count", 0), ("count", 1), ("again", 0)}


@pytest.mark.parametrize(("computes_s", "measured"), [(0, 3), (1, 2)])
def test_a_meter_that_is_closed_measures_a_last_time_if_that_is_cheap(
    meter: SizeMeter, store: SlowStore, computes_s: float, measured: int
) -> None:
    store.computes_s = computes_s
    rests(meter, {}, 2)
    assert len(meter.measured().history["count"]) == measured


def test_a_meter_that_is_started_late_measures_once(meter: SizeMeter) -> None:
    meter.close()
    meter.start()
    meter.close()
    assert len(meter.measured().history["count"]) == 1


def test_a_run_measures_nothing_until_somebody_wants_to_show_it(ended: RunHandle) -> None:
    assert ended.observe().state_sizes.measured().age_s is None
    assert "anchorbolt-state-sizes" not in {thread.name for thread in threading.enumerate()}


def test_a_run_that_has_ended_is_still_measured_once(ended: RunHandle) -> None:
    ended.observe().state_sizes.start()
    ended.observe().state_sizes.close()
    sizes = ended.observe().state_sizes.measured().tasks
    assert total(size for task, size in sizes.items() if task[0] == "count").keys == 3
    assert all(size.bytes for size in sizes.values() if size.keys)


def samples(handle: RunHandle, name: str) -> Iterator[tuple[tuple[str, str], float]]:
    for family in handle.collector().collect():
        if family.name == name:
            for sample in family.samples:
                yield (sample.labels["component"], sample.labels["task"]), sample.value


def test_prometheus_has_keys_and_bytes_by_task(ended: RunHandle) -> None:
    ended.observe().state_sizes.start()
    ended.observe().state_sizes.close()
    keys, size = dict(samples(ended, "anchorbolt_state_keys")), dict(samples(ended, "anchorbolt_state_bytes"))
    assert set(keys) == set(size) == {("count", "0"), ("count", "1"), ("again", "0")}
    assert keys["count", "0"] + keys["count", "1"] == keys["again", "0"] == 3


def test_prometheus_lacks_what_the_store_does_not_tell(ended: RunHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryStateStorage, "size", lambda self: None)
    ended.observe().state_sizes.start()
    ended.observe().state_sizes.close()
    assert dict(samples(ended, "anchorbolt_state_bytes")) == {}
    assert len(dict(samples(ended, "anchorbolt_state_keys"))) == 3
