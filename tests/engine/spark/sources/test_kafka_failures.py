"""What is said if Spark cannot ask Kafka for the offsets of stream spouts, by the text that ended the query."""

import pytest

from anchorbolt.engine.spark.sources.kafka_failures import KafkaSource, explained_failure
from anchorbolt.errors import AnchorboltError, SourceUnavailable, TopologyError

ENDED = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
KAFKA = "org.apache.kafka.common.errors."
NO_TOPIC = f"{ENDED}{KAFKA}UnknownTopicOrPartitionException: This server does not host it. SQLSTATE: XXKST\n=== Str"
AWAY = f"{ENDED}{KAFKA}TimeoutException: Timed out waiting. Call: listNodes SQLSTATE: XXKST\n=== Streaming Query ==="
WRAPPED = f"{ENDED}java.util.concurrent.ExecutionException: {KAFKA}TimeoutException: Timed out waiting. SQLSTATE: XXKST"
NO_CLIENT = f"{ENDED}Failed to create new KafkaAdminClient SQLSTATE: XXKST\n=== Streaming Query ==="

CLICKS = KafkaSource("clicks", "kafka-1:9092", "topic 'a,b'")
ORDERS = KafkaSource("orders", "kafka-2:9092", "topics like 'o.*'")


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        (NO_TOPIC, TopologyError, "Create the topic"),
        (AWAY, SourceUnavailable, "says: Timed out waiting. Call: listNodes"),
        (WRAPPED, SourceUnavailable, "says: Timed out waiting."),
        (NO_CLIENT, TopologyError, "says: Failed to create new KafkaAdminClient"),
    ],
)
def test_the_spout_its_topics_and_servers_are_named(text: str, kind: type[AnchorboltError], reason: str) -> None:
    failure = explained_failure(text, lambda: [CLICKS])
    assert isinstance(failure, kind)
    assert "spout 'clicks' reads topic 'a,b' at kafka-1:9092" in failure.message
    assert reason in failure.message
    assert "SQLSTATE" not in failure.message


def test_each_spout_that_may_be_the_cause_is_named() -> None:
    failure = explained_failure(NO_TOPIC, lambda: [CLICKS, ORDERS])
    assert isinstance(failure, TopologyError)
    assert failure.component is None
    assert "'clicks'" in failure.message
    assert "spout 'orders' reads topics like 'o.*' at kafka-2:9092" in failure.message


def test_what_to_do_is_said_where_the_sources_are_not_known() -> None:
    failure = explained_failure(NO_TOPIC, list)
    assert failure is not None
    assert "Create the topic" in failure.message


@pytest.mark.parametrize(
    "text",
    [
        f"{ENDED}java.lang.IllegalStateException: [KAFKA_DATA_LOSS] Some data may have been lost",
        f"{ENDED}{KAFKA}GroupAuthorizationException: Not authorized",
        f"{ENDED}java.util.concurrent.TimeoutException: it took too long",
    ],
)
def test_another_failure_is_left_as_it_is(text: str) -> None:
    assert explained_failure(text, lambda: pytest.fail("asked Spark")) is None
