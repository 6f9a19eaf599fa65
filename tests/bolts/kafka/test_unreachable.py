"""How long a wave waits for Kafka, and what an unreachable one leaves behind; sinks that fence each other off."""

import gc
import os
import weakref
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import KafkaSink
from anchorbolt.bolts.kafka import producer
from anchorbolt.bolts.kafka.marker import Marker, Patience
from anchorbolt.bolts.kafka.messages import Message
from anchorbolt.bolts.kafka.producer import KafkaConnection
from anchorbolt.bolts.sink import SinkRun
from anchorbolt.errors import SinkUnavailable, TopologyError
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import Topology, TopologyBuilder
from anchorbolt.util.retry import NO_RETRY, RetryPolicy
from tests.bolts.kafka.fake_client import FakeProducer
from tests.bolts.kafka.fake_kafka import Driver, FakeKafka, decided, fail

SERVERS = "127.0.0.1:9"


class Problem(Exception):
    """An exception that is handled while a connection is closed."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "_SLICE_S", 0.05)


def new_connection() -> KafkaConnection:
    return KafkaConnection(SERVERS, "t:out", "topic", {})


def kept() -> dict[str, int]:
    """Return what this process keeps; the client's threads are not Python's."""
    gc.collect()
    return {name: len(os.listdir(f"/proc/self/{name}")) for name in ("fd", "task")}


def more_than(before: dict[str, int]) -> dict[str, int]:
    return {name: number for name, number in kept().items() if number > before[name]}


def begin_and_fail() -> None:
    sink = KafkaSink(SERVERS, "topic")
    run = SinkRun("t", "out", -1, [], lambda: None, RetryPolicy(300))  # two connections
    with pytest.raises(SinkUnavailable, match=SERVERS):
        sink.begin_run(run)


def close_for_a_problem(connection: KafkaConnection) -> weakref.ref[Problem]:
    try:
        raise Problem
    except Problem as problem:
        connection.close()
        return weakref.ref(problem)


def test_a_sink_that_cannot_begin_keeps_no_thread_and_no_file_descriptor() -> None:
    begin_and_fail()  # some things are made only the first time
    before = kept()
    begin_and_fail()
    assert not more_than(before)


def test_a_connection_that_is_closed_has_no_client_though_something_still_refers_to_it() -> None:
    new_connection().close()  # some things are made only the first time
    before = kept()
    connection = new_connection()
    assert more_than(before)
    connection.close()
    assert not more_than(before)
    del connection


def test_closing_a_connection_while_an_exception_is_handled_does_not_keep_the_exception() -> None:
    handled = close_for_a_problem(new_connection())
    gc.collect()
    assert handled() is None


def sink(servers: Any = "kafka-1:9092", transactional_id: str | None = None) -> KafkaSink:
    return KafkaSink(servers, "out", transactional_id=transactional_id)


def topology(left: KafkaSink, right: KafkaSink) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["value"], []))
    builder.set_bolt("left", left).shuffle_grouping("spout")
    builder.set_bolt("right", right).shuffle_grouping("spout")
    return builder.create_topology("t")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (sink(transactional_id="same"), sink(transactional_id="same")),
        (sink(transactional_id="t:right"), sink()),
        (sink("kafka-1:9092, KAFKA-2:9092", "same"), sink(["kafka-2:9092"], "same")),
    ],
    ids=["explicit", "default", "servers"],
)
def test_two_sinks_with_one_transactional_id_are_refused_by_name(left: KafkaSink, right: KafkaSink) -> None:
    with pytest.raises(TopologyError) as refused:
        topology(left, right)
    assert refused.value.component == "right"
    assert "'left'" in refused.value.message


def test_one_sink_with_a_transactional_id_cannot_be_two_bolts() -> None:
    shared = sink(transactional_id="same")
    with pytest.raises(TopologyError) as refused:
        topology(shared, shared)
    assert refused.value.component == "right"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (sink(), sink()),
        (sink(transactional_id="one"), sink(transactional_id="two")),
        (sink("test:9092", "same"), sink("production:9092", "same")),
    ],
    ids=["default", "different", "two Kafkas"],
)
def test_two_sinks_that_do_not_share_a_transactional_id_are_taken(left: KafkaSink, right: KafkaSink) -> None:
    assert list(topology(left, right).bolts) == ["left", "right"]


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
