"""What becomes of a tuple as a message of Kafka, and what cannot become one. Without Kafka."""

import json
from typing import Any

import cloudpickle
import pytest

from anchorbolt.bolts import KafkaSink
from anchorbolt.bolts.kafka.messages import COLUMNS
from anchorbolt.config import Secret
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import AnchorboltError, BoltError, TopologyError
from anchorbolt.testing import FeederSpout
from tests.engine.jobs import one_bolt

SERVERS = "localhost:9092"
BY_FIELD: dict[str, Any] = {"topic": None, "topic_field": "t", "marker_topic": "m"}


def messages(sink: KafkaSink, **columns: list[Any]) -> list[dict[str, Any]]:
    """Return what the sink makes of tuples with these columns."""
    names, values = sink.outbox_columns(tuple(columns), list(columns.values()))
    assert names == COLUMNS
    return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*values, strict=True)]


def test_a_tuple_becomes_a_message_with_value_only() -> None:
    assert messages(KafkaSink(SERVERS, "out"), value=["a", 3, None], more=[1, 2, 3]) == [
        {"topic": "out", "partition": None, "key": None, "value": value, "headers": None}
        for value in (b"a", b"3", None)
    ]


def test_a_message_takes_topic_partition_key_value_and_headers_from_fields() -> None:
    sink = KafkaSink(SERVERS, topic_field="t", key="k", value="v", headers="h", partition="p", marker_topic="marks")
    headers = [{"a": b"1", "b": None}, [("a", "ä"), ("a", b"2")], [{"key": "a", "value": b"1"}], None]
    found = messages(sink, v=["w"] * 4, k=["x"] * 4, t=["one", "two", "one", "two"], p=[0, 1, None, 2], h=headers)
    assert [(each["topic"], each["partition"], each["key"], each["value"]) for each in found] == [
        ("one", 0, b"x", b"w"),
        ("two", 1, b"x", b"w"),
        ("one", None, b"x", b"w"),
        ("two", 2, b"x", b"w"),
    ]
    assert [each["headers"] for each in found] == [
        [("a", b"1"), ("b", None)],
        [("a", "ä".encode()), ("a", b"2")],
        [("a", b"1")],
        None,
    ]


def test_several_fields_become_one_json_object() -> None:
    sink = KafkaSink(SERVERS, "out", key="word", value=["word", "count"], value_serializer="json")
    [found] = messages(sink, word=["grün"], count=[3], more=[0])
    assert (found["key"], json.loads(found["value"])) == ("grün".encode(), {"word": "grün", "count": 3})


@pytest.mark.parametrize(
    ("serializer", "given", "value"),
    [
        ("str", 1.5, b"1.5"),
        ("bytes", bytearray(b"x"), b"x"),
        ("json", [1, None], b"[1,null]"),
        (lambda given: f"<{given}>", 7, b"<7>"),
        (lambda given: None, 7, None),
    ],
)
def test_a_serializer_is_a_name_or_a_function(serializer: Any, given: Any, value: bytes | None) -> None:
    [found] = messages(KafkaSink(SERVERS, "out", value_serializer=serializer), value=[given])
    assert found["value"] == value


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({}, {"other": [1]}),
        ({}, {"value": [b"bytes as text"]}),
        ({"value_serializer": "bytes"}, {"value": ["text as bytes"]}),
        ({"value_serializer": "json"}, {"value": [float("nan")]}),
        ({"value_serializer": lambda value: 7}, {"value": ["x"]}),
        ({"value_serializer": lambda value: 1 / 0}, {"value": ["x"]}),
        ({"partition": "p"}, {"value": ["x"], "p": [-1]}),
        ({"partition": "p"}, {"value": ["x"], "p": ["0"]}),
        ({"headers": "h"}, {"value": ["x"], "h": [{1: b"x"}]}),
        ({"headers": "h"}, {"value": ["x"], "h": [["ab", "c"]]}),
        ({"headers": "h"}, {"value": ["x"], "h": [{"a": 1}]}),
        (BY_FIELD, {"value": ["x"], "t": [None]}),
        (BY_FIELD, {"value": ["x"], "t": ["x/y"]}),
        ({}, {"value": ["x" * 1_000_000]}),
        ({"settings": {"message.max.bytes": 500}, "headers": "h"}, {"value": ["x"], "h": [{"a": "x" * 500}]}),
    ],
)
def test_a_tuple_that_cannot_be_a_message_fails_its_wave_before_the_decision(
    options: dict[str, Any], columns: dict[str, list[Any]]
) -> None:
    sink = KafkaSink(SERVERS, **{"topic": "out", **options})
    with pytest.raises(ValueError, match=r"."):
        messages(sink, **columns)
    sink.begin_run = lambda run: sink  # type: ignore[assignment,method-assign,return-value] # there is no Kafka
    spout = FeederSpout(list(columns), [list(zip(*columns.values(), strict=True))])
    handle = LocalCluster().submit(one_bolt(sink, spout), {"topology.max.batch.retries": 0})
    with pytest.raises(BoltError) as failed:
        handle.await_termination(60)
    assert failed.value.component == "bolt"


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "x/y", "a\0b", "a\n", "ä", "a" * 250, b"bytes"])
def test_a_tuple_that_names_an_impossible_topic_cannot_be_a_message(topic: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        messages(KafkaSink(SERVERS, **BY_FIELD), value=["x"], t=[topic])


@pytest.mark.parametrize("topic", ["a", "...", "A-1_b.c", "a" * 249])
def test_a_tuple_may_name_any_topic_that_kafka_takes(topic: str) -> None:
    [found] = messages(KafkaSink(SERVERS, **BY_FIELD), value=["x"], t=[topic])
    assert found["topic"] == topic


@pytest.mark.parametrize("argument", ["topic", "marker_topic"])
def test_an_argument_that_names_an_impossible_topic_is_refused(argument: str) -> None:
    arguments: dict[str, Any] = {"topic": "out", argument: "x/y"}
    with pytest.raises(TopologyError):
        KafkaSink(SERVERS, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"bootstrap_servers": ""},
        {"bootstrap_servers": []},
        {"topic": None},
        {"topic": ""},
        {"topic_field": "t"},
        {"topic": None, "topic_field": "t"},
        {"value": []},
        {"value": ["a", "a"]},
        {"key": 1},
        {"headers": ["h"]},
        {"partition": 0},
        {"value_serializer": "text"},
        {"key_serializer": None},
        {"settings": ["a"]},
        {"settings": {"acks": "1"}},
        {"settings": {"bootstrap.servers": "other:9092"}},
        {"settings": {"kafka.security.protocol": "SSL"}},
        {"settings": {"sasl.password": None}},
        {"settings": {"message.max.bytes": "many"}},
        {"transactional_id": ""},
        {"lost_marker": "guess"},
    ],
)
def test_arguments_that_cannot_be_used_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(TopologyError):
        KafkaSink(**{"bootstrap_servers": SERVERS, "topic": "out", **arguments})


def test_settings_are_shown_nowhere_and_stay_on_the_driver() -> None:
    password = "correct-horse-battery"
    settings = {"sasl.password": password, "ssl.key.password": Secret(password), "message.max.bytes": "2000"}
    sink = KafkaSink(SERVERS, "out", settings=settings)
    with pytest.raises(AnchorboltError) as refused:
        KafkaSink(SERVERS, "out", settings={"acks": password})
    assert password not in repr(sink) + repr(vars(sink)) + refused.value.message
    pickled = cloudpickle.dumps(sink)
    unpickled: KafkaSink = cloudpickle.loads(pickled)
    assert password.encode() not in pickled
    with pytest.raises(ValueError, match=r"message\.max\.bytes"):
        messages(unpickled, value=["x" * 2000])
