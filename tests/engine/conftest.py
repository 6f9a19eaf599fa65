"""Faults at the named points of a run, and a clock that only waiting moves."""

from collections.abc import Callable, Iterator

import pytest

from anchorbolt.checkpoint import losses
from anchorbolt.faults.points import Observer, observe

Watch = Callable[[Observer], None]


class FakeTime:
    """A clock that only `sleep` moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def loss_clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """The clock by which a wave bears losses."""
    clock = FakeTime()
    monkeypatch.setattr(losses, "monotonic", clock.monotonic)
    monkeypatch.setattr(losses, "sleep", clock.sleep)
    return clock


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Sets the observer of the fault points for the test."""
    before = observe(None)

    def set_observer(observer: Observer) -> None:
        observe(observer)

    yield set_observer
    observe(before)
