"""The driver's side of the workers, over real connections to workers that a test plays."""

import select
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any
from unittest.mock import Mock

import pytest

from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.workers import fleet as fleets
from anchorbolt.engine.workers.fleet import Fleet
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.links import Link, Secret, connect
from anchorbolt.engine.workers.worker_rounds import FEED
from anchorbolt.errors import InfrastructureLost, WaveFailed
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.serialization import pack
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.engine.jobs import feeder, word_count

DEADLINE_S = 30.0


class Played:
    """The only worker of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        hello = pack([0, 1, "127.0.0.1", 1, "here", 1])
        self.link = Link(connect(fleet.address, lambda _: hello))
        self._frames: list[Frame] = []

    def next(self) -> Frame:
        while not self._frames:
            assert select.select([self.link.socket], [], [], DEADLINE_S)[0]
            self._frames += self.link.receive()
        return self._frames.pop(0)

    def round(self) -> int:
        """Return the number of the next round that begins."""
        while (frame := self.next()).kind is not Kind.ROUND:
            pass
        return frame.round

    def lose(self, number: int, slot: int) -> None:
        self.link.send(Frame(Kind.LOST, number, payload=pack([slot, "simulated"])))


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setattr(fleets, "_OTHERS_S", 0.01)
    plan = prepare_plan(word_count(feeder()), {}, memory=MemoryStateProvider(), location="nowhere")
    with closing(Fleet([plan], 1, Mock(), "127.0.0.1", "127.0.0.1", Secret(b"s" * 32))) as fleet:
        yield fleet


@pytest.mark.parametrize(
    ("lost", "slot", "fails"),
    [(1, 0, [1]), (2, 0, [2]), (1, 1, [1]), (2, 1, [1, 2]), (7, 1, [1, 2]), (0, FEED, [1, 2])],
    ids=["given up", "given up later", "lost early", "lost in the last one", "lost after a request", "lost spout"],
)
def test_a_lost_connection_fails_all_rounds_that_it_may_have_carried(
    fleet: Fleet, lost: int, slot: int, fails: list[int]
) -> None:
    """It failed: a worker that had done its part of a round could not tell that the connection broke afterwards."""
    worker = Played(fleet)
    with closing(worker.link), ThreadPoolExecutor(2) as pool:
        rounds = {}
        for number in (1, 2):
            rounds[number] = pool.submit(fleet.run, 0, Round(number, Fence(1, number)), {0: []})
            assert worker.round() == number
        worker.lose(lost, slot)
        for number in fails:
            with pytest.raises(InfrastructureLost, match="simulated"):
                rounds[number].result(DEADLINE_S)
        others = [number for number in rounds if number not in fails]
        assert not any(rounds[number].done() for number in others)
        for number in others:
            worker.lose(number, 0)


def test_the_tasks_of_stream_spouts_are_given_up_when_their_round_has_failed(fleet: Fleet) -> None:
    def feed(number: int, table: Any, done: Future[None]) -> Any:
        assert isinstance(done.exception(DEADLINE_S), Exception)
        raise WaveFailed("its job was cancelled", txid=1)

    worker = Played(fleet)
    with closing(worker.link), ThreadPoolExecutor(1) as pool:
        run = pool.submit(fleet.run, 0, Round(1, Fence(1, 1)), {0: []}, feed)
        worker.lose(worker.round(), 0)
        with pytest.raises(InfrastructureLost, match="simulated"):
            run.result(DEADLINE_S)
