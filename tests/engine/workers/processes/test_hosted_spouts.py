"""Rich spouts in worker processes, `topology.spouts.in`: nothing is lost or counted twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import BasicOutputCollector, FailedException
from anchorbolt.engine.driver.loop import RunStatus
from anchorbolt.errors import ConfigError, SpoutError, TopologyError, WorkerLost
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.spouts.collector import SpoutOutputCollector
from anchorbolt.streams import OutputFieldsDeclarer, TopologyContext, Tuple
from anchorbolt.topology import Topology, TopologyBuilder
from tests.cli.command import wait_until
from tests.engine.jobs import CountWords, kept_in
from tests.engine.workers.processes.hosts import ProcessHosts
from tests.engine.workers.processes.jobs import Marks, Passes, counting, counts_of, generated, word_of
from tests.engine.workers.processes.runs import PATIENCE_S, StartedRun, started

pytestmark = pytest.mark.slow

IN_WORKERS = {"topology.spouts.in": "workers", "topology.workers": 2}
SOME = 300


class FileSpout(BaseRichSpout):
    """Each file of a folder is a message; `ack` removes it. A new task receives all files of its share again."""

    stable_message_ids = True

    def __init__(self, folder: Path) -> None:
        self.folder, self.marks = folder, Marks(folder.parent)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector) -> None:
        self._emit, self._task = collector.emit, context.this_task_index
        self._tasks = len(context.get_component_tasks(context.this_component_id))
        self._pending = set[int]()
        self.marks.note("opened", os.getpid())

    def next_tuple(self) -> None:
        for name in sorted(map(int, os.listdir(self.folder))):
            if name % self._tasks == self._task and name not in self._pending:
                self._pending.add(name)
                self._emit(word_of(name), self.id_of(name))

    def id_of(self, number: int) -> Any:
        return number

    def ack(self, msg_id: Any) -> None:
        number = msg_id if type(msg_id) is int else msg_id[1]
        self._pending.remove(number)  # or else it was not of this task
        (self.folder / str(number)).unlink()

    def fail(self, msg_id: Any) -> None:
        self.marks.note("failed", msg_id)
        self._pending.remove(msg_id if type(msg_id) is int else msg_id[1])

    def close(self) -> None:
        self.marks.note("closed", self._task)


class NewIds(FileSpout):
    """The same, but each delivery has an id of its own."""

    stable_message_ids = False

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector) -> None:
        super().open(conf, context, collector)
        self._deliveries = 0

    def id_of(self, number: int) -> Any:
        self._deliveries += 1
        return f"{os.getpid()}-{self._deliveries}", number


class Queue:
    """The folder of a `FileSpout`."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "queue"
        self.folder.mkdir()
        self.sent = 0

    def feed(self, messages: int) -> None:
        for number in range(self.sent, self.sent + messages):
            (self.folder / str(number)).touch()
        self.sent += messages

    def is_empty(self) -> bool:
        return not os.listdir(self.folder)


def exact(run: StartedRun, queue: Queue) -> None:
    """Wait until all messages are acked, and counted once."""
    wait_until(queue.is_empty, "all acks", PATIENCE_S)
    run.stop()
    assert run.handle.state("count") == counts_of(queue.sent)


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue(tmp_path)


def spread(spout: Any, marks: Marks, bolt: Any = None) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("words", spout, parallelism=3)
    builder.set_bolt("pass", bolt or Passes(marks), 3).shuffle_grouping("words")
    builder.set_bolt("count", CountWords(), 3).fields_grouping("pass", "word")
    return builder.create_topology("count")


def test_generated_messages_are_counted_and_acked(tmp_path: Path) -> None:
    with started(spread(generated(20_000), Marks(tmp_path)), tmp_path, conf=IN_WORKERS) as run:
        run.wait_for_workers()
        spouts = [
            shown.tasks - known.tasks for shown, known in zip(run.runner.workers(), run.fleet.figures(), strict=True)
        ]
        assert spouts == [2, 1]
        run.finish()
        assert run.handle.state("count") == counts_of(20_000)
        assert sum(report.messages_acked.get("words", 0) for report in run.handle.reports) == 20_000


@pytest.mark.parametrize("kind", [FileSpout, NewIds])
def test_killed_workers_lose_and_double_nothing(kind: type[FileSpout], queue: Queue, tmp_path: Path) -> None:
    marks = Marks(tmp_path)
    conf = {**IN_WORKERS, "topology.spout.intake.tuples": 50}
    with started(spread(kind(queue.folder), marks), tmp_path, conf=conf, until_empty=False) as run:
        for kill in range(6):
            queue.feed(SOME)
            if kill % 2:  # in a wave
                marks.arm()
                pid = marks.wait_until_held()
                slot = run.wait_for_workers().index(pid)
                run.hosts.kill(slot)
                marks.release()
            else:
                run.wait_for_waves(1)
                run.hosts.kill(kill // 2 % 2)
            wait_until(lambda: len(run.fleet.figures()) == 2, "the replacement", PATIENCE_S)
        if kind is FileSpout:
            exact(run, queue)
            return
        wait_until(queue.is_empty, "all acks", PATIENCE_S)
        run.stop()
        counted = run.handle.state("count")
    wanted = counts_of(queue.sent)  # a message counts again if its worker is lost between the commit and the ack
    assert all(counted[word] >= number for word, number in wanted.items())


class FailsOnce(Passes):
    """Fails the first tuple of `word-7`, and each of `word-13`."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        word = tup[0]
        if word == "word-13" or (word == "word-7" and "word-7" not in self.marks.lines("refused")):
            self.marks.note("refused", word)
            raise FailedException("not yet")
        super().execute(tup, collector)


def test_failed_messages_come_again_and_then_are_dead_letters_with_their_values(queue: Queue, tmp_path: Path) -> None:
    marks = Marks(tmp_path)
    queue.feed(97)
    conf = {**IN_WORKERS, "topology.dead.letter": str(tmp_path / "dead"), "topology.max.tuple.retries": 2}
    bolt = FailsOnce(marks, holds=False)
    with started(spread(FileSpout(queue.folder), marks, bolt), tmp_path, conf=conf, until_empty=False) as run:
        wait_until(queue.is_empty, "all acks", PATIENCE_S)
        run.stop()
        assert run.handle.state("count") == {word: 1 for word in counts_of(97) if word != "word-13"}
        assert sum(report.dead_letters.get("words", 0) for report in run.handle.reports) == 1
    assert "7" in marks.lines("failed")
    assert any(b"word-13" in path.read_bytes() for path in (tmp_path / "dead").rglob("*") if path.is_file())


class Exits(Passes):
    """Ends its process on each `word-13`, until a test has mended it."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        if tup[0] == "word-13" and not self.marks.lines("mended"):
            os._exit(7)
        super().execute(tup, collector)


@pytest.fixture
def blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say of each lost worker that its process has ended, as Spark does."""
    monkeypatch.setattr(
        ProcessHosts, "why_lost", lambda self, slot, incarnation, txid, unheard: WorkerLost("it has ended", txid=txid)
    )


@pytest.mark.usefixtures("blamed")
@pytest.mark.parametrize("kind", [FileSpout, NewIds])
def test_a_tuple_that_ends_its_own_worker_ends_the_run(kind: type[FileSpout], queue: Queue, tmp_path: Path) -> None:
    """It failed: the wave went on without the tuples that were lost with the worker, again and again."""
    marks = Marks(tmp_path)
    queue.feed(97)
    topology = spread(kind(queue.folder), marks, Exits(marks, holds=False))
    conf = {**IN_WORKERS, "topology.workers": 1}
    with started(topology, tmp_path, conf=conf, workers=1, until_empty=False) as run:
        wait_until(lambda: run.handle.status is RunStatus.FAILED, "the failure", PATIENCE_S)
        assert isinstance(run.handle.failure, WorkerLost)
        assert len(run.hosts.started[0]) <= 8
    marks.note("mended", "")
    with started(topology, tmp_path, conf=conf, workers=1, until_empty=False) as run:
        wait_until(queue.is_empty, "all acks", PATIENCE_S)
        run.stop()
        counted = run.handle.state("count")
    assert {*counted.values()} == {1} if kind is FileSpout else {1, 2}
    assert len(counted) == 97


@pytest.mark.usefixtures("blamed")
def test_a_tuple_that_ends_its_own_worker_is_found_by_halves(queue: Queue, tmp_path: Path) -> None:
    marks = Marks(tmp_path)
    queue.feed(97)
    conf = {**IN_WORKERS, "topology.workers": 1, "topology.dead.letter": str(tmp_path / "dead")}
    topology = spread(FileSpout(queue.folder), marks, Exits(marks, holds=False))
    with started(topology, tmp_path, conf=conf, workers=1, until_empty=False) as run:
        wait_until(queue.is_empty, "all acks", PATIENCE_S)
        run.stop()
        assert run.handle.state("count") == {word: 1 for word in counts_of(97) if word != "word-13"}
        assert sum(report.dead_letters.get("words", 0) for report in run.handle.reports) == 1


def test_pause_and_resume_reach_the_spouts(queue: Queue, tmp_path: Path) -> None:
    marks = Marks(tmp_path)
    with started(spread(FileSpout(queue.folder), marks), tmp_path, conf=IN_WORKERS, until_empty=False) as run:
        queue.feed(SOME)
        wait_until(queue.is_empty, "all acks", PATIENCE_S)
        assert run.handle.pause(PATIENCE_S)
        before = run.waves()
        queue.feed(SOME)
        run.handle.resume()
        exact(run, queue)
        assert run.waves() > before
    assert sorted(marks.lines("closed")) == ["0", "1", "2"]


class Breaks(FileSpout):
    def next_tuple(self) -> None:
        if os.listdir(self.folder):
            raise ValueError("the queue is broken")


class DoesNotOpen(FileSpout):
    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector) -> None:
        raise ValueError("the queue is broken")


def test_an_error_of_a_spout_ends_the_run(queue: Queue, tmp_path: Path) -> None:
    topology = spread(Breaks(queue.folder), Marks(tmp_path))
    with started(topology, tmp_path, conf=IN_WORKERS, until_empty=False) as run:
        queue.feed(1)
        wait_until(lambda: run.handle.status is RunStatus.FAILED, "the failure", PATIENCE_S)
        assert isinstance(run.handle.failure, SpoutError)
        assert run.handle.failure.component == "words"


def test_a_spout_that_cannot_be_opened_fails_the_start(queue: Queue, tmp_path: Path) -> None:
    with (
        pytest.raises(SpoutError, match="broken"),
        started(spread(DoesNotOpen(queue.folder), Marks(tmp_path)), tmp_path, conf=IN_WORKERS),
    ):
        pass


class OnlyCopied:
    """Can be copied, which is enough on the driver, but not pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __deepcopy__(self, memo: object) -> OnlyCopied:
        return self


def test_what_cannot_work_is_refused_before_the_start(queue: Queue, tmp_path: Path) -> None:
    topology = counting(FileSpout(queue.folder), Marks(tmp_path))
    with pytest.raises(ConfigError) as refused:
        prepare_plan(topology, {**kept_in(tmp_path), **IN_WORKERS, "topology.workers": 0})
    assert refused.value.key == "topology.spouts.in"
    spout = FileSpout(queue.folder)
    spout.held = OnlyCopied()  # type: ignore[attr-defined]
    topology = counting(spout, Marks(tmp_path))
    with pytest.raises(TopologyError) as unpicklable:
        prepare_plan(topology, {**kept_in(tmp_path), **IN_WORKERS})
    assert unpicklable.value.component == "words"
