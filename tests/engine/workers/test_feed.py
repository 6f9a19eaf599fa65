"""A task of a stream spout waits for a worker that reads nothing, however long, as long as its machine answers."""

import secrets
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.workers import feed as feed_module
from anchorbolt.engine.workers.feed import COUNTS_LEVEL, Feed, table_to_text
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.gate import SECRET_BYTES, Gate
from anchorbolt.engine.workers.links import Link, Secret
from anchorbolt.engine.workers.rounds import Member, Table
from anchorbolt.errors import InfrastructureLost
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.serialization import unpack
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.cli.command import wait_until
from tests.engine.jobs import feeder, word_count

ROUND = 7
BLOB = b"x" * (1 << 20)
BLOBS = 40  # more than the system keeps for a connection
SPLIT = 1  # the level
PATIENCE_S = 60.0


class Worker:
    """A worker that reads nothing until it is asked to."""

    def __init__(self) -> None:
        self.secret = Secret(secrets.token_bytes(SECRET_BYTES))
        self._links: list[Link] = []
        self._gate = Gate("127.0.0.1", "127.0.0.1", lambda admitted, _: self._links.append(Link(admitted)), self.secret)
        self.table = Table(1, {0: Member(1, "127.0.0.1", self._gate.address.port)})

    def received(self, blobs: int) -> list[Frame]:
        """Read so many frames."""
        wait_until(lambda: bool(self._links), "a connection", PATIENCE_S)
        found: list[Frame] = []

        def are_there() -> bool:
            found.extend(self._links[0].receive())
            return len(found) >= blobs

        wait_until(are_there, "all blobs", PATIENCE_S)
        return found

    def end(self) -> None:
        """End the connections."""
        wait_until(lambda: bool(self._links), "a connection", PATIENCE_S)
        for link in self._links:
            link.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._gate.close()
        for link in self._links:
            link.close()


class Task(threading.Thread):
    """A task of a stream spout that sends a lot to the worker."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(daemon=True)
        self.feed = Feed(plan(), worker.secret, table_to_text(ROUND, worker.table), txid=0)
        self.yielded: list[Envelope] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.yielded += self.feed.pushed(Envelope(0, SPLIT, 0, BLOB) for _ in range(BLOBS))
        except InfrastructureLost as error:
            self.error = error


def plan() -> ExecutionPlan:
    return prepare_plan(word_count(feeder(), parallelism=1), {}, memory=MemoryStateProvider(), location="nowhere")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    monkeypatch.setattr(feed_module, "_links", {})
    worker = Worker()
    yield worker
    worker.close()
    for link in feed_module._links.values():
        link.close()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Link]:
    """The links whose other machine was asked whether it answers, often."""
    looks: list[Link] = []
    end_if_dead = Link.end_if_dead

    def noted(link: Link) -> None:
        looks.append(link)
        end_if_dead(link)

    monkeypatch.setattr(feed_module, "_LOOK_S", 0.01)
    monkeypatch.setattr(Link, "end_if_dead", noted)
    return looks


def check_all_arrives(worker: Worker, task: Task) -> None:
    found = worker.received(BLOBS)
    task.join(PATIENCE_S)
    assert task.error is None
    assert found == [Frame(Kind.BLOB, ROUND, SPLIT, 0, BLOB)] * BLOBS
    assert [(each.level, unpack(each.payload)) for each in task.yielded] == [(COUNTS_LEVEL, [[SPLIT, 0, BLOBS]])]


def test_a_task_waits_for_a_worker_that_reads_nothing(worker: Worker, looks: list[Link]) -> None:
    task = Task(worker)
    task.start()
    wait_until(lambda: len(looks) >= 20, "looks whether the machine answers", PATIENCE_S)
    assert task.is_alive()
    assert max(link.bytes_waiting for link in looks) <= len(BLOB) + 100
    check_all_arrives(worker, task)


@pytest.mark.thorough
def test_a_task_waits_longer_than_for_a_machine_that_does_not_answer(worker: Worker) -> None:
    task = Task(worker)
    task.start()
    until = time.monotonic() + 25
    wait_until(lambda: time.monotonic() > until or not task.is_alive(), "a long call", PATIENCE_S)
    check_all_arrives(worker, task)


def test_a_task_that_waits_notices_that_the_worker_has_ended(worker: Worker, looks: list[Link]) -> None:
    task = Task(worker)
    task.start()
    wait_until(lambda: bool(looks), "a look whether the machine answers", PATIENCE_S)
    worker.end()
    task.join(PATIENCE_S)
    assert isinstance(task.error, InfrastructureLost)
    assert "cannot reach worker 0" in task.error.message
    assert feed_module._links == {}  # the next task connects anew
