"""Topics of a real Kafka, for tests: created, grown, written, and read as consumers with `read_committed` see them."""

import itertools
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition, admin
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.cli.command import wait_until

_TIMEOUT_S = 60.0
_ADMIN: Any = admin  # the module's annotations are incomplete
_numbers = itertools.count()


class Read(NamedTuple):
    """A message that was read."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None


class KafkaTopics:
    """The topics of one server."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._client: dict[str, Any] = {"bootstrap.servers": servers, "logger": _Quiet()}
        self._admin = _ADMIN.AdminClient(self._client)

    def new(self, partitions: int = 1, **config: str) -> str:
        """Create a topic with a name of its own, and return the name; `config` with underscores for dots."""
        name = f"messages-{next(_numbers)}"
        self.create(name, partitions, **config)
        return name

    def create(self, name: str, partitions: int = 1, **config: str) -> None:
        self._done(self._admin.create_topics([NewTopic(name, partitions, 1, config=_settings(config))]))

    def alter(self, name: str, **config: str) -> None:
        """Set settings of a topic; `config` with underscores for dots."""
        entries = [
            _ADMIN.ConfigEntry(key, value, incremental_operation=_ADMIN.AlterConfigOpType.SET)
            for key, value in _settings(config).items()
        ]
        resource = _ADMIN.ConfigResource(_ADMIN.ResourceType.TOPIC, name, incremental_configs=entries)
        self._done(self._admin.incremental_alter_configs([resource]))

    def grow(self, name: str, partitions: int) -> None:
        self._done(self._admin.create_partitions([NewPartitions(name, partitions)]))
        # Kafka answers before its broker knows the new partitions.
        wait_until(lambda: self._partitions_of(name) == partitions, f"{partitions} partitions of {name}", _TIMEOUT_S)

    def delete(self, name: str) -> None:
        self._done(self._admin.delete_topics([name]))

    def has_open_transaction(self, topic: str) -> bool:
        """Return whether readers with `read_committed` wait for the end of a transaction in partition 0."""
        ends: list[int] = []
        for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            latest = {TopicPartition(topic, 0): _ADMIN.OffsetSpec.latest()}
            [future] = self._admin.list_offsets(latest, isolation_level=isolation).values()
            ends.append(future.result(_TIMEOUT_S).offset)
        return ends[0] < ends[1]

    def delete_group(self, group: str) -> None:
        self._done(self._admin.delete_consumer_groups([group]))

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Remove the messages before an offset, as retention does."""
        self._done(self._admin.delete_records([TopicPartition(topic, partition, offset)]))

    def send(self, topic: str, values: Iterable[bytes | str], partition: int = -1) -> None:
        self._send(Producer(self._client), topic, {partition: values})

    def send_to(self, topic: str, values: Mapping[int, Iterable[bytes | str]], *, abort: bool | None = None) -> None:
        """Append values to partitions. With `abort`, in a transaction with this end."""
        if abort is None:
            self._send(Producer(self._client), topic, values)
            return
        producer = Producer({**self._client, "transactional.id": f"producer-{abort}"})
        producer.init_transactions(_TIMEOUT_S)
        producer.begin_transaction()
        self._send(producer, topic, values)
        producer.abort_transaction(_TIMEOUT_S) if abort else producer.commit_transaction(_TIMEOUT_S)

    def _send(self, producer: Producer, topic: str, values: Mapping[int, Iterable[bytes | str]]) -> None:
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                errors.append(error)

        for partition, messages in values.items():
            for value in messages:
                producer.produce(topic, value, partition=partition, on_delivery=delivered)
                producer.poll(0)
        assert producer.flush(_TIMEOUT_S) == 0
        assert not errors

    def _partitions_of(self, topic: str) -> int:
        return len(self._admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions)

    def read(self, topic: str, isolation: str = "read_committed") -> list[Read]:
        """Return all messages of a topic, partition by partition, in the order of each."""
        with self._consumer("reader", isolation) as consumer:
            partitions = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            found: list[Read] = []
            ended: set[int] = set()
            while len(ended) < len(partitions):
                message = consumer.poll(_TIMEOUT_S)
                assert message is not None, f"Kafka gave nothing of {topic} for {_TIMEOUT_S} s"
                error = message.error()
                number = message.partition()
                assert number is not None
                if error is None:
                    found.append(Read(number, message.key(), message.value(), message.headers()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(number)
                else:
                    raise KafkaException(error)
        return sorted(found, key=lambda each: each.partition)

    def values(self, topic: str) -> list[str]:
        return [(each.value or b"").decode() for each in self.read(topic)]

    def marker(self, group: str, topic: str) -> tuple[int, str]:
        """Return the committed offset of partition 0, and its metadata; a negative offset if there is none."""
        with self._consumer(group, "read_committed") as consumer:
            [position] = consumer.committed([TopicPartition(topic, 0)], timeout=_TIMEOUT_S)
            return position.offset, position.metadata or ""

    def _consumer(self, group: str, isolation: str) -> Any:
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": group,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
                "logger": _Quiet(),
            }
        )
        return closing(consumer)

    def _done(self, futures: Any) -> None:
        for future in futures.values():
            future.result(_TIMEOUT_S)


def _settings(config: Mapping[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in config.items()}


class _Quiet:
    """Takes the lines of Kafka's client."""

    def log(self, level: int, text: str, *arguments: Any) -> None:
        pass
