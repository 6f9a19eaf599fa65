"""A rich spout that does not return, or that raises, beside another one."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from anchorbolt.engine.sources import rich_spouts
from anchorbolt.errors import SpoutError
from anchorbolt.testing import LocalCluster
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import chain, finished
from tests.reliability.jobs import ACKED, CHANGED, MESSAGES, Count, QueueSpout, told, wait_for

CALLS: list[str] = []  # of `Beside`, once it has emitted its message
MAY_RETURN = threading.Event()


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    CALLS.clear()
    MAY_RETURN.clear()
    yield
    MAY_RETURN.set()


class Beside(QueueSpout):
    """Emits message 0; its next call of `next_tuple` raises if the spout `raises`, or else does not return."""

    def __init__(self, *, raises: bool) -> None:
        super().__init__("word")
        self.raises = raises
        self.emitted = False

    def next_tuple(self) -> None:
        if not self.emitted:
            self.emitted = True
            self.collector.emit(("beside",), 0)
            return
        told(CALLS, "next_tuple")
        if not self.raises:
            MAY_RETURN.wait()
        else:
            wait_for(lambda: len(ACKED) == 3)
            raise ValueError("beside")

    def ack(self, msg_id: Any) -> None:
        told(CALLS, "ack")

    def close(self) -> None:
        told(CALLS, "close")


class Closes(QueueSpout):
    def close(self) -> None:
        told(ACKED, "close")


def two(beside: QueueSpout) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("good", Closes("word"))
    builder.set_spout("beside", beside)
    builder.set_bolt("count", Count()).fields_grouping("good", "word").fields_grouping("beside", "word")
    return builder.create_topology("two")


def test_a_spout_that_does_not_return_stops_neither_another_one_nor_a_stop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rich_spouts, "_CLOSE_S", 0.1)
    cluster = LocalCluster()
    conf = {"topology.message.timeout.secs": 1, "topology.state.checkpoint.interval.ms": 100}
    handle = cluster.submit(two(Beside(raises=False)), conf, until_empty=False)
    wait_for(lambda: CALLS)
    MESSAGES.extend((number, ("good",)) for number in (1, 2, 3))
    wait_for(lambda: ACKED == [1, 2, 3])
    assert handle.stop(30)
    assert handle.state("count") == {"good": 3, "beside": 1}
    assert CALLS == ["next_tuple"]
    assert any(record.args == ("beside", 0) for record in caplog.records if record.name == "anchorbolt.engine")
    MAY_RETURN.set()
    wait_for(lambda: "close" in CALLS)

    # Its message was committed, but could not be acked: the next run acks it.
    ACKED.clear()
    MESSAGES.append((0, ("beside",)))
    handle = finished(chain("two", {"beside": QueueSpout("word"), "count": (Count(), "word")}), conf, cluster=cluster)
    assert handle.state("count") == {"good": 3, "beside": 1}
    assert ACKED == [0]


def test_a_spout_that_raises_ends_the_run_after_another_one_has_got_its_acks_and_was_closed() -> None:
    handle = LocalCluster().submit(two(Beside(raises=True)), until_empty=False)
    wait_for(lambda: CALLS)
    MESSAGES.extend((number, ("good",)) for number in (1, 2, 3))
    with pytest.raises(SpoutError) as raised:
        handle.await_termination(30)
    assert raised.value.component == "beside"
    with CHANGED:
        assert ACKED == [1, 2, 3, "close"]
    assert handle.state("count") == {"good": 3, "beside": 1}
