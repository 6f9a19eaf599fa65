"""Direct streams in a topology whose tuple trees are tracked."""

from pathlib import Path
from typing import Any

from anchorbolt.bolts import BaseBasicBolt
from anchorbolt.checkpoint.letters.letter_folder import LetterFolder
from anchorbolt.checkpoint.letters.letter_store import letters_of
from anchorbolt.files import open_folder
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import finished, kept_in
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, QueueSpout, RichBolt


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
