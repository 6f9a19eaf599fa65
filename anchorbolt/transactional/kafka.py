"""`KafkaTransactionalSpout`, which reads topics of Kafka by ranges of offsets."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from anchorbolt.config.secret import Secret
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.redis_arguments import names, refusal
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout
from anchorbolt.transactional.kafka_client import KafkaClient
from anchorbolt.transactional.kafka_offsets import (
    KafkaOffsets,
    PartitionRange,
    TopicState,
    lost_before,
    messages_behind,
    next_offsets,
    readable_ranges,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("anchorbolt.transactional")

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_DECODED = ("key", "value")
_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)
_LOOK_S = 1.0  # between two checks for new partitions while there are no messages


class KafkaTransactionalSpout(SparkTransactionalSpout):
    """Emits the messages of Kafka's topics in batches that are identical in each try.

    Needs Spark's connector, `org.apache.spark:spark-sql-kafka-0-10_2.13`, in the session (`--packages`). A batch holds
    a range of offsets of each partition. Each partition of the topics is a task of this spout, and emits its messages
    in order. A partition that is added to a topic, or a topic that a later run adds, is read from its start.

    Messages must stay in Kafka until their batch has committed. If some are gone, or a topic was deleted and created
    again, the run stops with `StateRegressed`. A run with `topology.state.accept.loss` leaves out messages that are
    gone before they were read, and warns of each range. Messages of transactions that were not committed are left out,
    unless `options` sets `isolation.level` otherwise. No consumer group is used, and nothing is committed to Kafka: the
    topology stores the offsets with its progress.

    While Kafka does not answer, the spout waits as long as Kafka's own client (`default.api.timeout.ms`, 60 s). Then it
    raises `SourceUnavailable`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topics: str | Sequence[str],
        fields: Sequence[str] = ("key", "value"),
        *,
        max_offsets_per_batch: int = 10_000,
        starting: Literal["earliest", "latest"] = "earliest",
        decode: bool = True,
        options: Mapping[str, Secret | str] | None = None,
        attempt_field: str = "tx",
    ) -> None:
        """Create a spout. Connects to nothing yet.

        Args:
            bootstrap_servers: Some of the servers, each as `host:port`: a list, or a text separated by commas.
            topics: Name of the topic, or names of several. Each must exist.
            fields: The fields of each message to emit after the attempt: some of `key`, `value`, `topic`, `partition`,
                `offset`, `timestamp`, `timestampType` and `headers`.
            max_offsets_per_batch: The maximum number of offsets in a batch, for all partitions together. If more
                partitions have new messages, the batch has one offset of each.
            starting: Where the very first batch begins: with the first message that each partition still has, or after
                the last one. Ignored once progress is stored.
            decode: Whether key and value are decoded as UTF-8, or stay bytes.
            options: Properties of Kafka's consumer by Kafka's names, such as `security.protocol`. Their values are
                never shown. Spark sends them to the executors.
            attempt_field: Name of the field for the attempt.

        Raises:
            TopologyError: An argument is invalid.
        """
        super().__init__(fields, {}, attempt_field=attempt_field)
        spout = type(self).__name__
        servers = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else bootstrap_servers
        self.bootstrap_servers = ",".join(names(spout, "bootstrap_servers", servers))
        self.topics = names(spout, "topics", (topics,) if isinstance(topics, str) else topics)
        unknown = [name for name in self.fields if name not in _COLUMNS]
        if unknown:
            raise refusal(spout, "fields", fields, f"Pass names among {', '.join(_COLUMNS)}.")
        if type(max_offsets_per_batch) is not int or max_offsets_per_batch < 1:
            raise refusal(spout, "max_offsets_per_batch", max_offsets_per_batch, "Pass a whole number, at least 1.")
        if starting not in ("earliest", "latest"):
            raise refusal(spout, "starting", starting, "Pass 'earliest' or 'latest'.")
        if type(decode) is not bool:
            raise refusal(spout, "decode", decode, "Pass True or False.")
        self.max_offsets_per_batch = max_offsets_per_batch
        self.starting = starting
        self.decode = decode
        self._options = _checked_options(spout, {} if options is None else options)
        self._lock = threading.Lock()
        self._client: KafkaClient | None = None
        self._seen: Mapping[str, TopicState] = {}
        self._told: set[PartitionRange] = set()  # the ranges of lost messages that were logged
        self._idle: tuple[Any, Any, float] | None = None  # start, ends and time of the last check without new messages

    def latest(self, spark: SparkSession, start: Any) -> Any:
        """Return the offsets where the next batch ends; None if there is nothing new."""
        client, last = self._connected(spark), KafkaOffsets.from_values(start)
        now = time.monotonic()
        if self._idle is not None:
            idle_start, ends, looked = self._idle
            if idle_start == start and now < looked + _LOOK_S and client.ends() == ends:
                return None
        topics = self._seen = client.topics(self.topics)
        lost = lost_before(last, topics) if self.accepts_loss else []
        self._warn_of(lost)
        found = next_offsets(last, topics, self.max_offsets_per_batch, from_end=self.starting == "latest", lost=lost)
        self._idle = None if found else (start, {topic: state.ends for topic, state in topics.items()}, now)
        return None if found is None else found.values()

    def read(self, spark: SparkSession, start: Any, end: Any) -> DataFrame:
        """Return the messages of a batch."""
        first, last = KafkaOffsets.from_values(start), KafkaOffsets.from_values(end)
        ranges = list(last.ranges_from(first))
        if ranges:
            # Spark would read a new topic of the same name, and would wait for offsets that never come.
            topics = list(dict.fromkeys(each.topic for each in ranges))
            there = self._connected(spark).topics(topics)
            ranges, lost = readable_ranges(first, last, there, accepts_loss=self.accepts_loss)
            self._warn_of(lost)
        if not ranges:
            return self._selected(spark.createDataFrame([], _SCHEMA))
        partitions_read: dict[str, dict[int, tuple[int, int]]] = {}
        for each in ranges:
            partitions_read.setdefault(each.topic, {})[each.partition] = (each.start, each.end)
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", self.bootstrap_servers)
        for name, value in self._options.items():
            reader = reader.option(f"kafka.{name}", value.reveal())
        frame = (
            reader.option("assign", json.dumps({topic: sorted(each) for topic, each in partitions_read.items()}))
            .option("startingOffsets", _offsets(partitions_read, 0))
            .option("endingOffsets", _offsets(partitions_read, 1))
            .option("failOnDataLoss", "true")
            .option("includeHeaders", str("headers" in self.fields).lower())
            .load()
        )
        return self._selected(frame)

    def _selected(self, frame: DataFrame) -> DataFrame:
        is_decoded = [self.decode and name in _DECODED for name in self.fields]
        return frame.selectExpr(
            *(
                f"CAST({name} AS STRING)" if decoded else name
                for name, decoded in zip(self.fields, is_decoded, strict=True)
            )
        )

    def behind(self, end: Any) -> int | None:
        """Return how many messages the topics had after `end` at the last call of `latest`; None if unknown."""
        return messages_behind(KafkaOffsets.from_values(end), self._seen) if self._seen else None

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _warn_of(self, lost: Sequence[PartitionRange]) -> None:
        """Log once each range of messages that is left out because they are gone."""
        for each in lost:
            if each not in self._told:
                self._told.add(each)
                _log.warning(
                    "partition %d of Kafka's topic %r: the offsets %d to %d are gone before they were read, and are "
                    "left out, because topology.state.accept.loss is true. Set it for one run only.",
                    each.partition,
                    each.topic,
                    each.start,
                    each.end - 1,
                )

    def _connected(self, spark: SparkSession) -> KafkaClient:
        with self._lock:
            if self._client is None:
                self._client = KafkaClient(spark, self.bootstrap_servers, self._options)
            return self._client


def _offsets(partitions: Mapping[str, Mapping[int, tuple[int, int]]], which: int) -> str:
    """Return the starts (0) or the ends (1) of ranges in Spark's format."""
    return json.dumps(
        {topic: {str(number): each[which] for number, each in by.items()} for topic, by in partitions.items()}
    )


def _checked_options(spout: str, options: Mapping[str, Secret | str]) -> dict[str, Secret]:
    """Return the options, with `isolation.level` added if it is missing. Error messages never show the values."""
    if not isinstance(options, Mapping):
        raise TopologyError(f"{spout}: options is a {type(options).__name__}. Pass a dict of Kafka's properties.")
    checked = {"isolation.level": Secret("read_committed")}
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, str | Secret):
            raise TopologyError(
                f"{spout}: the option {name!r} is a {type(value).__name__}. Pass names and values as strings."
            )
        if name.startswith("kafka.") or name == "bootstrap.servers":
            raise TopologyError(
                f"{spout}: {name!r} is not an option. Pass the servers as bootstrap_servers, and other properties of "
                "Kafka's consumer without the prefix 'kafka.'."
            )
        checked[name] = Secret(value) if isinstance(value, str) else value
    return checked
