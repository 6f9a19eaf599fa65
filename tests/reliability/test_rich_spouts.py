"""Rich spouts on `LocalCluster`: when each of their methods is called, and what becomes of what they emit."""

import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.engine.driver.one_wave import OneWave
from anchorbolt.engine.driver.pump import Pump
from anchorbolt.engine.spouts.driver_spouts import DriverSpouts
from anchorbolt.engine.submit.handle import prepare_plan
from anchorbolt.errors import BoltError, SourceUnavailable, SpoutError, TopologyError, UnsupportedValue
from anchorbolt.spouts import BaseRichSpout, Spout
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.testing import LocalCluster, TupleCapture
from anchorbolt.topology import Topology, TopologyBuilder

CALLS: list[tuple[Any, ...]] = []  # what the spouts were called with, by the threads that called
EMITTED: list[Any] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    CALLS.clear()
    EMITTED.clear()
    FAILED.clear()
    IN_CALL.clear()
    MAY_EMIT.clear()


class Messages(BaseRichSpout):
    """Emits the messages of its task, one a call, with their index as message id."""

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

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("word")


class Count(BaseStatefulBolt[Any]):
    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Any) -> None:
        self.state.put(tup["word"], self.state.get(tup["word"], 0) + 1)
        self.collector.ack(tup)


class RaisesOnce(Count):
    def execute(self, tup: Any) -> None:
        if ("raised",) not in CALLS:
            CALLS.append(("raised",))
            raise ValueError("once")
        super().execute(tup)


def counting(spout: BaseRichSpout, tasks: int = 1) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("in", spout, parallelism=tasks)
    builder.set_bolt("count", Count(), parallelism=2).fields_grouping("in", "word")
    return builder.create_topology("counting")


def test_every_message_counts_and_is_acked_by_the_task_that_emitted_it() -> None:
    handle = LocalCluster().submit(counting(Messages("a", "b", "a", "c", "a"), tasks=2))
    assert handle.await_termination(30)
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
    assert LocalCluster().submit(counting(Messages("a"), tasks=3)).await_termination(30)
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

    class Tagged(BaseBasicBolt):
        def prepare(self, conf: Any, context: Any) -> None:
            self.task = context.this_task_id

        def execute(self, tup: Any, collector: Any) -> None:
            collector.emit((f"{tup['word']}:{self.task}",))

        def declare_output_fields(self, declarer: Any) -> None:
            declarer.declare("word")

    builder = TopologyBuilder()
    builder.set_spout("in", Messages(*"abcdefghij"))
    builder.set_bolt("shuffled", Tagged(), parallelism=3).shuffle_grouping("in")
    builder.set_bolt("grouped", Tagged(), parallelism=3).fields_grouping("in", "word")
    builder.set_bolt("all", Tagged(), parallelism=2).all_grouping("in")
    builder.set_bolt("out", capture).global_grouping("shuffled").global_grouping("grouped").global_grouping("all")
    assert LocalCluster().submit(builder.create_topology("routes")).await_termination(30)
    seen = {word: sorted(int(each[2:]) for (each,) in capture.tuples if each[0] == word) for word in "abcdefghij"}
    assert [sorted(ids) for ids in EMITTED] == [seen[word] for word in "abcdefghij"]


class Away(Messages):
    """Its source does not answer before the second message, for longer than a run waits that ends when nothing comes.

    With `blocks`, the second call after the ack of the first message waits for the answer.
    """

    def __init__(self, *messages: Any, blocks: bool) -> None:
        super().__init__(*messages)
        self.blocks = blocks
        self.back_at = 0.0

    def next_tuple(self) -> None:
        if len(self.messages) != 1 or time.monotonic() >= self.back_at > 0:
            self.source_is_away = False
            super().next_tuple()
        elif ("ack", 0, 0) not in CALLS or not self.blocks:
            self.source_is_away = True
            self.back_at = 0.0 if self.blocks else self.back_at or time.monotonic() + 1
        elif self.source_is_away:
            self.source_is_away = False
        else:
            self.back_at = time.monotonic()
            threading.Event().wait(1)
            super().next_tuple()


@pytest.mark.parametrize("blocks", [False, True])
def test_a_run_does_not_end_while_a_source_does_not_answer(blocks: bool) -> None:
    handle = LocalCluster().submit(counting(Away("a", "b", blocks=blocks)))
    assert handle.await_termination(30)
    assert handle.state("count") == {"a": 1, "b": 1}


FAILED, IN_CALL, MAY_EMIT = threading.Event(), threading.Event(), threading.Event()


class SlowAfterFail(Messages):
    """Emits a message again that has failed, once it may: meanwhile the call for it does not return."""

    def next_tuple(self) -> None:
        if FAILED.is_set():
            assert MAY_EMIT.wait(30)
        super().next_tuple()

    def fail(self, msg_id: Any) -> None:
        self.messages.append((msg_id, "a"))
        FAILED.set()


class FailsLate(Count):
    """Fails the first tuple once the spout has been called in vain for longer than a run waits that ends by itself."""

    def execute(self, tup: Any) -> None:
        if FAILED.is_set():
            super().execute(tup)
            return
        threading.Event().wait(0.3)
        self.collector.fail(tup)


def test_a_run_does_not_end_before_a_failed_message_is_emitted_again() -> None:
    builder = TopologyBuilder()
    builder.set_spout("in", SlowAfterFail("a"))
    builder.set_bolt("count", FailsLate()).fields_grouping("in", "word")
    handle = LocalCluster().submit(builder.create_topology("late"))
    try:
        assert FAILED.wait(30)
        handle.await_termination(0.2)  # so long the spout's call takes
        MAY_EMIT.set()
        assert handle.await_termination(30)
    finally:
        MAY_EMIT.set()
    assert handle.state("count") == {"a": 1}
    assert [call[2] for call in CALLS if call[0] == "ack"] == [0]


class SlowCall(Messages):
    """Is in a call of `next_tuple` when the run is stopped, which emits a tuple in the end."""

    def __init__(self, *messages: Any, tracked: bool) -> None:
        super().__init__(*messages)
        self.tracked = tracked

    def next_tuple(self) -> None:
        IN_CALL.set()
        assert MAY_EMIT.wait(30)
        index, word = self.messages.popleft()
        self.collector.emit((word,), index if self.tracked else None)


@pytest.mark.parametrize("tracked", [True, False])
def test_a_stopped_run_does_not_end_without_a_tuple_whose_call_is_under_way(tracked: bool) -> None:
    handle = LocalCluster().submit(counting(SlowCall("a", tracked=tracked)), until_empty=False)
    try:
        assert IN_CALL.wait(30)
        handle.stop(0)
        assert not handle.await_termination(0.2)  # so long the spout's call takes
    finally:
        MAY_EMIT.set()
    assert handle.await_termination(30)
    assert handle.state("count") == {"a": 1}
    assert [call[2] for call in CALLS if call[0] == "ack"] == ([0] if tracked else [])


def test_the_end_of_the_pump_waits_for_a_wave_of_the_query_before_it_writes_the_record(tmp_path: Path) -> None:
    plan = prepare_plan(counting(Messages()), {}, memory=MemoryStateProvider(), location=str(tmp_path))
    one_wave = OneWave()

    class Record:
        record = DecisionRecord()
        was_held = False

        def keep_acked(self, acked: Any) -> None:
            self.was_held = not one_wave.acquire(timeout=0)

    spout: Any = Record()
    pump = Pump(plan, DriverSpouts(plan), one_wave)
    pump.start(spout, lambda report: None, until_empty=False)
    pump.stop()
    pump.wait()
    assert spout.was_held


def test_a_failed_round_replays_the_intake_and_acks_once() -> None:
    builder = TopologyBuilder()
    builder.set_spout("in", Messages("a", "a"))
    builder.set_bolt("count", RaisesOnce()).fields_grouping("in", "word")
    handle = LocalCluster().submit(builder.create_topology("once"))
    assert handle.await_termination(30)
    assert handle.state("count") == {"a": 2}
    assert sorted(call[2] for call in CALLS if call[0] == "ack") == [0, 1]


def test_a_wave_that_fails_for_good_acks_and_fails_nothing() -> None:
    class Broken(Count):
        def execute(self, tup: Any) -> None:
            raise ValueError("always")

    builder = TopologyBuilder()
    builder.set_spout("in", Messages("a"))
    builder.set_bolt("count", Broken()).fields_grouping("in", "word")
    with pytest.raises(BoltError):
        LocalCluster().submit(builder.create_topology("broken")).await_termination(30)
    assert {call[0] for call in CALLS} == {"open", "activate", "deactivate", "close"}


@pytest.mark.parametrize("hook", ["open", "activate", "next_tuple", "ack", "deactivate", "close"])
def test_a_spout_that_raises_ends_the_run_with_its_name(hook: str) -> None:
    def failing(self: Any, *_: Any) -> None:
        raise ValueError(hook)

    spout = type("Failing", (Messages,), {hook: failing})("a")
    with pytest.raises(SpoutError) as raised:
        LocalCluster().submit(counting(spout)).await_termination(30)
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
        LocalCluster().submit(counting(Wrong("a"))).await_termination(30)
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
        LocalCluster().submit(counting(type("Away", (Messages,), {hook: away})("a"))).await_termination(30)


def test_a_spout_of_no_known_kind_is_refused() -> None:
    class Other(Spout):
        def declare_output_fields(self, declarer: Any) -> None:
            declarer.declare("word")

    builder = TopologyBuilder()
    builder.set_spout("in", Other())
    builder.set_bolt("count", Count()).fields_grouping("in", "word")
    with pytest.raises(TopologyError) as raised:
        LocalCluster().submit(builder.create_topology("other"))
    assert raised.value.component == "in"
    assert "BaseRichSpout, StreamSpout, FeederSpout" in raised.value.message


def test_describe_shows_the_ackers() -> None:
    assert "__acker" in counting(Messages()).describe()
