"""Word count from a Redis stream: each entry counts once, and is acked when its words are in the committed state.

    anchorbolt run examples/redis_word_count/job.py:topology --until-empty

reads the stream `sentences` of a Redis at port 6379 of this machine, and writes `out-words/` below the current
directory. `redis.host`, `redis.port` and `word_count.output` name other places.
"""

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt, ParquetSink
from anchorbolt.spouts import RedisStreamsSpout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.topology import TopologyBuilder


class SplitSentence(BaseBasicBolt):
    def execute(self, tup, collector):
        for word in (tup["text"] or "").split():  # None: the entry has no field `text`
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
    host, port = conf.get("redis.host", "localhost"), conf.get("redis.port", 6379)
    builder = TopologyBuilder()
    builder.set_spout("sentences", RedisStreamsSpout("sentences", ["text"], host=host, port=port), parallelism=2)
    builder.set_bolt("split", SplitSentence(), parallelism=2).shuffle_grouping("sentences")
    builder.set_bolt("count", WordCount(), parallelism=2).fields_grouping("split", "word")
    builder.set_bolt("out", ParquetSink(conf.get("word_count.output", "out-words"))).global_grouping("count")
    return builder.create_topology("redis-word-count")
