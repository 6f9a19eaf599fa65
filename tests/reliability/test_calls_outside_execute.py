"""What a bolt or a spout calls on a thread of its own, or outside of its hooks, raises there, and is logged once."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from anchorbolt.bolts import BaseBasicBolt, OutputCollector
from anchorbolt.errors import BoltError, CollectorClosed
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.streams.declaration import StreamDeclaration
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import Fields, StatefulBolt, chain, finished
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, QueueSpout, RichBolt

MANY = 5000  # several blobs
CALLS: dict[str, Callable[[Any, Any], object]] = {
    "emit": lambda collector, tup: collector.emit(("late",), anchors=tup),
    "emit_direct": lambda collector, tup: collector.emit_direct(1, ("late",), anchors=tup, stream="direct"),
    "ack": lambda collector, tup: collector.ack(tup),
    "fail": lambda collector, tup: collector.fail(tup),
    "reset_timeout": lambda collector, tup: collector.reset_timeout(tup),
}
ERRORS: list[CollectorClosed] = []
KEPT: list[tuple[Any, Any]] = []  # collectors and tuples


@pytest.fixture(autouse=True)
def _forget() -> None:
    ERRORS.clear()
    KEPT.clear()


def refused(call: Callable[..., object], *arguments: Any) -> None:
    try:
        call(*arguments)
    except CollectorClosed as error:
        ERRORS.append(error)


def passed(bolt: Any, source: str) -> Topology:
    rows = [(f"w{number}",) for number in range(MANY)]
    builder = TopologyBuilder()
    if source == "rich":
        MESSAGES.extend(enumerate(rows))
        builder.set_spout("in", QueueSpout("word"))
    else:
        builder.set_spout("in", FeederSpout(["word"], [rows[:3000], rows[3000:]]))
    builder.set_bolt("pass", bolt).shuffle_grouping("in")
    builder.set_bolt("count", StatefulBolt()).shuffle_grouping("pass").direct_grouping("pass", "direct")
    return builder.create_topology("calls")


class Declares:
    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("word")
        declarer.declare_stream("direct", "word", direct=True)


class OnThreads(Declares, RichBolt):
    """Makes a call on a thread of its own, and waits for it; then it passes the tuple on."""

    def __init__(self, call: str, *, lasting: bool) -> None:
        self.call, self.lasting = call, lasting

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        super().prepare(conf, context, collector)
        self.pool = ThreadPoolExecutor(1)

    def execute(self, tup: Any) -> None:
        if self.lasting:
            self.pool.submit(refused, CALLS[self.call], self.collector, tup).result()
        elif not ERRORS:
            thread = threading.Thread(target=refused, args=(CALLS[self.call], self.collector, tup))
            thread.start()
            thread.join()
        self.collector.emit((tup["word"],), anchors=tup)
        self.collector.ack(tup)

    def cleanup(self) -> None:
        self.pool.shutdown()


@pytest.mark.parametrize("source", ["feeder", "rich"])
@pytest.mark.parametrize("call", CALLS)
def test_each_call_on_a_thread_that_stays_is_refused(source: str, call: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "anchorbolt"):
        handle = finished(passed(OnThreads(call, lasting=True), source))
    assert handle.state("count") == {f"w{number}": 1 for number in range(MANY)}
    assert len(ERRORS) == MANY
    assert {(error.component, error.call) for error in ERRORS} == {("pass", call)}
    assert len([record for record in caplog.records if record.name == "anchorbolt.streams"]) == 1
    assert (len(ACKED), FAILED) == (MANY if source == "rich" else 0, [])


@pytest.mark.parametrize("source", ["feeder", "rich"])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_on_a_thread_that_ends_in_execute_is_refused_the_first_time(source: str, call: str) -> None:
    finished(passed(OnThreads(call, lasting=False), source))
    assert len(ERRORS) == 1


class Keeps(Declares, RichBolt):
    def execute(self, tup: Any) -> None:
        KEPT.append((self.collector, tup))
        self.collector.ack(tup)


class KeepsBasic(Declares, BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        KEPT.append((collector, tup))


@pytest.mark.parametrize("source", ["feeder", "rich"])
def test_each_call_after_execute_is_refused(source: str) -> None:
    finished(passed(Keeps(), source))
    for call in CALLS.values():
        with pytest.raises(CollectorClosed):
            call(*KEPT[-1])


@pytest.mark.parametrize("source", ["feeder", "rich"])
def test_an_emit_of_a_basic_bolt_after_execute_is_refused(source: str) -> None:
    finished(passed(KeepsBasic(), source))
    with pytest.raises(CollectorClosed):
        KEPT[-1][0].emit(("late",))
    with pytest.raises(CollectorClosed):
        KEPT[-1][0].emit_direct(1, ("late",), stream="direct")


class EmitsIn(StatefulBolt):
    fields = ("word", "count")

    def __init__(self, hook: str) -> None:
        self.hook = hook

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        super().prepare(conf, context, collector)
        self.emit_in("prepare")

    def init_state(self, state: Any) -> None:
        super().init_state(state)
        self.emit_in("init_state")

    def pre_prepare(self, txid: int) -> None:
        self.emit_in("pre_prepare")

    def emit_in(self, hook: str) -> None:
        if hook == self.hook:
            self.collector.emit((hook, 1), anchors=())


def emits_in(hook: str) -> Topology:
    return chain("calls", {"in": FeederSpout(["word"], [[("a",)]]), "emits": EmitsIn(hook), "count": StatefulBolt()})


def test_what_is_emitted_in_prepare_would_be_lost_and_is_refused() -> None:
    with pytest.raises(BoltError, match="CollectorClosed") as raised:
        finished(emits_in("prepare"), {"topology.max.batch.retries": 0})
    assert 'self.emit_in("prepare")' in raised.value.user_traceback


@pytest.mark.parametrize("hook", ["init_state", "pre_prepare"])
def test_what_is_emitted_in_hooks_of_a_wave_counts(hook: str) -> None:
    handle = finished(emits_in(hook))
    assert handle.state("count")[hook] == 1


class CallsBack(Fields, BaseRichSpout):
    """Its client calls back on a thread of its own, in `next_tuple` and after `close`."""

    fields = ("word",)

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.pool, self.emits = collector, ThreadPoolExecutor(1), 0

    def next_tuple(self) -> None:
        if self.emits < 3:
            self.pool.submit(refused, self.collector.emit, ("late",), self.emits).result()
            self.collector.emit((f"w{self.emits}",), self.emits)
            self.emits += 1

    def close(self) -> None:
        self.pool.shutdown()
        KEPT.append((self.collector, None))


def test_a_spout_emits_only_in_its_methods() -> None:
    handle = finished(chain("calls", {"in": CallsBack(), "count": StatefulBolt()}))
    assert handle.state("count") == {"w0": 1, "w1": 1, "w2": 1}
    assert [(error.component, error.call) for error in ERRORS] == [("in", "emit")] * 3
    assert "queue.Queue" in ERRORS[0].message
    with pytest.raises(CollectorClosed):
        KEPT[0][0].emit(("late",), 9)


def test_a_collector_that_is_opened_again_takes_calls() -> None:
    sent: list[Any] = []
    streams = {"default": StreamDeclaration(("word",))}
    collector = OutputCollector("a", streams, lambda _, buffer: sent.extend(*buffer.columns) or 1, must_anchor=False)
    for checks in (True, False):
        collector.close()
        with pytest.raises(CollectorClosed):
            collector.emit(("late",))
        collector.open(checks=checks)
        collector.emit((checks,))
    collector.close()
    collector.flush()
    assert sent == [True, False]
