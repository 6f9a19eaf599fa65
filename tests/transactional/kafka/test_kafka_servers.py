"""`KafkaTransactionalSpout` on a real Kafka: exact batches over restarts, failures, and changes of the topics."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.testing import CrashRunner, Fault, FaultPoint
from tests.cli.command import wait_until
from tests.conftest import StartKafka
from tests.engine.jobs import kept_in
from tests.servers.kafka_server import KafkaServer
from tests.servers.kafka_topics import KafkaTopics
from tests.transactional.kafka import kafka_runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Batches = Mapping[int, list[list[Any]]]


class KafkaDriver:
    """A process with a Spark that has the connector for Kafka; calls `kafka_runs.call` in it."""

    def __init__(self, server: KafkaServer, jars: str) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"))
        self._pool.submit(kafka_runs.start_driver, jars, server.servers).result()
        self.topics = KafkaTopics(server.servers)

    def __call__(self, name: str, *arguments: Any, **options: Any) -> Any:
        return self.begin(name, *arguments, **options).result()

    def begin(self, name: str, *arguments: Any, **options: Any) -> Future[Any]:
        return self._pool.submit(kafka_runs.call, name, *arguments, **options)

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture(scope="module")
def driver(kafka_server: KafkaServer) -> Iterator[KafkaDriver]:
    with closing(KafkaDriver(kafka_server, kafka_server.connector_jars)) as driver:
        yield driver


def numbered(first: int, count: int, partitions: int = 3) -> dict[int, list[str]]:
    """Return messages for partitions, in turn."""
    numbers = range(first, first + count)
    return {
        partition: [str(number) for number in numbers if number % partitions == partition]
        for partition in range(partitions)
    }


def sizes(batches: Batches) -> dict[int, int]:
    return {txid: len(rows) for txid, rows in batches.items()}


def by_partition(batches: Batches) -> dict[int, list[Any]]:
    """Return the values of each partition in the order of their batches; check that no offset is there twice."""
    found: dict[int, list[Any]] = {}
    offsets: dict[tuple[str, int], list[int]] = {}
    for txid in sorted(batches):
        for topic, partition, offset, value in batches[txid]:
            found.setdefault(partition, []).append(value)
            offsets.setdefault((topic, partition), []).append(offset)
    assert all(each == sorted(set(each)) for each in offsets.values())
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("local", [False, True], ids=["spark", "local"])
def test_every_message_is_in_one_batch_over_several_runs(driver: KafkaDriver, tmp_path: Path, local: bool) -> None:
    topic = driver.topics.new(3)
    options = {"max_offsets_per_batch": 40, "local": local}
    assert driver("run", str(tmp_path), topic, **options) == ({}, "")
    driver.topics.send_to(topic, numbered(0, 100))
    batches, _ = driver("run", str(tmp_path), topic, **options)
    assert sizes(batches) == {1: 40, 2: 40, 3: 20}
    assert by_partition(batches) == numbered(0, 100)
    behind = [json.loads((tmp_path / f"committed-{txid}").read_text()) for txid in batches]
    assert behind == [{"spout": 60}, {"spout": 20}, {"spout": 0}]
    driver.topics.send_to(topic, numbered(100, 20))
    batches, _ = driver("run", str(tmp_path), topic, **options)
    assert sizes(batches) == {1: 40, 2: 40, 3: 20, 4: 20}
    assert by_partition(batches) == numbered(0, 120)
    assert driver("run", str(tmp_path), topic, **options) == (batches, "")


@pytest.mark.thorough
@pytest.mark.parametrize("pending", [1, 3])
def test_a_batch_that_is_tried_again_is_the_same_while_more_messages_come(
    driver: KafkaDriver, tmp_path: Path, pending: int
) -> None:
    topic = driver.topics.new(2)
    driver.topics.send_to(topic, numbered(0, 12, 2))
    (batches, error), tries = driver("run_watched", str(tmp_path), topic, (2, 3), pending, 4)
    assert error == ""
    rows: dict[str, list[list[Any]]] = {}
    for offsets, found in tries:
        assert rows.setdefault(offsets, found) == found
    assert len(tries) > len(rows)
    values = by_partition(batches)
    assert {partition: each[:6] for partition, each in values.items()} == numbered(0, 12, 2)
    assert {txid: size for txid, size in sizes(batches).items() if txid < 3} == {1: 6, 2: 6}


def test_a_batch_that_was_in_flight_is_the_same_in_the_next_run(driver: KafkaDriver, tmp_path: Path) -> None:
    topic = driver.topics.new(3)
    driver.topics.send_to(topic, numbered(0, 9))
    assert driver("run", str(tmp_path), topic, crash=True) == ({}, "WaveFailed")
    driver.topics.send_to(topic, numbered(9, 12))
    batches, _ = driver("run", str(tmp_path), topic)
    assert by_partition(batches) == numbered(0, 21)
    assert sizes(batches) == {1: 9, 2: 12}


@pytest.mark.parametrize("starting", [pytest.param("earliest", marks=pytest.mark.thorough), "latest"])
def test_a_new_partition_is_read_from_its_start(driver: KafkaDriver, tmp_path: Path, starting: str) -> None:
    topic = driver.topics.new(1)
    driver.topics.send_to(topic, {0: ["old"]})
    driver("run", str(tmp_path), topic, starting=starting)
    driver.topics.grow(topic, 3)
    driver.topics.send_to(topic, {0: ["new"], 2: ["a", "b"]})
    batches, _ = driver("run", str(tmp_path), topic, starting=starting)
    assert by_partition(batches) == {0: ["old", "new"] if starting == "earliest" else ["new"], 2: ["a", "b"]}


@pytest.mark.thorough
def test_a_topic_that_is_added_to_the_spout_is_read_from_its_start(driver: KafkaDriver, tmp_path: Path) -> None:
    first, second = driver.topics.new(1), driver.topics.new(1)
    for topic in (first, second):
        driver.topics.send_to(topic, {0: [f"{topic}-0"]})
    driver("run", str(tmp_path), first, starting="latest")
    batches, _ = driver("run", str(tmp_path), [first, second], starting="latest")
    assert by_partition(batches) == {0: [f"{second}-0"]}


@pytest.mark.parametrize("crash", [False, True], ids=["committed", "in-flight"])
def test_a_topic_that_was_created_again_is_refused(driver: KafkaDriver, tmp_path: Path, crash: bool) -> None:
    topic = driver.topics.new(1)
    driver.topics.send_to(topic, {0: ["a", "b"]})
    before, _ = driver("run", str(tmp_path), topic, crash=crash)
    driver.topics.delete(topic)
    assert driver("run", str(tmp_path), topic, rounds=0) == (before, "TopologyError")
    driver.topics.create(topic, 1)
    driver.topics.send_to(topic, {0: ["c", "d", "e"]})
    assert driver("run", str(tmp_path), topic) == (before, "StateRegressed")


def test_messages_that_are_gone_before_they_were_read_are_refused(driver: KafkaDriver, tmp_path: Path) -> None:
    topic = driver.topics.new(1)
    driver.topics.send_to(topic, {0: ["a", "b"]})
    before, _ = driver("run", str(tmp_path), topic)
    driver.topics.send_to(topic, {0: ["c", "d"]})
    driver.topics.delete_before(topic, 0, 3)
    assert driver("run", str(tmp_path), topic) == (before, "StateRegressed")
    batches, error = driver("run", str(tmp_path), topic, accept_loss=True)
    assert (error, by_partition(batches)) == ("", {0: ["a", "b", "d"]})
    driver.topics.send_to(topic, {0: ["e"]})
    batches, error = driver("run", str(tmp_path), topic)
    assert (error, by_partition(batches)) == ("", {0: ["a", "b", "d", "e"]})


@pytest.mark.parametrize("gone", [1, 2])
def test_a_batch_in_flight_that_lost_messages_is_read_without_them_if_that_is_accepted(
    driver: KafkaDriver, tmp_path: Path, gone: int
) -> None:
    topic = driver.topics.new(1)
    driver.topics.send_to(topic, {0: ["a", "b"]})
    driver("run", str(tmp_path), topic, crash=True)
    driver.topics.delete_before(topic, 0, gone)
    assert driver("run", str(tmp_path), topic)[1] == "StateRegressed"
    batches, error = driver("run", str(tmp_path), topic, accept_loss=True)
    assert (error, by_partition(batches).get(0, [])) == ("", ["a", "b"][gone:])


def test_what_a_producer_has_not_committed_is_left_out(driver: KafkaDriver, tmp_path: Path) -> None:
    topic = driver.topics.new(1)
    driver.topics.send_to(topic, {0: ["aborted"]}, abort=True)
    driver.topics.send_to(topic, {0: ["committed"]}, abort=False)
    driver.topics.send_to(topic, {0: ["plain"]})
    batches, _ = driver("run", str(tmp_path), topic, max_offsets_per_batch=2)
    assert by_partition(batches) == {0: ["committed", "plain"]}


@pytest.mark.thorough
def test_text_that_is_not_decoded_stays_bytes(driver: KafkaDriver, tmp_path: Path) -> None:
    topic = driver.topics.new(1)
    driver.topics.send_to(topic, {0: ["ä"]})
    batches, _ = driver("run", str(tmp_path), topic, decode=False)
    assert by_partition(batches) == {0: ["ä".encode()]}


@pytest.mark.thorough
def test_a_server_or_an_option_that_cannot_be_used_ends_the_run(driver: KafkaDriver, tmp_path: Path) -> None:
    quick = {"default.api.timeout.ms": "1000", "request.timeout.ms": "500"}
    for servers, options, error in (
        ("127.0.0.1:1", quick, "SourceUnavailable"),
        ("", {"security.protocol": "none"}, "ConfigError"),
        ("", {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": "nonsense"}, "ConfigError"),
    ):
        found = driver("run", str(tmp_path), "topic", servers=servers, options=options, rounds=0)
        assert found == ({}, error)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_driver_and_workers_that_are_killed_lose_and_repeat_no_message(
    driver: KafkaDriver, kafka_server: KafkaServer, tmp_path: Path
) -> None:
    topic = driver.topics.new(2)
    driver.topics.send_to(topic, numbered(0, 30, 2))
    runner = CrashRunner(
        "tests.transactional.kafka.kafka_runs:growing",
        tmp_path,
        conf={**kept_in(tmp_path), "topology.max.spout.pending": 2, "spark": {"jars": kafka_server.connector_jars}},
        arguments=["--master", "local[4]"],
        environment={"KAFKA_SERVERS": kafka_server.servers, "KAFKA_TOPIC": topic},
    )
    report = runner.run(
        Fault(FaultPoint.BATCH_BEGUN, txid=2),
        Fault(FaultPoint.TASK_BEGUN, component="spout", txid=3),
        Fault(FaultPoint.BATCH_PROCESSED, txid=4),
        Fault(FaultPoint.TASK_PREPARED, component="spout", txid=5),
        Fault(FaultPoint.DECIDED, txid=6),
        Fault(FaultPoint.COMMITTED, txid=8),
    )
    assert report.struck == report.faults
    batches, error = driver("run", str(tmp_path), topic)
    assert error == ""
    assert sorted(batches) == [*range(1, len(batches) + 1)]
    assert by_partition(batches) == driver("values_in", topic)


@pytest.mark.thorough
def test_a_server_that_is_killed_is_waited_for(start_kafka: StartKafka, tmp_path: Path) -> None:
    server = start_kafka()
    with closing(KafkaDriver(server, server.connector_jars)) as driver:
        topic = driver.topics.new(3)
        driver.topics.send_to(topic, numbered(0, 100))
        run = driver.begin("run", str(tmp_path), topic, max_offsets_per_batch=10, pending=2)
        wait_until((tmp_path / "committed-2").exists, "the second batch committed")
        server.kill()
        server.start()
        batches, error = run.result()
    assert error == ""
    assert by_partition(batches) == numbered(0, 100)
