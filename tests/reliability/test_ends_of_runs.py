"""When a run ends by itself, or is stopped: not before its rich spouts have nothing to emit any more."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from anchorbolt.engine import RunHandle
from anchorbolt.engine.sources import rich_spouts
from anchorbolt.engine.sources.rich_spouts import RichSpouts
from anchorbolt.testing import LocalCluster
from anchorbolt.topology import Topology
from tests.engine.jobs import chain, finished
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, Count, QueueSpout, told, wait_for

LOOKS: list[str] = []  # at whether the spouts are idle, or drained: while there is no wave
CALLS: list[int] = []  # of `next_tuple` that have emitted nothing
MAY_RETURN = threading.Event()


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a run end by itself as soon as it sees two calls of `next_tuple` that have emitted nothing."""
    LOOKS.clear()
    CALLS.clear()
    MAY_RETURN.clear()
    monkeypatch.setattr(rich_spouts, "_IDLE_S", 1e-9)
    for name in ("is_empty", "is_drained"):
        monkeypatch.setattr(RichSpouts, name, noted(name))
    yield
    MAY_RETURN.set()


def noted(name: str) -> Any:
    answer: Any = getattr(RichSpouts, name).fget

    def look(spouts: RichSpouts) -> bool:
        is_so: bool = answer(spouts)
        told(LOOKS, name)
        return is_so

    return property(look)


def wait_for_looks(name: str) -> None:
    """Wait until the run has looked several times more: it would end now if it could."""
    before = LOOKS.count(name)
    wait_for(lambda: LOOKS.count(name) >= before + 3)


def counting(spout: QueueSpout, bolt: Any = None) -> Topology:
    return chain("ends", {"in": spout, "count": (bolt or Count(), "word")})


class Away(QueueSpout):
    """Emits a message; then its source does not answer until the run has looked several times whether it may end.

    With `blocks`, the source answers that it has nothing, and the next call waits for the answer.
    """

    def __init__(self, *, blocks: bool) -> None:
        super().__init__("word")
        self.blocks = blocks
        self.looks = 0  # before the source was away
        self.step = 0

    def next_tuple(self) -> None:
        if self.step == 0:
            super().next_tuple()
            self.step = 1
        elif self.step == 1:
            self.source_is_away = True
            if ACKED:
                self.step, self.looks = 2, LOOKS.count("is_empty")
        elif self.step == 2 and self.blocks:
            self.source_is_away = False
            self.step = 3
        elif self.step == 2:
            if LOOKS.count("is_empty") >= self.looks + 3:
                self.source_is_away = False
                self.step = 4
                super().next_tuple()
        elif self.step == 3:
            wait_for_looks("is_empty")
            self.step = 4
            super().next_tuple()


@pytest.mark.parametrize("blocks", [False, True])
def test_a_run_does_not_end_while_a_source_does_not_answer(blocks: bool) -> None:
    MESSAGES.extend([(1, ("a",)), (2, ("b",))])
    handle = finished(counting(Away(blocks=blocks)))
    assert handle.state("count") == {"a": 1, "b": 1}


class SlowAfterFail(QueueSpout):
    """Emits a message again that has failed, once it may: meanwhile the call for it does not return."""

    def next_tuple(self) -> None:
        if FAILED and MESSAGES:
            assert MAY_RETURN.wait(30)
        elif not MESSAGES:
            told(CALLS, 1)
        super().next_tuple()


class FailsLate(Count):
    """Fails the first tuple once the spout has been called in vain more often than a run waits that ends by itself."""

    def execute(self, tup: Any) -> None:
        if FAILED:
            super().execute(tup)
            return
        wait_for(lambda: len(CALLS) >= 3)
        self.collector.fail(tup)


def test_a_run_does_not_end_before_a_failed_message_is_emitted_again() -> None:
    MESSAGES.append((1, ("a",)))
    handle = LocalCluster().submit(counting(SlowAfterFail("word"), FailsLate()))
    wait_for(lambda: FAILED)
    wait_for_looks("is_empty")
    MAY_RETURN.set()
    assert handle.await_termination(30)
    assert handle.state("count") == {"a": 1}
    assert ACKED == [1]


class SlowCall(QueueSpout):
    """Is in a call of `next_tuple` when the run is stopped, which emits a tuple in the end."""

    def next_tuple(self) -> None:
        told(CALLS, 1)
        assert MAY_RETURN.wait(30)
        super().next_tuple()


@pytest.mark.parametrize("tracked", [True, False])
def test_a_stopped_run_does_not_end_without_a_tuple_whose_call_is_under_way(tracked: bool) -> None:
    MESSAGES.append((1, ("a",)))
    handle: RunHandle = LocalCluster().submit(counting(SlowCall("word", tracked=tracked)), until_empty=False)
    wait_for(lambda: CALLS)
    handle.stop(0)
    wait_for_looks("is_drained")
    MAY_RETURN.set()
    assert handle.await_termination(30)
    assert handle.state("count") == {"a": 1}
    assert [1] * tracked == ACKED
