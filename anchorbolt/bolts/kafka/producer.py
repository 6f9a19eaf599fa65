"""Kafka's client: sends the messages of a wave and the marker in one transaction. Translates all errors of the client.

A connection is never repaired: after any error it is closed. A new one, with the same `transactional.id`, makes Kafka
finish or abort the old connection's open transaction before it reads the marker.

If the client raises an error while another exception is handled, that exception and all objects in its traceback are
never freed: the client's `KafkaError` gets it as its context, and never releases it. So never make a call of the client
that may fail in an `except` block.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from anchorbolt.bolts.kafka.marker import Marker, Patience
from anchorbolt.bolts.kafka.messages import Message
from anchorbolt.config.secret import Secret
from anchorbolt.errors import AnchorboltError, ConfigError, SinkUnavailable

_log = logging.getLogger("anchorbolt.bolts")

T = TypeVar("T")

_SLICE_S = 3.0  # of one call of the client; the caller limits the total wait
_HUNG_S = 15.0  # after this, assume that a call of one slice never returns
_POLL_S = 0.05
_POLL_EVERY = 1000  # messages
_ABORT_S = 2.0
_NEW_TOPIC_S = 5.0  # until every broker knows a new topic, or knows its topics again after a restart

_FENCED = {
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.PRODUCER_FENCED,
}
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}  # by the client, after another error
_REFUSED = {
    KafkaError.SASL_AUTHENTICATION_FAILED: "Correct the login in the sink's settings",
    KafkaError._INVALID_ARG: "Correct the sink's settings",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Allow its user to read, write and describe the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "Allow its user to read the group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Allow its user to write and describe the transactional.id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Allow its user to write idempotently",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "Lower transaction.timeout.ms in the sink's settings, or raise "
    "transaction.max.timeout.ms of the brokers",
    KafkaError.MSG_SIZE_TOO_LARGE: "Raise max.message.bytes of the topic",
    KafkaError.RECORD_LIST_TOO_LARGE: "Raise max.message.bytes of the topic",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "Create the topic",
    KafkaError._UNKNOWN_TOPIC: "Create the topic",
    KafkaError._UNKNOWN_PARTITION: "Add partitions to the topic",
    KafkaError.TOPIC_EXCEPTION: "Correct the topic",
    KafkaError.INVALID_RECORD: "Change the topic's settings so that it takes the message, such as cleanup.policy",
    KafkaError.POLICY_VIOLATION: "Change the policy of the brokers",
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT: "Use brokers and topics of Kafka 0.11 or later",
}


class KafkaConnection:
    """A transactional producer, and a consumer that only reads and names the marker's group. Not thread-safe.

    Methods raise `ConfigError` if Kafka refuses a call. They raise `SinkUnavailable` if Kafka does not answer within
    `wait`, has aborted the transaction, or has seen another producer with this `transactional.id`.
    """

    def __init__(self, servers: str, identity: str, topic: str, settings: Mapping[str, Any]) -> None:
        """Create it; connects in the background. Raises `ConfigError` if the client refuses the settings.

        Args:
            servers: `bootstrap.servers`.
            identity: The `transactional.id`, and the group of the marker.
            topic: The marker is the offset of its partition 0.
            settings: Settings of the client; it gets the text of a `Secret`.
        """
        self._servers = servers
        self._identity = identity
        self._topic = topic
        self._known_topics: set[str] = set()
        self._last_error: KafkaError | None = None  # the reason if a call takes too long
        self._undelivered: list[KafkaError] = []
        self._produced = 0  # messages of the current transaction
        self._delivered = 0  # of these, the messages that Kafka has confirmed
        shared = {name: value.reveal() if isinstance(value, Secret) else value for name, value in settings.items()}
        self._secrets = [value.reveal() for value in settings.values() if isinstance(value, Secret)]
        shared |= {"bootstrap.servers": servers, "error_cb": self._note_error, "logger": _DebugLog()}
        try:
            self._producer = Producer(
                {
                    **shared,
                    "transactional.id": identity,
                    "delivery.report.only.error": True,
                    "on_delivery": self._note_delivery,
                }
            )
            self._consumer = Consumer({**shared, "group.id": identity, "enable.auto.commit": False})
        except (KafkaException, TypeError, ValueError) as error:
            raise ConfigError(
                f"Kafka's client cannot use the settings: {self._without_secrets(str(error))}. Correct them."
            ) from None  # the client's own error may hold a value

    def open(self, wait: Patience) -> Marker | None:
        """Fence off older producers, and return the marker; None if Kafka has none."""
        self._check_topic(self._topic, wait)
        self._repeated(lambda: self._producer.init_transactions(_SLICE_S), wait)
        [found] = self._repeated(
            lambda: self._consumer.committed([TopicPartition(self._topic, 0)], timeout=_SLICE_S), wait
        )
        if found.error is not None:
            raise self._translated(found.error)
        return Marker(found.offset, found.metadata or "") if found.offset >= 0 else None

    def send(
        self, messages: Iterable[Message], marker: Marker, wait: Patience, *, before_commit: Callable[[], None]
    ) -> None:
        """Send messages and the marker in one transaction. After an error, read the marker by a new connection."""
        try:
            self._producer.begin_transaction()
            self._produced = self._delivered = 0
            for message in messages:
                self._produce(message, wait)
                self._produced += 1
                if self._produced % _POLL_EVERY == 1:
                    self._called(lambda: self._producer.poll(0))
                    self._has_advanced(wait)
            while self._called(lambda: self._producer.flush(_SLICE_S)) and not self._undelivered:
                if not self._has_advanced(wait):
                    self._wait_or_raise(KafkaError(KafkaError._TIMED_OUT), wait)
            self._has_advanced(wait)
            position = TopicPartition(self._topic, 0, marker.next_txid, marker.digest)
            group = self._consumer.consumer_group_metadata()
            self._repeated(lambda: self._in_time(self._producer.send_offsets_to_transaction, [position], group), wait)
            before_commit()
            self._repeated(lambda: self._producer.commit_transaction(_SLICE_S), wait)
        except KafkaException as error:
            raise self._translated(error.args[0]) from error

    def close(self) -> None:
        """Close the connection for good. An open transaction is aborted if Kafka answers at once. Never raises."""
        # On a separate thread, which handles no exception: most callers are handling this connection's error.
        thread = threading.Thread(target=self._close, name="anchorbolt-kafka-close", daemon=True)
        thread.start()
        thread.join()

    def _close(self) -> None:
        with suppress(KafkaException):
            self._producer.abort_transaction(_ABORT_S)
        with suppress(KafkaException):
            self._producer.purge()
        with suppress(KafkaException, RuntimeError):
            self._consumer.close()
        # A client ends its threads once nothing refers to it. A traceback may still refer to this connection.
        del self._producer, self._consumer

    def _produce(self, message: Message, wait: Patience) -> None:
        self._check_topic(message.topic, wait)
        options: dict[str, Any] = {} if message.partition is None else {"partition": message.partition}
        if message.headers is not None:
            options["headers"] = message.headers
        waited = 0.0
        while True:
            if self._undelivered:
                if self._reason is None:
                    self._producer.abort_transaction(_ABORT_S)  # raises the error that made the client purge
                raise KafkaException(self._reason or self._undelivered[0])
            with suppress(BufferError):  # the client's queue is full
                self._producer.produce(message.topic, message.value, message.key, **options)
                return
            self._called(lambda: self._producer.poll(_POLL_S))
            waited = 0.0 if self._has_advanced(wait) else waited + _POLL_S
            if waited > _SLICE_S:
                self._wait_or_raise(KafkaError(KafkaError._TIMED_OUT), wait)
                waited = 0.0

    def _has_advanced(self, wait: Patience) -> bool:
        """Return whether Kafka has accepted messages since the last call. If so, reset the deadline."""
        delivered = self._produced - len(self._producer)
        if self._undelivered or delivered <= self._delivered:
            return False
        self._delivered = delivered
        wait.advanced(delivered)
        return True

    def _check_topic(self, topic: str, wait: Patience) -> None:
        """Raise `ConfigError` if a topic does not exist: the producer would wait for the topic."""
        until = time.monotonic() + _NEW_TOPIC_S
        while topic not in self._known_topics:
            found = self._repeated(lambda: self._consumer.list_topics(topic, timeout=_SLICE_S), wait)
            error = found.topics[topic].error
            if error is None or error.code() not in _REFUSED:
                self._known_topics.add(topic)
            elif error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART or time.monotonic() > until:
                raise self._translated(error, f"topic {topic!r}: ")
            else:
                time.sleep(_POLL_S)

    def _repeated(self, call: Callable[[], T], wait: Patience) -> T:
        """Return what `call` returns; repeat it while Kafka does not answer."""
        while True:
            try:
                return call()
            except KafkaException as error:
                failure = error
            problem: KafkaError = failure.args[0]
            if not problem.fatal():
                self._called(lambda: self._producer.poll(0))  # calls `_note_error`
            if problem.fatal() or problem.txn_requires_abort() or problem.code() in _FENCED | _REFUSED.keys():
                raise self._translated(self._reason or problem) from failure
            self._wait_or_raise(problem, wait)

    def _in_time(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call a method of the client that may never return: https://github.com/confluentinc/librdkafka/issues/5456.

        Raises `SinkUnavailable` if it takes too long. Its thread then stays alive and keeps the client.
        """
        done: Future[object] = Future()

        def run() -> None:
            try:
                done.set_result(call(*arguments, _SLICE_S))
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="anchorbolt-kafka", daemon=True).start()
        if done not in futures.wait([done], _HUNG_S).done:
            raise self._unavailable(KafkaError(KafkaError._TIMED_OUT))
        done.result()

    @property
    def _reason(self) -> KafkaError | None:
        """The error of an undelivered message of the transaction; None if unknown."""
        return next((error for error in self._undelivered if error.code() not in _PURGED), None)

    def _called(self, call: Callable[[], int]) -> int:
        """Return the result of a call that may run our callbacks. Raises `KafkaException`."""
        try:
            return call()
        except SystemError as error:
            failure = error
        # The client calls `_DebugLog` while it raises a fatal error, and loses that error. Let it raise the error
        # again.
        self._producer.abort_transaction(_ABORT_S)
        raise failure

    def _wait_or_raise(self, problem: KafkaError, wait: Patience) -> None:
        unavailable = self._unavailable(problem)
        if not wait.may_stall(unavailable):
            raise unavailable

    def _translated(self, error: KafkaError, where: str = "") -> AnchorboltError:
        text = self._without_secrets(error.str())
        if error.code() in _FENCED:
            return SinkUnavailable(
                f"another producer uses the transactional.id {self._identity!r} at {self._servers}, a transaction took "
                f"longer than transaction.timeout.ms, or Kafka has forgotten an idle producer ({text}). If this goes "
                "on, raise transaction.timeout.ms in the sink's settings, make waves smaller, or give the other "
                "producer another transactional_id."
            )
        if error.code() in _REFUSED:
            return ConfigError(f"Kafka at {self._servers} refuses: {where}{text}. {_REFUSED[error.code()]}.")
        return self._unavailable(error)

    def _unavailable(self, error: KafkaError) -> SinkUnavailable:
        seen = self._last_error if self._last_error is not None else error
        return SinkUnavailable(f"Kafka at {self._servers} did not answer: {self._without_secrets(seen.str())}")

    def _note_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last_error = error

    def _note_delivery(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._undelivered.append(error)

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            if len(secret) > 3:  # values such as "SSL" and "0" are not secret, and are part of many texts
                text = text.replace(secret, "***")
        return text


class _DebugLog:
    """Logs the lines of Kafka's client at debug level: errors repeat them later."""

    def log(self, level: int, text: str, *arguments: Any) -> None:
        _log.debug(text, *arguments)
