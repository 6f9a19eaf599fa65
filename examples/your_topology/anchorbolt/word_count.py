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


class CountWords(BaseStatefulBolt[KeyValueState[str, int]]):
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
    source = conf["word_count.input"]
    sentences = StreamSpout(lambda spark: spark.readStream.text(source), fields=["sentence"])
    builder = TopologyBuilder()
    builder.set_spout("sentences", sentences)
    builder.set_bolt("split", SplitSentence(), parallelism=2).shuffle_grouping("sentences")
    builder.set_bolt("count", CountWords(), parallelism=2).fields_grouping("split", "word")
    out = ParquetSink(conf["word_count.output"])
    builder.set_bolt("out", out).global_grouping("count")
    return builder.create_topology("word-count")
