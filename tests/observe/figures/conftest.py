"""A run whose figures are known."""

from __future__ import annotations

from typing import Any

import pytest

from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.state_backends import KeyValueState
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder

WAVES = [[("a",), ("b",), ("a",)], [("c",)]]


class Count(BaseStatefulBolt[KeyValueState[str, int]]):
    """Counts words, and raises the first time that it sees `c`."""

    raised = False

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector
        self.seen = context.register_counter("words.seen")
        self.lengths = context.register_histogram("lengths")
        self.last = context.register_gauge("last")

    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.counts = state

    def execute(self, tup: Any) -> None:
        word = tup["word"]
        self.seen.inc()
        self.lengths.update(len(word))
        self.last.set(ord(word))
        if word == "c" and not Count.raised:
            Count.raised = True
            raise ValueError("only once")
        self.counts.put(word, self.counts.get(word, 0) + 1)
        self.collector.emit((word,), anchors=tup)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("word")


@pytest.fixture
def ended() -> RunHandle:
    """A run of two waves; the second one needed two rounds."""
    Count.raised = False
    builder = TopologyBuilder()
    builder.set_spout("words", FeederSpout(["word"], WAVES))
    builder.set_bolt("count", Count(), 2).fields_grouping("words", "word")
    builder.set_bolt("again", Count()).fields_grouping("count", "word")
    handle = LocalCluster().submit(builder.create_topology("figures"), {"topology.state.provider": "memory"})
    assert handle.await_termination(60)
    return handle
