"""Transactional topologies for tests with worker processes."""

from __future__ import annotations

from typing import Any

from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.streams import Tuple
from anchorbolt.topology import Topology
from anchorbolt.transactional import Committer, MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.jobs import BasicBolt
from tests.engine.workers.processes.jobs import Marks, word_of


class PassesOfBatch(BasicBolt):
    """Passes words on; may wait."""

    fields = ("tx", "word")

    def __init__(self, marks: Marks) -> None:
        self.marks = marks

    def execute(self, tup: Tuple, collector: Any) -> None:
        self.marks.hold()
        for word in tup[1].split():
            collector.emit((tup[0], word))


class CountOfBatch(BaseStatefulBolt[Any], Committer):
    """Counts words in the commit phase."""

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup[1], self.state.get(tup[1], 0) + 1)

    def finish_batch(self) -> None: ...


def word_rows(messages: int, partitions: int = 2) -> dict[int, list[tuple[str]]]:
    return {each: [word_of(number) for number in range(each, messages, partitions)] for each in range(partitions)}


def batches(spout: Any, marks: Marks, *, tasks: int = 3, name: str = "batches") -> Topology:
    """Words through a plain bolt to a committer with state."""
    builder = TransactionalTopologyBuilder(name, "words", spout, 2)
    builder.set_bolt("pass", PassesOfBatch(marks), tasks).shuffle_grouping("words")
    builder.set_committer_bolt("count", CountOfBatch(), tasks).fields_grouping("pass", "word")
    return builder.build_topology()


def in_memory(messages: int, take: int) -> MemoryTransactionalSpout:
    return MemoryTransactionalSpout(word_rows(messages), ["word"], take)
