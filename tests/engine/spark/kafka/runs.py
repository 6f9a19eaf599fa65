"""What the tests of this folder do in a process whose Spark has the connector for Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from anchorbolt.config.spark_options import SparkOptions
from anchorbolt.engine import SparkCluster
from anchorbolt.engine.spark.session import build_session
from anchorbolt.errors import AnchorboltError
from anchorbolt.faults.points import FaultPoint, observe
from anchorbolt.spouts import StreamSpout
from anchorbolt.topology import Topology
from tests.cli.command import wait_until
from tests.engine.jobs import NO_RETRIES, CountWords, Strikes, counted, kept_in
from tests.servers.kafka_topics import KafkaTopics
from tests.support.stores import WORKERS

Outcome = tuple[dict[str, int], str, str]
"""The counts of the words; the class and the message of the error that ended the run, or two empty strings."""

_spark: SparkSession | None = None


def start(jars: str) -> None:
    """Called once in the process."""
    global _spark
    _spark = build_session("kafka-stream", "local[2]", SparkOptions(jars=jars), workers=WORKERS)


def _job(servers: str, topic: str, options: Mapping[str, str]) -> Topology:
    def read(spark: SparkSession) -> DataFrame:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
        reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 10)
        return reader.options(**options).load().selectExpr("CAST(value AS STRING)")

    return counted(StreamSpout(read, ["sentence"]), CountWords())


def _conf(folder: str) -> dict[str, Any]:
    return {**NO_RETRIES, **kept_in(Path(folder)), "topology.state.checkpoint.interval.ms": 100}


def run(folder: str, servers: str, topic: str, options: Mapping[str, str], fails_in: int | None = None) -> Outcome:
    """Run the job until its topic is empty; with `fails_in`, until it fails as it begins that wave."""
    assert _spark is not None
    before = observe(None if fails_in is None else Strikes(FaultPoint.ROUND_BEGUN, txid=fails_in))
    try:
        handle = SparkCluster(_spark).submit(_job(servers, topic, options), _conf(folder), until_empty=True)
        try:
            handle.await_termination()
        except AnchorboltError as error:
            return handle.state("count"), type(error).__name__, error.message
        return handle.state("count"), "", ""
    finally:
        observe(before)


def run_while_it_grows(folder: str, servers: str, topic: str, partitions: int) -> dict[str, int]:
    """Add partitions to the topic while the job runs, and send a message to the last one; return the counts."""
    assert _spark is not None
    topics = KafkaTopics(servers)
    handle = SparkCluster(_spark).submit(_job(servers, topic, {}), _conf(folder))
    wait_until(lambda: bool(handle.reports) or handle.failure is not None, "the first wave")
    topics.grow(topic, partitions)
    topics.send(topic, ["new"], partition=partitions - 1)
    wait_until(lambda: "new" in handle.state("count") or handle.failure is not None, "the message of the new partition")
    handle.stop()
    handle.await_termination()
    return handle.state("count")
