"""Direct streams in a topology whose tuple trees are tracked."""

from typing import Any

import pytest

from anchorbolt.bolts import BaseBasicBolt
from anchorbolt.testing import LocalCluster
from anchorbolt.topology import TopologyBuilder
from tests.reliability import jobs
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, QueueSpout, RichBolt


@pytest.fixture(autouse=True)
def _forget() -> None:
    jobs.forget()


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
    assert LocalCluster().submit(builder.create_topology("direct"), {}).await_termination(60)
    assert sorted(ACKED) == [0, 1, 2]
    assert FAILED == [1]
