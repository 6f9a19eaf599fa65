"""A `StreamSpout` over Spark's connector for Kafka: messages that are gone, and partitions that are added."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.engine.spark.sources.kafka_failures import explained_loss
from tests.engine.spark.kafka import runs
from tests.servers.kafka_server import KafkaServer
from tests.servers.kafka_topics import KafkaTopics
from tests.servers.server_process import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def call(kafka_server: KafkaServer) -> Iterator[Call]:
    """Call a function in a process whose Spark has the connector: the JVM of this one has not."""
    with ProcessPoolExecutor(1, get_context("spawn"), runs.start, (kafka_server.connector_jars,)) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


@pytest.fixture(scope="module")
def topics(kafka_server: KafkaServer) -> KafkaTopics:
    return KafkaTopics(kafka_server.servers)


def test_messages_that_are_gone_before_they_were_read_end_the_run_until_the_user_goes_on_without_them(
    call: Call, topics: KafkaTopics, tmp_path: Path
) -> None:
    topic = topics.new()
    topics.send(topic, ["a"] * 10)
    where = (str(tmp_path), topics.servers, topic)
    assert call(runs.run, *where, {}) == ({"a": 10}, "", "")
    topics.send(topic, ["b"] * 5 + ["c"] * 5)
    topics.delete_before(topic, 0, 15)
    counts, error, message = call(runs.run, *where, {})
    assert (counts, error) == ({"a": 10}, "WaveFailed")
    assert "failOnDataLoss=false" in message
    assert call(runs.run, *where, {"failOnDataLoss": "false"}) == ({"a": 10, "c": 5}, "", "")


@pytest.mark.thorough
def test_messages_of_a_batch_that_was_planned_and_are_gone_end_the_run(
    call: Call, topics: KafkaTopics, tmp_path: Path
) -> None:
    topic = topics.new()
    topics.send(topic, ["a"] * 10 + ["b"] * 5 + ["c"] * 5)
    where = (str(tmp_path), topics.servers, topic)
    assert call(runs.run, *where, {}, 1)[:2] == ({"a": 10}, "FaultInjected")
    topics.delete_before(topic, 0, 15)
    counts, error, message = call(runs.run, *where, {})
    assert (counts, error) == ({"a": 10}, "WaveFailed")
    assert "failOnDataLoss=false" in message
    assert call(runs.run, *where, {"failOnDataLoss": "false"}) == ({"a": 10, "c": 5}, "", "")


def test_a_partition_that_is_added_while_the_job_runs_is_read_from_its_start(
    call: Call, topics: KafkaTopics, tmp_path: Path
) -> None:
    topic = topics.new()
    topics.send(topic, ["old"])
    assert call(runs.run_while_it_grows, str(tmp_path), topics.servers, topic, 3) == {"old": 1, "new": 1}


def test_a_topic_that_does_not_exist_is_named_with_its_spout(call: Call, topics: KafkaTopics, tmp_path: Path) -> None:
    _, error, message = call(runs.run, str(tmp_path), topics.servers, "nope", {"fetchOffset.numRetries": "1"})
    assert error == "TopologyError"
    assert f"spout 'sentences' reads topic 'nope' at {topics.servers}. Create the topic" in message


@pytest.mark.thorough
def test_a_kafka_that_is_away_is_named_with_its_spout(call: Call, tmp_path: Path) -> None:
    options = {"kafka.request.timeout.ms": "200", "kafka.default.api.timeout.ms": "400", "fetchOffset.numRetries": "1"}
    servers = f"127.0.0.1:{free_port()}"
    _, error, message = call(runs.run, str(tmp_path), servers, "nope", options)
    assert error == "SourceUnavailable"
    assert f"spout 'sentences' reads topic 'nope' at {servers}. See whether its servers run" in message


def test_another_error_of_spark_is_not_taken_for_lost_messages() -> None:
    assert explained_loss("Job aborted due to stage failure", 7) is None
