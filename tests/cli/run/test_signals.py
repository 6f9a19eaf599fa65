"""SIGINT and SIGTERM ask for a clean end first, and SIGINT again for one at once."""

import signal
from collections.abc import Iterator

import pytest

from anchorbolt.cli.run.run_job import StopSignals


@pytest.fixture(autouse=True)
def handlers_put_back() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    assert {number: signal.getsignal(number) for number in before} == before


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_only_asks_and_a_sigint_after_it_interrupts(first: signal.Signals) -> None:
    with StopSignals() as signals:
        assert not signals.stop_requested
        signal.raise_signal(first)
        assert signals.stop_requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_more_sigterms_change_nothing() -> None:
    with StopSignals() as signals:
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
        assert signals.stop_requested


def test_a_handler_that_another_library_put_in_place_is_replaced() -> None:
    with StopSignals() as signals:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signals.take()
        signal.raise_signal(signal.SIGINT)
        assert signals.stop_requested
