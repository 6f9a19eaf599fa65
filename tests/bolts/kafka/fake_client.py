"""Kafka's client without a Kafka: what `KafkaConnection` calls of it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException


class FakeProducer:
    """The client's producer: each call that waits delivers as many messages as the test says, then none."""

    deliveries: list[int]
    capacity: int
    is_fenced: bool
    committed: bool

    def __init__(self, settings: dict[str, Any]) -> None:
        self.queued = 0
        self._on_delivery: Callable[[KafkaError, object], None] = settings["on_delivery"]

    def __len__(self) -> int:
        return self.queued

    def begin_transaction(self) -> None:
        pass

    def produce(self, topic: str, value: Any, key: Any, **options: Any) -> None:
        if self.queued >= self.capacity:
            raise BufferError
        self.queued += 1

    def poll(self, timeout: float) -> int:
        return self.flush(timeout) if timeout else 0

    def flush(self, timeout: float) -> int:
        if self.is_fenced:
            for _ in range(self.queued):
                self._on_delivery(KafkaError(KafkaError._PURGE_QUEUE), None)
            self.queued = 0
        self.queued -= self.deliveries.pop(0) if self.deliveries else 0
        return self.queued

    def send_offsets_to_transaction(self, *arguments: Any) -> None:
        self.abort_transaction(0)

    def abort_transaction(self, timeout: float) -> None:
        """Raise the fatal error, if there was one."""
        if self.is_fenced:
            raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", True))

    def commit_transaction(self, timeout: float) -> None:
        type(self).committed = True


class FakeConsumer:
    """The client's consumer: every topic exists."""

    def __init__(self, settings: dict[str, Any]) -> None:
        pass

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None)})

    def consumer_group_metadata(self) -> object:
        return None
