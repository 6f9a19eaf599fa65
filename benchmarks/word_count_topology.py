"""Our word count, tuple by tuple, as in the documentation. The workers import this module, so it imports no engine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt, ParquetSink
from anchorbolt.bolts.collector import BasicOutputCollector, OutputCollector
from anchorbolt.spouts import StreamSpout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.tuple import Tuple
from anchorbolt.topology import TopologyBuilder
from anchorbolt.topology.graph import Topology
from anchorbolt.transactional import FilesTransactionalSpout, TransactionalTopologyBuilder
from benchmarks.workloads import TASKS, Output, Workload

__all__ = ["count_in", "set_output", "word_count", "word_count_of_files"]


def word_count(workload: Workload, text: Path, out: Path) -> Topology:
    """Return the topology that counts the words of the files in `text`.

    Args:
        workload: Gives the number of files in a wave, the tasks, and where the counts go.
        text: Directory of the files.
        out: Directory of the Parquet files, if the workload writes any.
    """

    def lines(spark: SparkSession) -> DataFrame:
        return spark.readStream.option("maxFilesPerTrigger", workload.files).text(str(text))

    builder = TopologyBuilder()
    builder.set_spout("sentences", StreamSpout(lines, fields=["sentence"]))
    builder.set_bolt("split", SplitSentence(), workload.split_tasks).shuffle_grouping("sentences")
    builder.set_bolt("count", WordCount(), workload.count_tasks).fields_grouping("split", "word")
    set_output(builder, workload, out)
    return builder.create_topology(f"word-count-{workload.name}")


def word_count_of_files(workload: Workload, text: Path, out: Path) -> Topology:
    """Return the same topology as a transactional one, whose spout's tasks read the files."""
    name = f"word-count-{workload.name}"
    spout = FilesTransactionalSpout(str(text), ["sentence"], take_files=workload.files, take_bytes=None)
    builder = TransactionalTopologyBuilder(name, "sentences", spout, TASKS)
    builder.set_bolt("split", SplitBatch(), workload.split_tasks).shuffle_grouping("sentences")
    count = CountBatchPadded(workload.value_bytes) if workload.value_bytes else CountBatch()
    builder.set_committer_bolt("count", count, workload.count_tasks).fields_grouping("split", "word")
    set_output(builder, workload, out)
    return builder.build_topology()


def count_in(value: Any) -> int:
    """Return the count that a value of the state holds."""
    count: int = value[0] if isinstance(value, list) else value
    return count


def set_output(builder: TopologyBuilder | TransactionalTopologyBuilder, workload: Workload, out: Path) -> None:
    if workload.output is Output.PARQUET:
        builder.set_bolt("out", ParquetSink(str(out)), TASKS).local_or_shuffle_grouping("count")  # chained
    elif workload.output is Output.DROPPED:
        builder.set_bolt("out", Drop()).global_grouping("count")


class SplitBatch(BaseBasicBolt):
    """Splits lines into words; the first value is the attempt at the batch."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        attempt = tup[0]
        for word in tup["sentence"].split():
            collector.emit((attempt, word))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("tx", "word")


class SplitSentence(BaseBasicBolt):
    """Splits lines into words."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        for word in tup["sentence"].split():
            collector.emit((word,))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")


class WordCount(BaseStatefulBolt[KeyValueState[str, int]]):
    """Counts words, and emits the new count of each."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.collector = collector

    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.counts = state

    def execute(self, tup: Tuple) -> None:
        word = tup["word"]
        count = self.counts.get(word, 0) + 1
        self.counts.put(word, count)
        self.collector.emit((word, count), anchors=tup)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")


class CountBatch(WordCount):
    """The same; the first value of each tuple is the attempt at the batch."""

    def execute(self, tup: Tuple) -> None:
        word = tup["word"]
        count = self.counts.get(word, 0) + 1
        self.counts.put(word, count)
        self.collector.emit((tup[0], word, count), anchors=tup)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("tx", "word", "count")


class CountBatchPadded(CountBatch):
    """The same, with a state of large values: a list of the count and a padding."""

    def __init__(self, value_bytes: int) -> None:
        self.padding = "x" * value_bytes

    def execute(self, tup: Tuple) -> None:
        word = tup["word"]
        count = count_in(self.counts.get(word, 0)) + 1
        self.counts.put(word, [count, self.padding])
        self.collector.emit((tup[0], word, count), anchors=tup)
        self.collector.ack(tup)


class Drop(BaseBasicBolt):
    """Discards the counts."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        pass
