"""A rich spout with several streams, and direct streams: who gets the tuples, and what becomes of messages."""

from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import BaseBasicBolt, FailedException
from anchorbolt.checkpoint.letters.letter_folder import LetterFolder
from anchorbolt.checkpoint.letters.letter_store import letters_of
from anchorbolt.errors import TopologyError
from anchorbolt.files import open_folder
from anchorbolt.testing import TupleCapture
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import BasicBolt, finished, kept_in
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, QueueSpout, RichBolt

RETURNED: dict[Any, Any] = {}  # by message id: what the emit returned


@pytest.fixture(autouse=True)
def _forget() -> None:
    RETURNED.clear()


class Streams(QueueSpout):
    """Emits each message to the stream that it names: `(stream, index of the task or None, values)`."""

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        super().open(conf, context, collector)
        self.receivers = context.get_component_tasks("direct")
        self.others = context.get_component_tasks("words")

    def next_tuple(self) -> None:
        if not MESSAGES:
            return
        msg_id, message = MESSAGES.popleft()
        self.pending[msg_id] = message
        stream, index, values = message
        if index is None:
            RETURNED[msg_id] = list(self.collector.emit(values, msg_id, stream=stream))
        else:
            RETURNED[msg_id] = self.collector.emit_direct(self.task(index), values, msg_id, stream=stream)

    def task(self, index: int) -> int:
        return int(self.receivers[index])

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("word")
        declarer.declare_stream("pairs", "key", "value")
        declarer.declare_stream("direct", "number", direct=True)


class Shows(BasicBolt):
    """Emits what it gets, with its own name and task's index; fails the first tuple with "bad" in it."""

    fields = ("stream", "values", "index", "id")

    def prepare(self, conf: Any, context: Any) -> None:
        self.index, self.id = context.this_task_index, context.this_task_id

    def execute(self, tup: Any, collector: Any) -> None:
        if "bad" in tup.values and not FAILED:
            raise FailedException("bad")
        collector.emit((tup.source_stream, repr(tuple(tup.values)), self.index, self.id))


def streams(spout: Streams, captured: TupleCapture) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("in", spout)
    builder.set_bolt("words", Shows(), parallelism=2).shuffle_grouping("in")
    builder.set_bolt("pairs", Shows(), parallelism=2).fields_grouping("in", "key", stream="pairs")
    builder.set_bolt("direct", Shows(), parallelism=3).direct_grouping("in", stream="direct")
    out = builder.set_bolt("out", captured)
    out.global_grouping("words").global_grouping("pairs").global_grouping("direct")
    return builder.create_topology("streams")


@pytest.mark.parametrize(
    "bad", [("default", None, ("bad",)), ("pairs", None, ("bad", 1)), ("direct", 2, ("bad",))], ids=lambda bad: bad[0]
)
def test_the_tuples_of_each_stream_reach_its_receivers_and_a_failed_one_is_replayed_on_its_stream(bad: Any) -> None:
    messages = [
        ("default", None, ("a",)),
        ("pairs", None, ("k", 1)),
        ("direct", 2, (7,)),
        ("direct", 0, (8,)),
        ("pairs", None, ("k", 2)),
        bad,
    ]
    MESSAGES.extend(enumerate(messages))
    captured = TupleCapture()
    finished(streams(Streams(), captured))
    assert (sorted(ACKED), FAILED) == (list(range(len(messages))), [5])
    assert sorted((stream, values) for stream, values, _, _ in captured.tuples) == sorted(
        (stream, repr(values)) for stream, _, values in messages
    )
    shown = {values: (index, id) for _, values, index, id in captured.tuples}
    assert shown["('k', 1)"] == shown["('k', 2)"]
    for msg_id, (_, index, values) in enumerate(messages):
        if index is None:
            assert RETURNED[msg_id] == [shown[repr(values)][1]]
        else:
            assert (RETURNED[msg_id], shown[repr(values)][0]) == (None, index)


@pytest.mark.parametrize("wrong", ["unknown", "of_another_stream", "no_id"])
def test_a_direct_emit_to_a_task_that_does_not_take_the_stream_is_refused(wrong: str) -> None:
    class Wrong(Streams):
        def task(self, index: int) -> Any:
            return {"unknown": 99, "of_another_stream": self.others[0], "no_id": "direct"}[wrong]

    MESSAGES.append((1, ("direct", 0, (7,))))
    with pytest.raises(TopologyError) as raised:
        finished(streams(Wrong(), TupleCapture()))
    assert raised.value.component == "in"


class Sends(BaseBasicBolt):
    """Sends each word to the task of the bolt "checks" for its first letter."""

    def prepare(self, conf: Any, context: Any) -> None:
        self.tasks = context.get_component_tasks("checks")

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit_direct(self.tasks[ord(tup["word"][0]) % len(self.tasks)], (tup["word"],), stream="direct")

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare_stream("direct", "word", direct=True)


class FailsOnce(RichBolt):
    """Fails the word "bad" the first time."""

    def execute(self, tup: Any) -> None:
        if tup["word"] == "bad" and not FAILED:
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


def test_a_basic_bolt_anchors_what_it_sends_to_a_task() -> None:
    MESSAGES.extend((number, (word,)) for number, word in enumerate(["a", "bad", "c"]))
    builder = TopologyBuilder()
    builder.set_spout("in", QueueSpout("word"))
    builder.set_bolt("sends", Sends()).shuffle_grouping("in")
    builder.set_bolt("checks", FailsOnce(), parallelism=2).direct_grouping("sends", "direct")
    finished(builder.create_topology("direct"), {})
    assert sorted(ACKED) == [0, 1, 2]
    assert FAILED == [1]


class SendsMessages(QueueSpout):
    """Sends each message to the first task of the bolt "checks"."""

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        super().open(conf, context, collector)
        [self.task] = context.get_component_tasks("checks")

    def next_tuple(self) -> None:
        while MESSAGES:
            msg_id, values = MESSAGES.popleft()
            self.pending[msg_id] = values
            self.collector.emit_direct(self.task, values, msg_id)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare(*self.fields, direct=True)


class RaisesOnBad(RichBolt):
    def execute(self, tup: Any) -> None:
        if tup["word"] == "bad":
            raise ValueError(tup["word"])
        self.collector.ack(tup)


def test_a_letter_of_a_direct_stream_is_the_same_after_each_replay(tmp_path: Path) -> None:
    MESSAGES.extend([(1, ("good", 1)), (2, ("bad", 2))])
    conf = {**kept_in(tmp_path), "topology.dead.letter": str(tmp_path / "dead"), "topology.max.tuple.retries": 0}
    folder = LetterFolder(open_folder(str(tmp_path / "dead")))
    found = []
    for _ in range(3):
        builder = TopologyBuilder()
        builder.set_spout("in", SendsMessages("word", "number"))
        builder.set_bolt("checks", RaisesOnBad()).direct_grouping("in")
        finished(builder.create_topology("direct"), conf)
        [name] = folder.names()
        [(_, letter)] = letters_of(folder, name)
        found.append(letter.values)
        folder.replay([name])
    assert [values[1:] for values in found] == [("bad", 2)] * 3
    assert len(set(found)) == 1, "the id of the task has not changed"
