"""From topic to topic, each count is one message: with kills of driver, worker and Kafka at named points."""

from collections.abc import Sequence
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from anchorbolt.faults.injection import FaultFolder
from anchorbolt.testing import CrashReport, CrashRunner, Fault, FaultAction, FaultPoint, Victim
from tests.conftest import StartKafka
from tests.crash.kafka.job import SOURCE, TARGET, conf_of, problems, sentences
from tests.crash.plans import DRIVER_PHASES, ON_WORKERS, kills
from tests.servers.kafka_server import KafkaServer
from tests.servers.kafka_topics import KafkaTopics

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

BATCH = 40
_POLL_S = 0.05
OF_KAFKA = (FaultPoint.SINK_PUBLISHING, FaultPoint.SINK_MESSAGES_SENT, FaultPoint.SINK_PUBLISHED)


class KilledJob:
    """A Kafka of its own, and the job, which reads some waves from it."""

    def __init__(self, server: KafkaServer, folder: Path, waves: int) -> None:
        self.server = server
        self.folder = folder
        self.topics = KafkaTopics(server.servers)
        self.topics.create(SOURCE, 2)
        self.topics.create(TARGET, 3)
        self.sent = sentences(0, BATCH * waves)
        self.topics.send(SOURCE, self.sent)

    def run(self, *faults: Fault) -> CrashReport:
        """Run the job to its end. Where a fault hangs, Kafka is killed and started again meanwhile."""
        runner = CrashRunner(
            "tests.crash.kafka.job:topology",
            self.folder,
            conf=conf_of(self.server, BATCH),
            arguments=["--master", "local[2]"],
            start_timeout_s=900,
        )
        faults_folder = FaultFolder(self.folder / "faults")
        with ThreadPoolExecutor(1) as pool:
            report = pool.submit(runner.run, *faults)
            for number, fault in enumerate(faults):
                if fault.action is not FaultAction.HANG:
                    continue
                while not faults_folder.has_struck(number) and not report.done():
                    futures.wait([report], _POLL_S)
                self.server.kill()
                (self.folder / "faults" / f"released-{number}").touch()
                self.server.start()  # (it would end with another thread)
            return report.result()


def assert_exact(job: KilledJob, *faults: Fault) -> CrashReport:
    report = job.run(*faults)
    assert report.struck == report.faults
    assert problems(job.topics, job.sent) == []
    return report


def test_kills_of_driver_worker_and_kafka_lose_no_message_and_send_none_twice(
    start_kafka: StartKafka, tmp_path: Path
) -> None:
    job = KilledJob(start_kafka(), tmp_path / "run", 5)
    report = assert_exact(
        job,
        Fault(FaultPoint.SEALED, component="count", txid=1),  # a worker
        Fault(FaultPoint.SINK_MESSAGES_SENT, FaultAction.HANG, component="out", txid=2),  # Kafka
        Fault(FaultPoint.SINK_PUBLISHED, component="out", txid=3),  # the driver
    )
    assert len(report.starts) == 2


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("points", "victim"),
    [
        ((*DRIVER_PHASES, *OF_KAFKA), Victim.HERE),
        (ON_WORKERS, Victim.HERE),
        ((*OF_KAFKA, FaultPoint.DECIDED, FaultPoint.ROUND_ENDED), Victim.WORKER),
    ],
    ids=["driver", "workers", "worker-meanwhile"],
)
def test_a_kill_at_each_point_loses_no_message_and_sends_none_twice(
    start_kafka: StartKafka, tmp_path: Path, points: Sequence[FaultPoint], victim: Victim
) -> None:
    job = KilledJob(start_kafka(), tmp_path / "run", len(points) + 2)
    assert_exact(job, *kills(points, victim))


@pytest.mark.thorough
def test_a_kafka_that_is_killed_at_each_point_loses_no_message_and_keeps_none_twice(
    start_kafka: StartKafka, tmp_path: Path
) -> None:
    points = (FaultPoint.TASK_BEGUN, FaultPoint.TASK_ALIGNED, FaultPoint.ROUND_ENDED, FaultPoint.DECIDED, *OF_KAFKA)
    job = KilledJob(start_kafka(), tmp_path / "run", len(points) + 2)
    assert_exact(job, *(Fault(point, FaultAction.HANG, txid=txid) for txid, point in enumerate(points, 1)))
