"""`KafkaSink` on a real Kafka: each message once, whatever interrupts a driver between a wave's steps."""

import queue
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import KafkaSink
from anchorbolt.bolts.kafka import producer
from anchorbolt.bolts.kafka.publisher import Publisher
from anchorbolt.bolts.sink import SinkFile, SinkRun
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import ConfigError, FaultInjected, Fenced, SinkUnavailable, StateRegressed
from anchorbolt.faults.points import PointReached, observe
from anchorbolt.testing import FaultPoint, FeederSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.util.retry import RetryPolicy
from tests.bolts.kafka.fake_kafka import decided
from tests.conftest import StartKafka
from tests.engine.jobs import NO_RETRIES, Strikes, one_bolt, run, words
from tests.servers.kafka_server import KafkaServer
from tests.servers.kafka_topics import KafkaTopics

QUICK = {**NO_RETRIES, "topology.message.timeout.secs": 1, "topology.state.checkpoint.interval.ms": 100}


@pytest.fixture(scope="module")
def topics(kafka_server: KafkaServer) -> KafkaTopics:
    return KafkaTopics(kafka_server.servers)


@pytest.fixture
def struck() -> Iterator[Callable[..., None]]:
    """Let the run fail once at a point: `struck(point, txid=…)`."""
    before = observe(None)
    yield lambda point, txid=1: observe(Strikes(point, txid=txid)) and None
    observe(before)


class Job:
    """A topology of a name of its own that sends words to a topic of its own, in runs one after the other."""

    def __init__(self, topics: KafkaTopics, name: str, partitions: int = 1) -> None:
        self.topics = topics
        self.name = name
        self.topic = topics.new(partitions)
        self.cluster = LocalCluster()

    def run(self, *batches: str, conf: Mapping[str, Any] | None = None, **options: Any) -> None:
        sink = KafkaSink(self.topics.servers, self.topic, **{"value": "word", **options})
        run(self.cluster, one_bolt(sink, words(*batches), id="out", name=self.name), conf or NO_RETRIES)

    def sent(self) -> list[str]:
        return self.topics.values(self.topic)

    def next_txid(self) -> int:
        return self.topics.marker(f"{self.name}:out", self.topic)[0]


@pytest.fixture
def job(topics: KafkaTopics, request: pytest.FixtureRequest) -> Job:
    return Job(topics, request.node.name.replace("[", ".").replace("]", "")[-100:])


def test_every_wave_is_sent_once_over_several_runs(job: Job) -> None:
    seen: list[PointReached] = []
    before = observe(seen.append)
    try:
        job.run("a b", "c")
        job.run("d", "e f")
    finally:
        observe(before)
    assert job.sent() == ["a", "b", "c", "d", "e", "f"]
    assert job.next_txid() == 4
    sent = [(each.component, each.txid) for each in seen if each.point is FaultPoint.SINK_MESSAGES_SENT]
    assert sent == [("out", txid) for txid in range(4)]


def test_a_sink_that_two_bolts_share_keeps_a_marker_for_each(job: Job) -> None:
    sink = KafkaSink(job.topics.servers, job.topic, value="word")
    builder = TopologyBuilder()
    builder.set_spout("spout", words("a", "b"))
    builder.set_bolt("left", sink).global_grouping("spout")
    builder.set_bolt("right", sink).global_grouping("spout")
    run(job.cluster, builder.create_topology(job.name), NO_RETRIES)
    assert sorted(job.sent()) == ["a", "a", "b", "b"]
    assert [job.topics.marker(f"{job.name}:{name}", job.topic)[0] for name in ("left", "right")] == [2, 2]


def test_keys_headers_and_partitions_arrive(topics: KafkaTopics) -> None:
    topic = topics.new(3)
    sink = KafkaSink(
        topics.servers, topic, value="v", key="k", headers="h", partition="p", settings={"compression.type": "zstd"}
    )
    rows = [("x", "k1", {"a": b"\xff"}, 2), (None, "k2", None, 0), ("y", None, [("b", None)], 2)]
    run(LocalCluster(), one_bolt(sink, FeederSpout(["v", "k", "h", "p"], [rows])), NO_RETRIES)
    assert [tuple(each) for each in topics.read(topic)] == [
        (0, b"k2", None, None),
        (2, b"k1", b"x", [("a", b"\xff")]),
        (2, None, b"y", [("b", None)]),
    ]


def test_a_key_goes_to_the_partition_that_kafkas_java_client_chooses(topics: KafkaTopics) -> None:
    topic = topics.new(10)
    hashes = {"21": -973_932_308, "foobar": -790_332_482, "abc": 479_470_107}  # from Kafka's own tests of murmur2
    sink = KafkaSink(topics.servers, topic, value="k", key="k")
    run(LocalCluster(), one_bolt(sink, FeederSpout(["k"], [[(key,) for key in hashes]])), NO_RETRIES)
    java = {key.encode(): (number & 0x7FFF_FFFF) % 10 for key, number in hashes.items()}
    assert {each.key: each.partition for each in topics.read(topic)} == java


@pytest.mark.parametrize(
    "point",
    [FaultPoint.SINK_PUBLISHING, FaultPoint.SINK_MESSAGES_SENT, FaultPoint.SINK_PUBLISHED, FaultPoint.COMMITTED],
)
def test_a_wave_that_was_interrupted_is_in_the_topic_once(
    job: Job, struck: Callable[..., None], point: FaultPoint
) -> None:
    struck(point)
    with pytest.raises(FaultInjected):
        job.run("a", "b c", "d")
    job.run("e")
    assert job.sent() == ["a", "b", "c", "e"]  # the spout of the first run keeps "d"


def test_waves_without_rows_send_nothing_and_recover_right(job: Job, struck: Callable[..., None]) -> None:
    job.run("a", "", "b")
    assert (job.sent(), job.next_txid()) == (["a", "b"], 3)
    struck(FaultPoint.SINK_PUBLISHED, txid=5)
    with pytest.raises(FaultInjected):
        job.run("", "", "c")
    job.run("", "d")
    assert job.sent() == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("lost_marker", "sent"), [("stop", ["a", "b"]), ("send", ["a", "b", "b", "c"]), ("skip", ["a", "b", "c"])]
)
def test_a_decided_wave_whose_marker_is_lost_is_sent_only_if_the_user_says_so(
    job: Job, struck: Callable[..., None], lost_marker: Any, sent: list[str]
) -> None:
    struck(FaultPoint.SINK_PUBLISHED)
    with pytest.raises(FaultInjected):
        job.run("a", "b")
    job.topics.delete_group(f"{job.name}:out")
    if lost_marker == "stop":
        with pytest.raises(StateRegressed):
            job.run("c")
    else:
        job.run("c", lost_marker=lost_marker)
    assert job.sent() == sent


def test_a_marker_that_expired_while_everything_was_sent_changes_nothing(job: Job) -> None:
    job.run("a")
    job.topics.delete_group(f"{job.name}:out")
    job.run("b")
    assert (job.sent(), job.next_txid()) == (["a", "b"], 2)


def test_a_topology_that_starts_over_is_refused_until_its_group_is_deleted(job: Job) -> None:
    job.run("a", "b")
    job.cluster = LocalCluster()
    with pytest.raises(StateRegressed):
        job.run("c")
    assert job.sent() == ["a", "b"]
    job.topics.delete_group(f"{job.name}:out")
    job.run("c")
    assert job.sent() == ["a", "b", "c"]


def test_a_topic_that_does_not_exist_is_refused_before_any_wave(
    topics: KafkaTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "_NEW_TOPIC_S", 0.1)
    sink = KafkaSink(topics.servers, "never-created", value="word")
    with pytest.raises(ConfigError):
        run(LocalCluster(), one_bolt(sink, words("a")), NO_RETRIES)


def test_a_partition_that_does_not_exist_stops_the_run_and_is_used_once_it_does(job: Job) -> None:
    class ToSecond:
        fields = ("word", "p")

    def attempt() -> None:
        sink = KafkaSink(job.topics.servers, job.topic, value="word", partition="p")
        spout = FeederSpout(ToSecond.fields, [[("b", 1), ("a", 0)]])
        run(job.cluster, one_bolt(sink, spout, name=job.name), NO_RETRIES)

    with pytest.raises(ConfigError):
        attempt()
    with pytest.raises(ConfigError):
        attempt()
    assert job.sent() == []
    job.topics.grow(job.topic, 2)
    attempt()  # the decided wave, and then its own
    assert job.sent() == ["a", "a", "b", "b"]


def test_a_message_that_is_too_large_for_its_topic_is_sent_once_the_topic_takes_it(job: Job) -> None:
    job.topic = job.topics.new(max_message_bytes="2000")
    large = "x" * 5000
    with pytest.raises(ConfigError):
        job.run(large)
    with pytest.raises(ConfigError):
        job.run("y")
    assert job.sent() == []
    job.topics.alter(job.topic, max_message_bytes="10000")
    job.run("y")
    assert job.sent() == [large, "y"]
    assert job.next_txid() == 2


@pytest.mark.parametrize(
    "settings",
    [{"sasl.password": "correct-horse-battery", "nonsense": "1"}, {"transaction.timeout.ms": 3_600_000}],
    ids=["unknown", "timeout"],
)
def test_settings_that_cannot_be_used_are_refused(job: Job, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        job.run("a", settings=settings)
    assert "correct-horse-battery" not in refused.value.message


def test_a_kafka_that_is_away_is_waited_for_as_long_as_the_message_timeout(topics: KafkaTopics) -> None:
    sink = KafkaSink("127.0.0.1:1", "topic", value="word")
    with pytest.raises(SinkUnavailable):
        run(LocalCluster(), one_bolt(sink, words("a")), QUICK)


class Driver:
    """What a driver does with its sink, in whatever order."""

    def __init__(self, job: Job, patience_s: float = 10, **settings: Any) -> None:
        self.overtaken = False
        conf: dict[str, Any] = {"servers": job.topics.servers, "topic": job.topic, "settings": settings}
        sink_run = SinkRun(job.name, "out", 0, (), self._check_claim, RetryPolicy(patience_s * 1000))
        self.publisher = Publisher(sink_run, identity=f"{job.name}:out", lost_marker="stop", **conf)
        self.publisher.begin()

    def _check_claim(self) -> None:
        if self.overtaken:
            raise Fenced("a newer driver")


def once(job: Job, folder: Path) -> list[SinkFile]:
    """Return a file of the outbox, with one message."""
    return decided(folder, "once", servers=job.topics.servers, topic=job.topic)


def test_a_driver_that_was_overtaken_sends_nothing(job: Job, tmp_path: Path) -> None:
    older = Driver(job)
    newer = Driver(job)
    older.overtaken = True
    files = once(job, tmp_path)
    with pytest.raises(Fenced):
        older.publisher.publish(1, files)
    newer.publisher.publish(1, files)
    assert job.sent() == ["once"]
    older.publisher.end_run()
    newer.publisher.end_run()


def test_a_producer_that_fences_off_the_owner_by_mistake_makes_no_message_twice(job: Job, tmp_path: Path) -> None:
    drivers = [Driver(job), Driver(job)]
    files = once(job, tmp_path)
    for driver in (*drivers, *drivers):  # each was fenced off by the other one, and believes that it has the claim
        driver.publisher.publish(1, files)
    assert job.sent() == ["once"]
    for driver in drivers:
        driver.publisher.end_run()


def test_a_run_that_was_idle_for_so_long_that_kafka_forgot_it_sends_its_next_wave_once(
    job: Job, tmp_path: Path
) -> None:
    driver = Driver(job)
    Driver(job).publisher.end_run()  # the driver's producer is no longer valid, as if it had expired
    job.topics.delete_group(f"{job.name}:out")
    driver.publisher.publish(1, once(job, tmp_path))
    assert (job.sent(), job.next_txid()) == (["once"], 2)
    driver.publisher.end_run()


def test_a_wave_that_kafka_aborts_because_it_takes_too_long_is_sent_again_and_is_in_the_topic_once(
    job: Job, tmp_path: Path
) -> None:
    driver = Driver(job, **{"transaction.timeout.ms": 1000})
    attempts: list[int] = []

    def outlast(reached: PointReached) -> None:
        if reached.point is FaultPoint.SINK_MESSAGES_SENT:
            attempts.append(reached.txid)
            assert job.topics.has_open_transaction(job.topic)
            until = time.monotonic() + 60
            while len(attempts) == 1 and job.topics.has_open_transaction(job.topic):
                assert time.monotonic() < until, "Kafka did not abort the transaction"

    before = observe(outlast)
    try:
        driver.publisher.publish(1, once(job, tmp_path))
    finally:
        observe(before)
    assert attempts == [1, 1]
    assert job.sent() == ["once"]
    driver.publisher.end_run()


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", ["none", "rebootstrap"])  # with this one a call of the client may never return
def test_a_kafka_that_is_killed_while_a_wave_is_sent_is_waited_for(start_kafka: StartKafka, strategy: str) -> None:
    server = start_kafka()
    topics = KafkaTopics(server.servers)
    topic = topics.new(3)
    batches = [" ".join(f"{wave}-{number}" for number in range(2000)) for wave in range(4)]
    points = {1: FaultPoint.SINK_PUBLISHING, 2: FaultPoint.SINK_MESSAGES_SENT}
    killed: queue.Queue[int] = queue.Queue()

    def kill(reached: PointReached) -> None:
        if points.get(reached.txid) is reached.point:
            server.kill()
            del points[reached.txid]
            killed.put(reached.txid)

    before = observe(kill)
    try:
        sink = KafkaSink(server.servers, topic, value="word", settings={"metadata.recovery.strategy": strategy})
        conf = {"topology.message.timeout.secs": 120}
        handle = LocalCluster().submit(one_bolt(sink, words(*batches), id="out"), conf)
        for _ in range(2):
            killed.get(timeout=60)
            server.start()  # (a server ends with the thread that started it)
        assert handle.await_termination(120)
    finally:
        observe(before)
    assert sorted(topics.values(topic)) == sorted(" ".join(batches).split())
