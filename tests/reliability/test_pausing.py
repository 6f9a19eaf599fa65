"""Rich spouts in a pause: they are asked for nothing, and what is in flight is processed first."""

import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from anchorbolt.engine import RunHandle
from anchorbolt.errors import SpoutError
from anchorbolt.testing import FeederSpout, LocalCluster, ManualClock
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import chain
from tests.reliability import jobs
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, Count, Pairs, QueueSpout

DEADLINE_S = 30
A_WHILE_S = 0.3  # in which a wave would begin, or a spout would be called

CALLS: list[str] = []
entered, leave = threading.Event(), threading.Event()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()
    entered.clear()
    leave.clear()


class Noting(QueueSpout):
    def activate(self) -> None:
        jobs.told(CALLS, "activate")

    def ack(self, msg_id: Any) -> None:
        super().ack(msg_id)
        jobs.told(CALLS, f"ack {msg_id}")

    def fail(self, msg_id: Any) -> None:
        super().fail(msg_id)
        jobs.told(CALLS, f"fail {msg_id}")

    def deactivate(self) -> None:
        jobs.told(CALLS, "deactivate")


class Waiting(Count):
    def execute(self, tup: Any) -> None:
        if tup[0] == "wait":
            entered.set()
            assert leave.wait(DEADLINE_S)
        super().execute(tup)


def counting(spout: QueueSpout | None = None, rows: FeederSpout | None = None) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("in", spout or Noting("word"))
    count = builder.set_bolt("count", Waiting()).fields_grouping("in", "word")
    if rows is not None:
        builder.set_spout("rows", rows)
        count.fields_grouping("rows", "word")
    return builder.create_topology("counting")


def pairing() -> Topology:
    return chain("pairing", {"in": Noting("id", "value"), "pairs": (Pairs(), "id")})


def started(topology: Topology, conf: Mapping[str, Any] | None = None, clock: ManualClock | None = None) -> RunHandle:
    return LocalCluster(clock=clock or time.monotonic).submit(topology, conf, until_empty=False)


def stopped(handle: RunHandle) -> RunHandle:
    assert handle.stop(DEADLINE_S)
    return handle


def test_what_was_emitted_is_processed_and_acked_before_the_waves_cease() -> None:
    MESSAGES.append((1, ("wait",)))
    handle = started(counting())
    assert entered.wait(DEADLINE_S)
    MESSAGES.append((2, ("a",)))
    while MESSAGES:
        assert not handle.await_termination(0.01)
    assert not handle.pause(0)
    MESSAGES.append((3, ("b",)))
    leave.set()
    assert handle.pause(DEADLINE_S)
    jobs.wait_for(lambda: "deactivate" in CALLS)
    assert CALLS == ["activate", "ack 1", "ack 2", "deactivate"]
    assert handle.observe().messages_in_flight == 0
    assert not handle.await_termination(A_WHILE_S)
    assert len(MESSAGES) == 1, "the spout is not asked for more"
    handle.resume()
    jobs.wait_for(lambda: "ack 3" in CALLS)
    assert stopped(handle).state("count") == {"wait": 1, "a": 1, "b": 1}
    assert CALLS[4:] == ["activate", "ack 3", "deactivate"]


def test_a_spout_that_is_inactive_is_closed_without_being_deactivated_again() -> None:
    handle = started(counting())
    assert handle.pause(DEADLINE_S)
    jobs.wait_for(lambda: "deactivate" in CALLS)
    stopped(handle)
    assert CALLS == ["activate", "deactivate"]


def test_a_message_that_times_out_while_the_waves_cease_is_emitted_again_after_the_pause() -> None:
    clock = ManualClock()
    MESSAGES.append((1, ("x", 1)))
    handle = started(pairing(), clock=clock)
    while not handle.state("pairs"):
        assert not handle.await_termination(0.01)
    assert not handle.pause(A_WHILE_S), "the message waits for its pair"
    assert handle.observe().messages_in_flight == 1
    clock.advance(31)
    assert handle.pause(DEADLINE_S)
    jobs.wait_for(lambda: "deactivate" in CALLS)
    assert CALLS == ["activate", "fail 1", "deactivate"]
    clock.advance(3600)
    assert not handle.await_termination(A_WHILE_S)
    assert FAILED == [1]
    handle.resume()
    jobs.wait_for(lambda: ACKED == [1])
    stopped(handle)


@pytest.mark.slow
def test_a_message_that_cannot_time_out_keeps_the_waves_at_most_for_the_message_time_out() -> None:
    MESSAGES.append((1, ("x", 1)))
    conf = {"topology.enable.message.timeouts": False, "topology.message.timeout.secs": 1}
    handle = started(pairing(), {**conf, "topology.state.checkpoint.interval.ms": 100})
    while not handle.state("pairs"):
        assert not handle.await_termination(0.01)
    assert handle.pause(DEADLINE_S)
    assert handle.observe().messages_in_flight == 1
    assert CALLS == ["activate"]
    MESSAGES.extend([(2, ("x", 2)), (3, ("y", 3))])
    handle.resume()
    jobs.wait_for(lambda: sorted(ACKED) == [1, 2])
    while "y" not in handle.state("pairs"):
        assert not handle.await_termination(0.01)
    assert not handle.pause(A_WHILE_S), "each pause has the whole time"
    assert handle.pause(DEADLINE_S)
    stopped(handle)


def test_a_wave_for_what_is_in_flight_takes_nothing_new_from_other_spouts() -> None:
    rows = FeederSpout(["word"])
    MESSAGES.append((1, ("wait",)))
    handle = started(counting(rows=rows))
    assert entered.wait(DEADLINE_S)
    MESSAGES.append((2, ("a",)))
    while MESSAGES:
        assert not handle.await_termination(0.01)
    assert not handle.pause(0)
    rows.feed([("row",)])
    leave.set()
    assert handle.pause(DEADLINE_S)
    assert handle.state("count") == {"wait": 1, "a": 1}
    handle.resume()
    while "row" not in handle.state("count"):
        assert not handle.await_termination(0.01)
    assert stopped(handle).state("count") == {"wait": 1, "a": 1, "row": 1}


@pytest.mark.parametrize("hook", ["deactivate", "activate"])
def test_a_spout_that_cannot_be_paused_or_resumed_ends_the_run(hook: str) -> None:
    class Refuses(Noting):
        paused = False

        def deactivate(self) -> None:
            self.paused = True
            self.raise_in("deactivate")

        def activate(self) -> None:
            if self.paused:
                self.raise_in("activate")

        def raise_in(self, called: str) -> None:
            if called == hook:
                raise ValueError(hook)

    handle = started(counting(Refuses("word")))
    handle.pause(DEADLINE_S)
    if hook == "activate":
        assert not handle.await_termination(A_WHILE_S)
        handle.resume()
    with pytest.raises(SpoutError, match=f"in {hook}"):
        handle.await_termination(DEADLINE_S)
