"""What went wrong in a run, over the REST API: dead letters, failed rounds and messages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert, structs

from anchorbolt.bolts import FailedException
from anchorbolt.config import load_conf
from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.files import open_folder
from anchorbolt.observe.history.records import Holder, Wave
from anchorbolt.observe.history.segments import read_history
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.ui import UiServer
from anchorbolt.ui.answers import Failures, TimedOut
from anchorbolt.ui.model.history import failures
from anchorbolt.ui.model.recorded import observed
from tests.engine.jobs import one_bolt
from tests.reliability import jobs
from tests.reliability.jobs import MESSAGES, AllAtOnce, Count, QueueSpout, RichBolt
from tests.ui.conftest import CANARY, DEADLINE_S, Client

POISONED = "/api/v1/topology/poisoned/failures"


@pytest.fixture(autouse=True)
def _no_messages() -> Iterator[None]:
    jobs.forget()
    yield
    jobs.forget()


class Checks(RichBolt):
    def execute(self, tup: Any) -> None:
        if tup["word"] == "poison":
            self.refuse(tup["word"])
        self.collector.ack(tup)

    def refuse(self, word: str) -> None:
        raise ValueError(f"<b>{word}</b> for {CANARY}")


def poisoned(location: Path, messages: int = 1) -> RunHandle:
    """A run that has left out so many messages as dead letters."""
    MESSAGES.extend([(0, ("fine",)), *((number, ("poison",)) for number in range(1, messages + 1))])
    builder = TopologyBuilder()
    builder.set_spout("in", QueueSpout("word"))
    builder.set_bolt("checks", Checks(), 2).shuffle_grouping("in")
    conf = {
        "topology.state.provider": "memory",
        "topology.checkpoint.location": str(location / "checkpoint"),
        "topology.dead.letter": str(location / "dead"),
        "topology.dead.letter.max.per.wave": 1000,
        "topology.max.tuple.retries": 0,
        "my.api.token": CANARY,
    }
    handle = LocalCluster().submit(builder.create_topology("poisoned"), conf)
    assert handle.await_termination(DEADLINE_S)
    return handle


def history_at(location: Path) -> UiServer:
    folder = open_folder(str(location / "checkpoint"))
    settings = load_conf({"topology.ui.port": 0, "my.api.token": CANARY}).settings
    return UiServer.of_history(folder.location, lambda: read_history(folder), settings)


def check_letter(answer: Any) -> None:
    """Check the answer of a run with one dead letter."""
    convert(answer, Failures)
    assert answer["deadLetters"] == 1
    (letter,) = answer["letters"]
    assert (letter["spout"], letter["message"], letter["component"], letter["tries"]) == ("in", "1", "checks", 1)
    assert letter["task"] in (0, 1)
    assert letter["reason"] == "ValueError: <b>poison</b> for ***"
    assert "in refuse" in letter["traceback"]
    assert CANARY not in str(answer)


def test_a_dead_letter_is_shown_with_its_traceback(server: UiServer, client: Client, tmp_path: Path) -> None:
    server.show(poisoned(tmp_path))
    check_letter(client.json(POISONED))


def test_a_dead_letter_of_an_ended_run_is_shown_from_its_history(tmp_path: Path) -> None:
    poisoned(tmp_path)
    server = history_at(tmp_path)
    try:
        answer = Client(server.address).json(POISONED)
        (letter,) = answer["letters"]
        assert (letter["component"], letter["message"], answer["deadLetters"]) == ("checks", "1", 1)
        assert "in refuse" in letter["traceback"]
    finally:
        server.close()


def test_a_run_keeps_its_latest_hundred_dead_letters_and_counts_all(tmp_path: Path) -> None:
    handle = poisoned(tmp_path, messages=130)
    assert len(handle.observe().dead_letters) == 100
    assert handle.observe().figures.dead_letters == 130
    assert max(len(each.traceback) for each in handle.observe().dead_letters) < 4100
    kept = [record.letters for record in handle.observe().records if isinstance(record, Wave)]
    assert max(map(len, kept)) <= 3


def test_a_failed_round_is_shown_with_the_task_and_its_traceback(
    server: UiServer, client: Client, ended: RunHandle
) -> None:
    server.show(ended)
    (failed,) = client.json("/api/v1/topology/words/failures")["rounds"]
    assert (failed["txid"], failed["rounds"], failed["component"]) == (1, 2, "count")
    assert "raise ValueError(f" in failed["traceback"]


class RaisesThenWaits(RichBolt):
    rounds = 0
    entered, leave = threading.Event(), threading.Event()

    def execute(self, tup: Any) -> None:
        RaisesThenWaits.rounds += 1
        if RaisesThenWaits.rounds == 1:
            raise ValueError("in the first round")
        self.entered.set()
        assert self.leave.wait(DEADLINE_S)


def test_a_failed_round_of_the_wave_that_runs_is_shown_at_once(server: UiServer, client: Client) -> None:
    topology = one_bolt(RaisesThenWaits(), FeederSpout(["number"], [[(1,)]]))
    handle = LocalCluster().submit(topology, {"topology.state.provider": "memory"})
    server.show(handle)
    assert RaisesThenWaits.entered.wait(DEADLINE_S)
    try:
        answer = client.json(f"/api/v1/topology/{topology.name}/failures")
    finally:
        RaisesThenWaits.leave.set()
    convert(answer, Failures)
    (failed,) = answer["rounds"]
    assert (failed["txid"], failed["rounds"], failed["component"]) == (0, 2, "bolt")
    assert "ValueError" in failed["reasons"][0]
    assert "raise ValueError(" in failed["traceback"]
    assert handle.await_termination(DEADLINE_S)


class FailsBad(Count):
    """Keeps words, and fails the word `bad`; so its topology runs a wave again without what failed."""

    def execute(self, tup: Any) -> None:
        if tup["word"] == "bad":
            raise FailedException(f"not with {CANARY}")
        super().execute(tup)


def failing(location: Path) -> RunHandle:
    """A run of one wave, which was run again without two failed messages."""
    MESSAGES.extend([(1, ("fine",)), ("two", ("bad",)), (3, ("bad",))])
    builder = TopologyBuilder()
    builder.set_spout("in", AllAtOnce("word", replay=False))
    builder.set_bolt("fails", FailsBad()).fields_grouping("in", "word")
    conf = {
        "topology.state.provider": "memory",
        "topology.checkpoint.location": str(location / "checkpoint"),
        "my.api.token": CANARY,
    }
    handle = LocalCluster().submit(builder.create_topology("failing"), conf)
    assert handle.await_termination(DEADLINE_S)
    return handle


def check_failed(answer: Any) -> None:
    convert(answer, Failures)
    assert CANARY not in str(answer)
    shown = sorted((each["messageId"], each["component"], each["task"], each["reason"]) for each in answer["messages"])
    reason = "FailedException: not with ***"
    assert shown == [("3", "fails", 0, reason), ("two", "fails", 0, reason)]
    [repeated] = answer["rounds"]
    assert (repeated["txid"], repeated["rounds"]) == (0, 2)
    [why] = repeated["reasons"]
    assert why.startswith("1 round run again to leave out failed messages")
    assert "bolt 'fails', task 0" in why


def test_a_wave_that_was_run_again_without_failed_messages_is_among_the_rounds(
    server: UiServer, client: Client, tmp_path: Path
) -> None:
    server.show(failing(tmp_path))
    check_failed(client.json("/api/v1/topology/failing/failures"))


def test_failed_messages_are_shown_from_the_history_with_their_reasons(tmp_path: Path) -> None:
    failing(tmp_path)
    server = history_at(tmp_path)
    try:
        check_failed(Client(server.address).json("/api/v1/topology/failing/failures"))
    finally:
        server.close()


def test_who_held_what_timed_out_is_shown_from_the_history() -> None:
    held = Holder(spout="in", component="keeps", task=1, messages=2)
    wave = Wave(at=1.0, generation=1, txid=0, failed=2, timed_out=[held])
    shown = failures(observed([wave, structs.replace(wave, txid=1)], "somewhere"))
    assert shown.timed_out == [TimedOut(spout="in", component="keeps", task=1, messages=4)]
