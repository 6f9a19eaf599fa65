"""Vectorised bolts for tests, each beside a row bolt that does the same."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from anchorbolt.bolts import ArrowOutputCollector, BaseArrowBolt, BaseBasicBolt, BaseStatefulArrowBolt
from anchorbolt.bolts.base import Bolt, FailedException
from anchorbolt.spouts import Spout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams import OutputFieldsDeclarer, Tuple
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import StatefulBolt

WORD = pa.schema([("word", pa.string())])
COUNTED = pa.schema([("word", pa.string()), ("count", pa.int64())])


class Declares:
    """Declares a stream, typed or untyped."""

    schema: Any = WORD

    def __init__(self, *, typed: bool = True) -> None:
        self.typed = typed

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(self.schema) if self.typed else declarer.declare(*self.schema.names)


class SplitRows(Declares, BaseBasicBolt):
    """Splits sentences at blanks."""

    def execute(self, tup: Tuple, collector: Any) -> None:
        refuse([tup["sentence"]])
        for word in tup["sentence"].split(" "):
            collector.emit((word,))


class SplitBlocks(Declares, BaseArrowBolt):
    """The same."""

    field = "sentence"

    def execute_batch(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        refuse(batch[self.field].to_pylist())
        words = pc.split_pattern(batch[self.field], " ")
        collector.emit_batch([words.flatten()], parents=pc.list_parent_indices(words))


class CountRows(Declares, StatefulBolt):
    """Counts words, and emits each new count."""

    schema = COUNTED

    def execute(self, tup: Tuple) -> None:
        refuse([tup["word"]])
        self.collector.emit((tup["word"], self.count(tup["word"])), anchors=tup)
        self.collector.ack(tup)


class CountBlocks(Declares, BaseStatefulArrowBolt):
    """The same."""

    schema = COUNTED

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        self.counts = state

    def execute_batch(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        words = batch["word"]
        refuse(words.to_pylist())
        counts = self.counts.add_array(words, pa.array([1] * len(words), pa.int64()))
        collector.emit_batch([words, counts], parents=range(len(words)))


def refuse(values: list[Any]) -> None:
    """Raise for "bad" and "fail"."""
    if any("bad" in value for value in values):
        raise ValueError("bad")
    if any("fail" in value for value in values):
        raise FailedException("fail")


SPLITS: dict[str, type[Declares]] = {"rows": SplitRows, "blocks": SplitBlocks}
COUNTS: dict[str, type[Declares]] = {"rows": CountRows, "blocks": CountBlocks}


def counting(spout: Spout, split: Any, count: Any, *sinks: Bolt, tasks: int = 2) -> Topology:
    """A spout of sentences, a bolt that splits, a bolt that counts, and sinks behind it."""
    builder = TopologyBuilder()
    builder.set_spout("in", spout)
    builder.set_bolt("split", split, tasks).shuffle_grouping("in")
    builder.set_bolt("count", count, tasks).fields_grouping("split", "word")
    for number, sink in enumerate(sinks):
        builder.set_bolt(f"sink{number}", sink).shuffle_grouping("count")
    return builder.create_topology("counting")
