"""The job that is killed: `anchorbolt run tests.crash.kafka.job:topology`, from a topic to a topic.

Its configuration says where Kafka is. A stateful bolt counts words; each new count is one message.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from anchorbolt.bolts import KafkaSink
from anchorbolt.spouts import StreamSpout
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import CountWords, SplitSentence
from tests.servers.kafka_server import KafkaServer
from tests.servers.kafka_topics import KafkaTopics

NAME = "topic-to-topic"
SOURCE, TARGET = "sentences", "counts"


def conf_of(server: KafkaServer, batch: int) -> dict[str, Any]:
    """Return the job's own configuration; a wave has `batch` messages."""
    return {
        "kafka.servers": server.servers,
        "kafka.batch": batch,
        "spark": {"jars": server.connector_jars},
        "topology.message.timeout.secs": 120,  # Kafka starts slowly on a busy machine
    }


def sentences_of(conf: Mapping[str, Any]) -> StreamSpout:
    """Return the spout that reads the source."""

    def read(spark: SparkSession) -> DataFrame:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", conf["kafka.servers"])
        reader = reader.option("subscribe", SOURCE).option("startingOffsets", "earliest")
        reader = reader.option("maxOffsetsPerTrigger", conf["kafka.batch"])
        for name, value in conf.get("kafka.options", {}).items():
            reader = reader.option(name, value)
        return reader.load().selectExpr("CAST(value AS STRING)")

    return StreamSpout(read, ["sentence"])


def topology(conf: Mapping[str, Any]) -> Topology:
    sink = KafkaSink(conf["kafka.servers"], TARGET, key="word", value=["word", "count"], value_serializer="json")
    builder = TopologyBuilder()
    builder.set_spout("sentences", sentences_of(conf))
    builder.set_bolt("split", SplitSentence(), 2).shuffle_grouping("sentences")
    builder.set_bolt("count", CountWords(), 2).fields_grouping("split", "word")
    builder.set_bolt("out", sink, 2).fields_grouping("count", "word")
    return builder.create_topology(NAME)


def sentences(first: int, count: int) -> list[str]:
    return [f"to be {number % 7} or not to be" for number in range(first, first + count)]


def problems(topics: KafkaTopics, sent: Iterable[str]) -> list[str]:
    """Say which counts are missing in the target, or are there twice."""
    words = Counter(word for sentence in sent for word in sentence.split())
    wanted = Counter((word, number) for word, count in words.items() for number in range(1, count + 1))
    messages = [json.loads(each.value or b"") for each in topics.read(TARGET)]
    found = Counter((each["word"], each["count"]) for each in messages)
    return [
        *(f"missing: {each}" for each in (wanted - found).elements()),
        *(f"too often: {each}" for each in (found - wanted).elements()),
    ]
