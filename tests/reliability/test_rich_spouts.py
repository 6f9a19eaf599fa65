"""Rich spouts on `LocalCluster`: when each of their methods is called, and what becomes of what they emit."""

import threading
import time
from collections import deque
from typing import Any

import pytest

from anchorbolt.errors import BoltError, SourceUnavailable, SpoutError, TopologyError, UnsupportedValue
from anchorbolt.spouts import BaseRichSpout, Spout
from anchorbolt.testing import LocalCluster, TupleCapture
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import BasicBolt, Fields, chain, finished
from tests.reliability.jobs import Count

CALLS: list[tuple[Any, ...]] = []  # what the spouts were called with, by the threads that called
EMITTED: list[Any] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    CALLS.clear()
    EMITTED.clear()


class Messages(Fields, BaseRichSpout):
    """Emits the messages of its task, one a call, with their index as message id."""

    fields = ("word",)

    stable_message_ids = True

    def __init__(self, *messages: Any) -> None:
        self.messages = deque(enumerate(messages))

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        CALLS.append(("open", context.this_task_index, threading.current_thread().name))
        self.collector, self.task, self.tasks = collector, context.this_task_index, len(context.component_tasks["in"])

    def activate(self) -> None:
        CALLS.append(("activate", self.task))

    def next_tuple(self) -> None:
        while self.messages:
            number, message = self.messages.popleft()
            if number % self.tasks == self.task:
                EMITTED.append(self.collector.emit((message,), number))
                return

    def ack(self, msg_id: Any) -> None:
        CALLS.append(("ack", self.task, msg_id))

    def fail(self, msg_id: Any) -> None:
        CALLS.append(("fail", self.task, msg_id))

    def flush_acks(self) -> None:
        CALLS.append(("flush_acks", self.task))

    def deactivate(self) -> None:
        CALLS.append(("deactivate", self.task))

    def close(self) -> None:
        CALLS.append(("close", self.task))


class RaisesOnce(Count):
    def execute(self, tup: Any) -> None:
        if ("raised",) not in CALLS:
            CALLS.append(("raised",))
            raise ValueError("once")
        super().execute(tup)


def counting(spout: BaseRichSpout, tasks: int = 1) -> Topology:
    return chain("counting", {"in": (spout, tasks), "count": (Count(), 2, "word")})


def test_every_message_counts_and_is_acked_by_the_task_that_emitted_it() -> None:
    handle = finished(counting(Messages("a", "b", "a", "c", "a"), tasks=2))
    assert handle.state("count") == {"a": 3, "b": 1, "c": 1}
    assert sorted(call for call in CALLS if call[0] == "ack") == [
        ("ack", number % 2, number) for number in (0, 2, 4, 1, 3)
    ]
    for task in (0, 1):
        calls = [call[0] for call in CALLS if call[1] == task]
        assert calls[:2] == ["open", "activate"]
        assert calls[-2:] == ["deactivate", "close"]
        assert calls[-3] == "flush_acks"


def test_each_task_has_a_thread_of_its_own() -> None:
    finished(counting(Messages("a"), tasks=3))
    assert len({call[2] for call in CALLS if call[0] == "open"}) == 3


def test_an_ack_follows_the_commit() -> None:
    words, committed = ["a", "b", "c"], dict[int, Any]()
    submitted = threading.Event()

    class Looks(Messages):
        def next_tuple(self) -> None:
            submitted.wait(10)
            super().next_tuple()

        def ack(self, msg_id: Any) -> None:
            committed[msg_id] = handle.state("count")

    handle = LocalCluster().submit(counting(Looks(*words)))
    submitted.set()
    assert handle.await_termination(30)
    assert [committed[number].get(word) for number, word in enumerate(words)] == [1, 1, 1]


def test_an_emit_returns_the_tasks_that_the_tuple_goes_to() -> None:
    capture = TupleCapture()

    class Tagged(BasicBolt):
        fields = ("word",)

        def prepare(self, conf: Any, context: Any) -> None:
            self.task = context.this_task_id

        def execute(self, tup: Any, collector: Any) -> None:
            collector.emit((f"{tup['word']}:{self.task}",))

    builder = TopologyBuilder()
    builder.set_spout("in", Messages(*"abcdefghij"))
    builder.set_bolt("shuffled", Tagged(), parallelism=3).shuffle_grouping("in")
    builder.set_bolt("grouped", Tagged(), parallelism=3).fields_grouping("in", "word")
    builder.set_bolt("all", Tagged(), parallelism=2).all_grouping("in")
    builder.set_bolt("out", capture).global_grouping("shuffled").global_grouping("grouped").global_grouping("all")
    finished(builder.create_topology("routes"))
    seen = {word: sorted(int(each[2:]) for (each,) in capture.tuples if each[0] == word) for word in "abcdefghij"}
    assert [sorted(ids) for ids in EMITTED] == [seen[word] for word in "abcdefghij"]


def test_a_failed_round_replays_the_intake_and_acks_once() -> None:
    handle = finished(chain("once", {"in": Messages("a", "a"), "count": (RaisesOnce(), "word")}))
    assert handle.state("count") == {"a": 2}
    assert sorted(call[2] for call in CALLS if call[0] == "ack") == [0, 1]


def test_a_wave_that_fails_for_good_acks_and_fails_nothing() -> None:
    class Broken(Count):
        def execute(self, tup: Any) -> None:
            raise ValueError("always")

    with pytest.raises(BoltError):
        finished(chain("broken", {"in": Messages("a"), "count": (Broken(), "word")}))
    assert {call[0] for call in CALLS} == {"open", "activate", "deactivate", "close"}


@pytest.mark.parametrize("hook", ["open", "activate", "next_tuple", "ack", "deactivate", "close"])
def test_a_spout_that_raises_ends_the_run_with_its_name(hook: str) -> None:
    def failing(self: Any, *_: Any) -> None:
        raise ValueError(hook)

    spout = type("Failing", (Messages,), {hook: failing})("a")
    with pytest.raises(SpoutError) as raised:
        finished(counting(spout))
    assert (raised.value.component, raised.value.task_index) == ("in", 0)
    assert f"ValueError: {hook}" in raised.value.user_traceback


@pytest.mark.parametrize(
    ("emit", "error"),
    [
        (lambda collector: collector.emit(("a", "b"), 1), TopologyError),
        (lambda collector: collector.emit("a", 1), TopologyError),
        (lambda collector: collector.emit(("a",), 1, stream="other"), TopologyError),
        (lambda collector: collector.emit(("a",), [1]), TopologyError),
        (lambda collector: collector.emit(("a",), (1, object())), TopologyError),
        (lambda collector: collector.emit_direct(1, ("a",), 1), TopologyError),
        (lambda collector: collector.emit((object(),), 1), UnsupportedValue),
    ],
)
def test_a_wrong_emit_is_refused(emit: Any, error: type[Exception]) -> None:
    class Wrong(Messages):
        def next_tuple(self) -> None:
            if self.messages:
                self.messages.clear()
                emit(self.collector)

    with pytest.raises(error) as raised:
        finished(counting(Wrong("a")))
    if isinstance(raised.value, TopologyError):
        assert raised.value.component == "in"


def test_a_spout_that_does_not_return_is_named_with_its_line(caplog: pytest.LogCaptureFixture) -> None:
    blocked = threading.Event()

    class Blocking(Messages):
        def next_tuple(self) -> None:
            super().next_tuple()
            blocked.wait(60)

    conf = {"topology.message.timeout.secs": 1, "topology.state.checkpoint.interval.ms": 100}
    handle = LocalCluster().submit(counting(Blocking("a")), conf)
    deadline = time.monotonic() + 30
    while not any("next_tuple" in record.message and "'in'" in record.message for record in caplog.records):
        assert time.monotonic() < deadline
        assert not handle.await_termination(0.05)
    assert handle.state("count") == {"a": 1}
    blocked.set()
    assert handle.stop(30)


def test_a_spout_that_cannot_be_pickled_is_refused() -> None:
    spout = Messages()
    spout.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(TopologyError) as raised:
        counting(spout)
    assert raised.value.component == "in"


@pytest.mark.parametrize("hook", ["open", "next_tuple"])
def test_an_error_of_ours_keeps_its_type(hook: str) -> None:
    def away(self: Any, *_: Any) -> None:
        raise SourceUnavailable("the source is away")

    with pytest.raises(SourceUnavailable):
        finished(counting(type("Away", (Messages,), {hook: away})("a")))


def test_a_spout_of_no_known_kind_is_refused() -> None:
    class Other(Spout):
        def declare_output_fields(self, declarer: Any) -> None:
            declarer.declare("word")

    with pytest.raises(TopologyError) as raised:
        LocalCluster().submit(chain("other", {"in": Other(), "count": (Count(), "word")}))
    assert raised.value.component == "in"
    assert "BaseRichSpout, StreamSpout, FeederSpout" in raised.value.message


def test_describe_shows_the_ackers() -> None:
    assert "__acker" in counting(Messages()).describe()
