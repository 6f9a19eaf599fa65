"""A Kafka that cannot be reached leaves nothing behind in the driver. With Kafka's own client, and no server."""

import gc
import os
import weakref

import pytest

from anchorbolt.bolts import KafkaSink
from anchorbolt.bolts.kafka import producer
from anchorbolt.bolts.kafka.producer import KafkaConnection
from anchorbolt.bolts.sink import SinkRun
from anchorbolt.errors import SinkUnavailable
from anchorbolt.util.retry import RetryPolicy

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
