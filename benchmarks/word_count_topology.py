"""Our word count, tuple by tuple, as in the documentation. The workers import this module, so it imports no engine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from workloads import Output, Workload

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

__all__ = ["word_count", "word_count_of_files"]


def word_count(workload: Workload, text: Path, out: Path, parallelism: int) -> Topology:
    """Return the topology that counts the words of the files in `text`.

    Args:
        workload: Gives the number of files in a wave, and where the counts go.
        text: Directory of the files.
        out: Directory of the Parquet files, if the workload writes any.
        parallelism: Tasks of the splitting and of the counting bolt.
    """

    def lines(spark: SparkSession) -> DataFrame:
        return spark.readStream.option("maxFilesPerTrigger", workload.files).text(str(text))

    builder = TopologyBuilder()
    builder.set_spout("sentences", StreamSpout(lines, fields=["sentence"]))
    builder.set_bolt("split", SplitSentence(), parallelism).shuffle_grouping("sentences")
    builder.set_bolt("count", WordCount(), parallelism).fields_grouping("split", "word")
    set_output(builder, workload, out)
    return builder.create_topology(f"word-count-{workload.name}")


def word_count_of_files(workload: Workload, text: Path, out: Path, parallelism: int) -> Topology:
    """Return the same topology as a transactional one, whose spout's tasks read the files."""
    name = f"word-count-{workload.name}"
    spout = FilesTransactionalSpout(str(text), ["sentence"], take_files=workload.files, take_bytes=None)
    builder = TransactionalTopologyBuilder(name, "sentences", spout, parallelism)
    builder.set_bolt("split", SplitBatch(), parallelism).shuffle_grouping("sentences")
    builder.set_committer_bolt("count", CountBatch(), parallelism).fields_grouping("split", "word")
    set_output(builder, workload, out)
    return builder.build_topology()


def set_output(builder: TopologyBuilder | TransactionalTopologyBuilder, workload: Workload, out: Path) -> None:
    if workload.output is Output.PARQUET:
        builder.set_bolt("out", ParquetSink(str(out))).global_grouping("count")
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


class Drop(BaseBasicBolt):
    """Discards the counts."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        pass
