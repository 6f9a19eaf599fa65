"""Asks Kafka for the ids, partitions and offsets of topics, through the Java client of Spark's connector.

So it connects, encrypts and logs in exactly as Spark does. The client runs in the driver's JVM and is called through
the session, so this module imports no Kafka library.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from anchorbolt.config.secret import Secret
from anchorbolt.errors import ConfigError, PlatformError, SourceUnavailable, TopologyError
from anchorbolt.transactional.kafka_offsets import TopicState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # from a server before Kafka 2.8
_REFUSED = ("AuthenticationException", "AuthorizationException", "InvalidTopicException")


class KafkaClient:
    """A connection to Kafka. Thread-safe: calls wait for each other.

    Methods raise `SourceUnavailable` if Kafka does not answer for `default.api.timeout.ms`, `ConfigError` if it
    refuses, and `TopologyError` if a topic does not exist.
    """

    def __init__(self, spark: SparkSession, servers: str, options: Mapping[str, Secret]) -> None:
        """Connect on first use. `options` are properties of Kafka's consumer."""
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        self._servers = servers
        self._options = options
        self._lock = threading.RLock()
        self._partitions: dict[str, int] = {}  # by topic: their number at the last call of `topics`
        self._java_partitions: Any = None
        if type(jvm.org.apache.kafka.clients.admin.AdminClient).__name__ != "JavaClass":
            raise PlatformError(
                "Spark's connector for Kafka is not on the class path of the driver. Add it with --packages "
                "org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION, or as spark.jars.packages of the session. VERSION "
                f"is the newest on Maven Central that is not newer than Spark's, {spark.version}."
            )
        with self._translated(connects=False):
            properties = jvm.java.util.Properties()
            properties.setProperty("bootstrap.servers", servers)
            for name, value in options.items():
                properties.setProperty(name, value.reveal())
            kafka = jvm.org.apache.kafka
            self._admin = kafka.clients.admin.AdminClient.create(properties)
            bytes_of = kafka.common.serialization.ByteArrayDeserializer
            self._consumer = kafka.clients.consumer.KafkaConsumer(properties, bytes_of(), bytes_of())
            self._json = jvm.com.fasterxml.jackson.databind.ObjectMapper()

    def topics(self, names: Sequence[str]) -> dict[str, TopicState]:
        """Return the current state of the topics."""
        with self._lock, self._translated():
            asked = self._jvm.java.util.ArrayList()
            for name in names:
                asked.add(name)
            described = self._admin.describeTopics(asked).allTopicNames().get()
            ids, partitions = {}, {}
            for name in names:
                description = described.get(name)
                id = description.topicId().toString()
                ids[name] = "" if id == _NO_ID else id
                partitions[name] = description.partitions().size()
            self._remember(partitions)
            # Ask for the ends last: otherwise a beginning could be higher than its end.
            begins = self._offsets(self._consumer.beginningOffsets)
            ends = self._offsets(self._consumer.endOffsets)
        return {name: TopicState(ids[name], begins[name], ends[name]) for name in names}

    def ends(self) -> dict[str, dict[int, int]]:
        """Return the ends of the partitions that existed at the last call of `topics`, by topic."""
        with self._lock, self._translated():
            return self._offsets(self._consumer.endOffsets)

    def close(self) -> None:
        """Close the connections."""
        with self._lock, suppress(Exception):  # Java may be gone
            self._consumer.close()
            self._admin.close()

    def _remember(self, partitions: dict[str, int]) -> None:
        if partitions == self._partitions:
            return
        self._java_partitions = self._jvm.java.util.ArrayList()
        for name, number in partitions.items():
            for partition in range(number):
                self._java_partitions.add(self._jvm.org.apache.kafka.common.TopicPartition(name, partition))
        self._partitions = partitions

    def _offsets(self, ask: Callable[[Any], Any]) -> dict[str, dict[int, int]]:
        # As one text, because each value would be a separate call to Java.
        text = self._json.writeValueAsString(ask(self._java_partitions))
        found: dict[str, dict[int, int]] = {name: {} for name in self._partitions}
        for key, offset in json.loads(text).items():
            name, _, partition = key.rpartition("-")
            found[name][int(partition)] = offset
        return found

    @contextmanager
    def _translated(self, *, connects: bool = True) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            java = getattr(error, "java_exception", None)
            if java is None:
                raise
            causes = _causes(java)
            self._raise(causes, is_refused=not connects or any(name.endswith(_REFUSED) for name, _ in causes))

    def _raise(self, causes: list[tuple[str, str]], *, is_refused: bool) -> NoReturn:
        """Raise the error for a Java exception, given as the class names and messages of its causes."""
        names = [name for name, _ in causes]
        text = self._without_secrets("; ".join(f"{name}: {message}" for name, message in causes[-2:]))
        if "UnknownTopicOrPartitionException" in names:
            raise TopologyError(
                f"Kafka at {self._servers} lacks a topic that is to be read: {text} Create it, or correct its name."
            )
        if is_refused:
            raise ConfigError(f"Kafka at {self._servers} cannot be used: {text}. Correct the options of the spout.")
        raise SourceUnavailable(f"Kafka at {self._servers} did not answer: {text}")

    def _without_secrets(self, text: str) -> str:
        for name, value in self._options.items():
            if any(word in name for word in ("password", "secret", "jaas", "key", "token", "user")) and value.reveal():
                text = text.replace(value.reveal(), "***")
        return text


def _causes(java: Any) -> list[tuple[str, str]]:
    causes: list[tuple[str, str]] = []
    while java is not None and len(causes) < 10:
        causes.append((java.getClass().getSimpleName(), str(java.getMessage())))
        java = java.getCause()
    return causes
