"""Word count: lines of text files, split into words, counted in durable state, with the latest counts as Parquet.

    anchorbolt run examples/word_count/job.py:topology --until-empty

reads `in/` beside this file and writes `out/` below the current directory; `word_count.input` and `word_count.output`
name other places. `spark-submit examples/word_count/job.py` runs the same topology until it is stopped.
"""

from pathlib import Path

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt, ParquetSink
from anchorbolt.spouts import StreamSpout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.topology import TopologyBuilder


class SplitSentence(BaseBasicBolt):
    def execute(self, tup, collector):
        for word in tup["sentence"].split():
            collector.emit((word,))

    def declare_output_fields(self, declarer):
        declarer.declare("word")


class WordCount(BaseStatefulBolt[KeyValueState[str, int]]):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.counts = state

    def execute(self, tup):
        word = tup["word"]
        count = self.counts.get(word, 0) + 1
        self.counts.put(word, count)
        self.collector.emit((word, count), anchors=tup)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer):
        declarer.declare("word", "count")


def topology(conf):
    lines = conf.get("word_count.input", str(Path(__file__).resolve().parent / "in"))
    builder = TopologyBuilder()
    builder.set_spout("sentences", StreamSpout(lambda spark: spark.readStream.text(lines), fields=["sentence"]))
    builder.set_bolt("split", SplitSentence(), parallelism=2).shuffle_grouping("sentences")
    builder.set_bolt("count", WordCount(), parallelism=2).fields_grouping("split", "word")
    builder.set_bolt("out", ParquetSink(conf.get("word_count.output", "out"))).global_grouping("count")
    return builder.create_topology("word-count")


if __name__ == "__main__":
    from anchorbolt.run.spark_cluster import SparkCluster

    SparkCluster().submit(topology({})).await_termination()
