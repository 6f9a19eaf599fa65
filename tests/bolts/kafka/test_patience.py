"""A wave waits for Kafka as long as it gets further. Without Kafka: its client is a fake."""

from pathlib import Path

import pytest

from anchorbolt.bolts.kafka.marker import Marker, Patience
from anchorbolt.bolts.kafka.messages import Message
from anchorbolt.bolts.kafka.producer import KafkaConnection
from anchorbolt.errors import SinkUnavailable
from anchorbolt.util.retry import NO_RETRY, RetryPolicy
from tests.bolts.kafka.fake_client import FakeProducer
from tests.bolts.kafka.fake_kafka import Driver, FakeKafka, decided, fail

ONE_PAUSE = RetryPolicy(250)  # the pauses of 0.1 s and 0.2 s do not both fit
AWAY = SinkUnavailable("Kafka does not answer")


def send(number: int, policy: RetryPolicy) -> None:
    """Send so many messages in one transaction."""
    connection = KafkaConnection("kafka:9092", "t:out", "topic", {})
    messages = [Message("topic", None, None, b"x", None)] * number
    connection.send(messages, Marker(1), Patience(policy), before_commit=lambda: None)


def test_a_wave_that_kafka_takes_slowly_is_never_given_up(client: type[FakeProducer]) -> None:
    client.deliveries = [1] * 20
    send(20, NO_RETRY)
    assert client.committed


def test_each_stall_of_a_wave_may_last_as_long_as_the_patience(client: type[FakeProducer]) -> None:
    client.deliveries = [1, 0, 1, 0, 1, 0, 1]
    send(4, ONE_PAUSE)
    assert client.committed


def test_a_stall_that_outlasts_the_patience_ends_the_wait(client: type[FakeProducer]) -> None:
    client.deliveries = [1, 0, 0]
    with pytest.raises(SinkUnavailable):
        send(4, ONE_PAUSE)
    assert not client.committed


def test_a_connection_that_gets_further_than_all_before_it_renews_the_patience() -> None:
    patience = Patience(ONE_PAUSE)
    for delivered in range(1, 4):
        patience.advanced(delivered)
        assert patience.may_connect_again(AWAY)
    patience.advanced(3)  # no further
    assert not patience.may_connect_again(AWAY)


def test_a_connection_that_cannot_be_made_uses_the_patience_up() -> None:
    patience = Patience(ONE_PAUSE)
    assert patience.may_stall(AWAY)
    assert not patience.may_connect_again(AWAY)


def test_a_wave_that_always_fails_behind_its_last_message_is_given_up(tmp_path: Path) -> None:
    kafka = FakeKafka()
    driver = Driver(kafka, patience_s=0.25)
    kafka.at("send", *[fail()] * 1000)
    with pytest.raises(SinkUnavailable):
        driver.publish(1, decided(tmp_path, "a", "b"))
    assert len(kafka.actions["send"]) > 990


@pytest.mark.parametrize("capacity", [1000, 2], ids=["while it waits for the last", "while it sends"])
def test_a_producer_that_is_fenced_off_says_so_and_not_that_its_messages_were_purged(
    client: type[FakeProducer], capacity: int
) -> None:
    client.is_fenced, client.capacity = True, capacity
    with pytest.raises(SinkUnavailable) as fenced:
        send(4, NO_RETRY)
    assert "transaction.timeout.ms" in fenced.value.message
