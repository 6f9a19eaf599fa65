"""Word count from topic to topic: each sentence counts once, and each new count is one message.

    anchorbolt run examples/kafka_word_count/job.py:topology \
      --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0

reads the topic `sentences` of a Kafka at port 9092 of this machine, and writes to the topic `word-counts`. Both must
exist. `kafka.servers`, `kafka.input`, `kafka.output` and `kafka.batch` (messages of a wave) name others.
"""

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt, KafkaSink
from anchorbolt.spouts import StreamSpout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.topology import TopologyBuilder


class SplitSentence(BaseBasicBolt):
    def execute(self, tup, collector):
        for word in (tup["sentence"] or "").split():  # None: the message has no value
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
    servers, topic = conf.get("kafka.servers", "localhost:9092"), conf.get("kafka.input", "sentences")

    def sentences(spark):
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
        reader = reader.option("startingOffsets", "earliest").option("kafka.isolation.level", "read_committed")
        reader = reader.option("maxOffsetsPerTrigger", conf.get("kafka.batch", 100_000))
        return reader.load().selectExpr("CAST(value AS STRING)")

    sink = KafkaSink(
        servers,
        conf.get("kafka.output", "word-counts"),
        key="word",
        value=["word", "count"],
        value_serializer="json",  # {"word": "be", "count": 2}
    )
    builder = TopologyBuilder()
    builder.set_spout("sentences", StreamSpout(sentences, fields=["sentence"]))
    builder.set_bolt("split", SplitSentence(), parallelism=2).shuffle_grouping("sentences")
    builder.set_bolt("count", WordCount(), parallelism=2).fields_grouping("split", "word")
    builder.set_bolt("out", sink, parallelism=2).fields_grouping("count", "word")
    return builder.create_topology("kafka-word-count")
