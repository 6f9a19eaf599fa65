"""The job that runs on isolated machines: a word count with a sink, in one file that imports nothing of the tests.

A test copies the file to a folder of its own: so Anchorbolt sends this one module to the workers, as of any user's job.
"""

import os
import threading
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from anchorbolt.bolts import (
    BaseBasicBolt,
    BaseStatefulBolt,
    BasicOutputCollector,
    KafkaSink,
    OutputCollector,
    ParquetSink,
)
from anchorbolt.spouts import StreamSpout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.tuple import Tuple
from anchorbolt.topology import Topology, TopologyBuilder

NAME, PAUSE = "machines", "pause"
SOURCE, TARGET = "sentences", "counts"  # topics
LINES = 20
"""The messages of a wave from Kafka."""


class Split(BaseBasicBolt):
    """Emits the words of a sentence."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        for word in tup["sentence"].split():
            collector.emit((word,))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")


class Count(BaseStatefulBolt[KeyValueState[str, int]]):
    """Counts words. At the first `PAUSE` it writes the number of its machine to a file, and waits to be killed."""

    def __init__(self, marker: str) -> None:
        self._marker = marker

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self._collector = collector

    def init_state(self, state: KeyValueState[str, int]) -> None:
        self._counts = state

    def execute(self, tup: Tuple) -> None:
        word = tup["word"]
        if word == PAUSE and self._is_first():
            threading.Event().wait()
        count = self._counts.get(word, 0) + 1
        self._counts.put(word, count)
        self._collector.emit((word, count), anchors=tup)
        self._collector.ack(tup)

    def _is_first(self) -> bool:
        whole = f"{self._marker}.{os.getpid()}"
        with open(whole, "w") as file:
            file.write(os.environ["ANCHORBOLT_TEST_MACHINE"])
        try:
            os.link(whole, self._marker)
        except FileExistsError:
            return False
        return True

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")


def topology(conf: Mapping[str, Any]) -> Topology:
    """Return the topology, from Kafka to Kafka, or from files to files.

    `job.kafka.servers` names a Kafka. Else `job.input` is a folder of text, a file a wave, and `job.output` the sink's
    directory.
    """
    builder = TopologyBuilder()
    if servers := conf.get("job.kafka.servers"):
        spout = StreamSpout(lambda spark: _messages(spark, servers), ["sentence"])
        sink: KafkaSink | ParquetSink = KafkaSink(
            servers, TARGET, key="word", value=["word", "count"], value_serializer="json"
        )
    else:
        place = conf["job.input"]
        spout = StreamSpout(lambda spark: spark.readStream.option("maxFilesPerTrigger", 1).text(place), ["sentence"])
        sink = ParquetSink(conf["job.output"])
    builder.set_spout("sentences", spout)
    builder.set_bolt("split", Split(), parallelism=2).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(conf.get("job.marker", "")), parallelism=2).fields_grouping("split", "word")
    builder.set_bolt("out", sink, parallelism=2).fields_grouping("count", "word")
    return builder.create_topology(NAME)


def _messages(spark: SparkSession, servers: str) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", SOURCE)
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", LINES)
    return reader.load().selectExpr("CAST(value AS STRING)")
