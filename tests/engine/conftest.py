"""Faults at the named points of a run."""

from collections.abc import Callable, Iterator

import pytest

from anchorbolt.faults.points import Observer, observe

Watch = Callable[[Observer], None]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Sets the observer of the fault points for the test."""
    before = observe(None)

    def set_observer(observer: Observer) -> None:
        observe(observer)

    yield set_observer
    observe(before)
