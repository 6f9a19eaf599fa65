"""The rounds of one worker: which blobs belong to which, and what its driver hears of them."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope, TaskReport, TuplesMessage, encode_message, reports_in
from anchorbolt.engine.task.round_text import round_to_text
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.inbox import Space
from anchorbolt.engine.workers.rounds import Slot
from anchorbolt.engine.workers.worker_rounds import FEED, WorkerRounds
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.serialization import pack, unpack
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.engine.jobs import feeder, word_count

SPLIT, COUNT = 1, 2
"""The levels; worker 0 has the first task of each, and worker 1 the other."""
WORDS = ["a", "b", "c", "d", "e", "f", "g"]


class Worker:
    """Worker 0 of two, with what it says."""

    def __init__(self, plan: ExecutionPlan, most: int = 1000) -> None:
        self.plan = plan
        self.space = Space(most, "")
        self.sent: list[tuple[Slot, Frame]] = []
        self.told: list[Frame] = []
        self.rounds = WorkerRounds(
            plan, 2, 0, self.space, lambda *sent: self.sent.append(sent), lambda frame: self.told.append(frame)
        )

    def begin(self, number: int) -> None:
        text = round_to_text(self.plan, self.round(number))
        self.rounds.obey(Frame(Kind.ROUND, number, payload=pack([0, text, []])))

    def expect(self, number: int, level: int, blobs: int) -> None:
        self.rounds.obey(Frame(Kind.EXPECT, number, level, payload=pack(blobs)))

    def run(self) -> None:
        while self.rounds.step():
            pass

    def lost(self) -> list[tuple[int, Slot]]:
        """Return number and slot of each loss that the driver was told."""
        return [(frame.round, unpack(frame.payload)[0]) for frame in self.told if frame.kind is Kind.LOST]

    def ended(self) -> list[tuple[int, int]]:
        """Return number and level of what has ended."""
        return [(frame.round, frame.level) for frame in self.told if frame.kind is Kind.ENDED]

    def reports(self, number: int) -> dict[TaskKey, TaskReport]:
        payloads = [each for frame in self.told if frame.kind is Kind.ENDED for each in unpack(frame.payload)[2]]
        found = reports_in([Envelope(0, 0, 0, payload) for payload in payloads], self.round(number))
        return {report.task: report for report in found}

    def round(self, number: int) -> Round:
        return Round(0, Fence(1, number))


@pytest.fixture
def plan(tmp_path: Path) -> ExecutionPlan:
    return prepare_plan(word_count(feeder(), parallelism=2), {}, memory=MemoryStateProvider(), location=str(tmp_path))


@pytest.fixture
def worker(plan: ExecutionPlan) -> Worker:
    return Worker(plan)


def sentence(number: int, blob: int = 0) -> Frame:
    """Return a blob of the spout to the worker's task of the first level."""
    message = TuplesMessage(("sentences", 0), 0, "a" * 32, blob, "default", 1, [[" ".join(WORDS)]])
    return Frame(Kind.BLOB, number, SPLIT, 0, encode_message(message))


def test_a_round_ends_level_by_level_when_all_has_arrived(worker: Worker) -> None:
    worker.begin(1)
    worker.rounds.arrive(sentence(1))
    worker.run()
    assert worker.ended() == []
    worker.expect(1, SPLIT, 1)
    worker.run()
    assert worker.ended() == [(1, SPLIT)]
    [(slot, frame)] = worker.sent
    assert (slot, frame.kind, frame.round, frame.level, frame.destination) == (1, Kind.BLOB, 1, COUNT, 1)
    sent, executed, _ = unpack(worker.told[0].payload)
    assert (sent, executed) == ([[COUNT, 1, 1]], [["split", 0, 1]])
    worker.expect(1, COUNT, 0)
    worker.run()
    reports = worker.reports(1)
    assert set(reports) == {("split", 0), ("count", 0)}
    assert all(report.failure is None for report in reports.values())
    assert 0 < reports["count", 0].tuples_in < len(WORDS)
    assert not worker.rounds.step()
    assert worker.space.held == 0


def test_blobs_that_come_before_their_round_wait_for_it(worker: Worker) -> None:
    worker.rounds.arrive(sentence(2))
    assert worker.space.held
    worker.begin(2)
    worker.expect(2, SPLIT, 1)
    worker.run()
    assert worker.ended() == [(2, SPLIT)]


@pytest.mark.parametrize("begins", [True, False], ids=["running", "not begun"])
def test_an_abort_drops_what_has_arrived_and_what_arrives_late(worker: Worker, begins: bool) -> None:
    if begins:
        worker.begin(1)
    worker.rounds.arrive(sentence(1))
    worker.rounds.obey(Frame(Kind.ABORT, 1))
    assert worker.space.held == 0
    worker.rounds.arrive(sentence(1))
    assert worker.space.held == 0
    worker.expect(1, SPLIT, 0)
    worker.run()
    assert worker.told == []


def test_blobs_of_rounds_that_never_began_here_are_dropped_by_a_later_round(worker: Worker) -> None:
    worker.rounds.arrive(sentence(1))
    worker.begin(2)
    assert worker.space.held == 0
    worker.rounds.arrive(sentence(1))
    assert worker.space.held == 0


def test_more_blobs_than_were_sent_fail_the_round(worker: Worker) -> None:
    worker.begin(1)
    worker.rounds.arrive(sentence(1))
    worker.rounds.arrive(sentence(1, blob=1))
    worker.expect(1, SPLIT, 1)
    worker.run()
    assert worker.lost() == [(1, 0)]
    assert worker.ended() == []
    assert worker.space.held == 0


def test_a_blob_that_is_missing_is_waited_for(worker: Worker) -> None:
    worker.begin(1)
    worker.expect(1, SPLIT, 2)
    worker.rounds.arrive(sentence(1))
    worker.run()
    assert worker.ended() == []
    worker.rounds.arrive(sentence(1, blob=1))
    worker.run()
    assert worker.ended() == [(1, SPLIT)]


def test_nothing_more_is_sent_to_a_worker_in_the_round_that_lost_it(worker: Worker) -> None:
    worker.begin(1)
    worker.rounds.arrive(sentence(1))
    worker.rounds.cannot_reach(1, "gone")
    assert worker.lost() == [(1, 1)]
    worker.expect(1, SPLIT, 1)
    worker.run()
    assert worker.sent == []
    worker.rounds.obey(Frame(Kind.ABORT, 1))
    worker.begin(2)
    worker.rounds.arrive(sentence(2))
    worker.expect(2, SPLIT, 1)
    worker.run()
    assert [frame.round for _, frame in worker.sent] == [2]


@pytest.mark.parametrize("slot", [1, FEED])
def test_a_connection_that_is_lost_between_two_rounds_does_not_keep_the_next_one_from_its_blobs(
    worker: Worker, slot: Slot
) -> None:
    """It failed: the worker counted the blobs of the next rounds as sent, but dropped them, and the run hung."""
    worker.rounds.cannot_reach(slot, "a firewall forgot the connection")
    worker.begin(1)
    worker.rounds.arrive(sentence(1))
    worker.expect(1, SPLIT, 1)
    worker.run()
    assert [frame.round for _, frame in worker.sent] == [1]


def test_the_driver_hears_of_a_lost_connection_although_the_rounds_have_ended_here(worker: Worker) -> None:
    """It failed: what the connection had not carried yet was missing in another worker, which waited for ever."""
    worker.begin(3)
    worker.expect(3, SPLIT, 0)
    worker.expect(3, COUNT, 0)
    worker.run()
    assert worker.ended() == [(3, SPLIT), (3, COUNT)]
    worker.rounds.cannot_reach(1, "gone")
    assert worker.lost() == [(3, 1)]


def test_a_file_of_blobs_that_cannot_be_read_fails_the_round(plan: ExecutionPlan) -> None:
    worker = Worker(plan, most=0)
    worker.begin(1)
    worker.rounds.arrive(sentence(1))
    [current] = worker.rounds._rounds.values()
    file: Any = current._arrivals.inboxes[SPLIT]._file
    file.truncate(3)
    worker.run()
    assert worker.lost() == [(1, 0)]


def test_a_worker_that_was_replaced_is_known_by_its_table(worker: Worker) -> None:
    rounds = worker.rounds
    assert not rounds.is_old(1, 3, 0)
    rounds.obey(Frame(Kind.TABLE, payload=pack([5, [[0, 1, "here", 1], [1, 7, "there", 2]]])))
    assert not rounds.is_old(1, 7, 5)
    assert rounds.is_old(1, 6, 5)
    assert rounds.is_old(1, 6, 4)
    assert not rounds.is_old(1, 8, 6), "it knows a newer table, which this worker gets soon"
    assert not rounds.is_old(FEED, 0, 0)


def test_a_worker_answers_requests(worker: Worker) -> None:
    text = round_to_text(worker.plan, worker.round(4))
    rollback = CheckpointTuple(0, Action.ROLLBACK)
    worker.rounds.obey(Frame(Kind.HANDLE, 4, payload=pickle.dumps((0, rollback, [("count", 0)], text))))
    [answer] = worker.told
    assert (answer.kind, answer.round, answer.payload) == (Kind.ANSWER, 4, pickle.dumps(None))


def test_a_worker_that_stops_drops_what_it_has(worker: Worker) -> None:
    worker.rounds.obey(Frame(Kind.STOP))
    assert worker.rounds.is_stopped
    worker.begin(5)
    worker.rounds.arrive(sentence(5))
    worker.rounds.close()
    assert worker.space.held == 0
