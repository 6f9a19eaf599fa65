"""A rich spout that ends badly, that raises, or that does not return, beside another one."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from anchorbolt.engine.sources import rich_spouts
from anchorbolt.errors import SpoutError
from anchorbolt.testing import LocalCluster
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import chain, finished
from tests.reliability.jobs import ACKED, CHANGED, MESSAGES, Count, QueueSpout, RichBolt, told, wait_for

CLOSED: list[int] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    CLOSED.clear()


class Ends(QueueSpout):
    def __init__(self, error: BaseException) -> None:
        super().__init__("word")
        self.error = error

    def next_tuple(self) -> None:
        raise self.error

    def close(self) -> None:
        CLOSED.append(1)


def counting(spout: Any, bolt: Any = None, tasks: int = 1) -> Any:
    return chain("ends", {"in": (spout, tasks), "count": (bolt or Count(), "word")})


@pytest.mark.parametrize("error", [asyncio.CancelledError(), ValueError("no")], ids=repr)
def test_whatever_ends_the_thread_of_a_spout_ends_the_run_and_closes_the_spout(error: BaseException) -> None:
    with pytest.raises(SpoutError) as raised:  # of `submit` already, if the spout is fast
        finished(counting(Ends(error)))
    assert (raised.value.component, raised.value.task_index) == ("in", 0)
    assert CLOSED == [1]


class Reports(QueueSpout):
    def next_tuple(self) -> None:
        if MESSAGES:
            self.collector.report_error(ValueError("odd"))
        super().next_tuple()


def test_errors_that_a_spout_reports_are_in_the_report_of_the_wave() -> None:
    MESSAGES.extend((number, ("a",)) for number in range(3))
    handle = finished(counting(Reports("word")))
    assert sum(report.errors_reported for report in handle.reports) == 3


class OwnIds(QueueSpout):
    """Each task emits its own message 0, and emits it again when it fails."""

    stable_message_ids = False

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        super().open(conf, context, collector)
        self.word = f"task {context.this_task_index}"
        self.emits = 1

    def next_tuple(self) -> None:
        if self.emits:
            self.emits = 0
            self.collector.emit((self.word,), 0)

    def fail(self, msg_id: Any) -> None:
        self.emits = 1

    def ack(self, msg_id: Any) -> None:
        ACKED.append(self.word)


class FailsTwice(RichBolt):
    times: Counter[str] = Counter()  # noqa: RUF012 - shared: a task may have another instance in each wave

    def execute(self, tup: Any) -> None:
        word = tup["word"]
        self.times[word] += 1
        if self.times[word] <= 2:
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


def test_the_failures_of_two_tasks_with_ids_of_their_own_are_counted_apart() -> None:
    letters: list[Any] = []
    FailsTwice.times.clear()
    conf = {"topology.dead.letter": lambda found, txid: letters.extend(found), "topology.max.tuple.retries": 3}
    finished(counting(OwnIds("word"), FailsTwice(), tasks=2), conf)
    assert (letters, sorted(ACKED)) == ([], ["task 0", "task 1"])


CALLS: list[str] = []  # of `Beside`, once it has emitted its message
MAY_RETURN = threading.Event()


@pytest.fixture(autouse=True)
def _forget_calls() -> Iterator[None]:
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
