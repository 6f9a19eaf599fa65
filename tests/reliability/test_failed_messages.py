"""How failures of messages are counted, and what a bolt can raise on a message or tuple that becomes a dead letter."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import BaseBasicBolt, FailedException, ReportedFailedException
from anchorbolt.serialization import pack
from anchorbolt.spouts.intake import Chunk
from anchorbolt.testing import FeederSpout
from anchorbolt.tracking.book import FailedMessages
from anchorbolt.tracking.in_flight import InFlight
from anchorbolt.tracking.settlements import FailedMessage, FailedTree, Settlement, failed_trees
from tests.engine.jobs import chain, finished
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, Count, QueueSpout, RichBolt

IN = ("in", 0)


def failed(*msg_ids: Any) -> dict[Any, Settlement]:
    return {IN: Settlement(failed=[FailedMessage(msg_id, "fails", 0, "no") for msg_id in msg_ids])}


def test_a_chunk_is_decoded_once_for_all_its_dead_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = [
        Chunk("default", 3, pack([[f"{name}{number}" for number in range(3)]]), list(range(3)), 0.0)
        for name in ("a", "b")
    ]
    columns, decoded = Chunk.columns, list[Chunk]()
    monkeypatch.setattr(Chunk, "columns", lambda self: decoded.append(self) or columns(self))
    settlement = Settlement(
        failed=[FailedMessage(position, "fails", 0, "no", chunk, position) for chunk in chunks for position in (0, 2)]
    )
    letters = FailedMessages(0, shared=()).bury({IN: settlement})
    assert [letter.values for letter in letters] == [("a0",), ("a2",), ("b0",), ("b2",)]
    assert decoded == chunks


def test_a_report_has_the_first_failures_of_a_wave_with_the_ends_of_long_reasons() -> None:
    messages = [FailedMessage(number, "fails", 1, f"first {'x' * 100_000} last") for number in range(300)]
    reported = failed_trees({("in", None): Settlement(failed=messages)})
    assert reported == tuple(FailedTree("in", number, "fails", 1, reported[0].reason) for number in range(100))
    assert len(reported[0].reason) < 400
    assert (reported[0].reason[:5], reported[0].reason[-4:]) == ("first", "last")


class Fails(RichBolt):
    def execute(self, tup: Any) -> None:
        self.collector.fail(tup)


def test_the_messages_of_a_wave_are_not_looked_through_while_none_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    monkeypatch.setattr(InFlight, "leave_out", lambda self, is_dead: looked.append(is_dead))
    MESSAGES.extend((number, ("a",)) for number in range(5))
    conf = {"topology.dead.letter": lambda letters, txid: None, "topology.max.tuple.retries": 1}
    finished(chain("none-dead", {"in": QueueSpout("word"), "fails": Fails()}), conf)
    assert (sorted(FAILED), sorted(ACKED)) == (list(range(5)), list(range(5)))
    assert looked == []


def check_word(word: str) -> None:
    if word == "reported":
        raise ReportedFailedException(word)
    if word == "failed":
        raise FailedException(word)


class BasicCheck(BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        check_word(tup["word"])


class RichCheck(RichBolt):
    def execute(self, tup: Any) -> None:
        check_word(tup["word"])
        self.collector.ack(tup)


@pytest.mark.parametrize("policy", ["commit", "exclude"])
@pytest.mark.parametrize("bolt", [BasicCheck(), RichCheck()], ids=["basic", "rich"])
def test_a_reported_failure_fails_its_message_and_is_logged_and_counted(
    bolt: Any, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    MESSAGES.extend(enumerate((word,) for word in ("good", "reported", "failed", "good")))
    handle = finished(
        chain("reported", {"in": QueueSpout("word", replay=False), "check_word": bolt}),
        {"topology.fail.policy": policy},
    )
    assert (sorted(ACKED), sorted(FAILED)) == ([0, 3], [1, 2])
    assert sum(report.errors_reported for report in handle.reports) == 1
    [logged] = [record for record in caplog.records if record.name == "anchorbolt.bolts"]
    assert logged.levelno == logging.ERROR
    assert logged.exc_info is not None
    _, error, traceback = logged.exc_info
    assert isinstance(error, ReportedFailedException)
    assert traceback is not None


EXECUTED: list[str] = []  # by `NamesKeys`


@pytest.fixture(autouse=True)
def _forget() -> None:
    EXECUTED.clear()


class Exits(Count):
    def execute(self, tup: Any) -> None:
        if tup["word"] == "bad":
            sys.exit("no more")
        super().execute(tup)


@pytest.mark.parametrize("source", ["feeder", "rich"])
def test_a_tuple_on_which_a_bolt_exits_becomes_a_dead_letter(source: str, tmp_path: Path) -> None:
    letter = run(source, Exits(), tmp_path)
    assert (letter["values"], letter["component"]) == (["bad"], "count")
    assert "SystemExit" in letter["reason"]


class NamesKeys(Count):
    """Cannot say which keys it reads for the word "bad"."""

    def state_keys(self, tup: Any) -> list[Any]:
        if tup["word"] == "bad":
            raise ValueError("no key")
        return [tup["word"]]

    def execute(self, tup: Any) -> None:
        EXECUTED.append(tup["word"])
        super().execute(tup)


class NamesLists(NamesKeys):
    def state_keys(self, tup: Any) -> list[Any]:
        return [["a list"]] if tup["word"] == "bad" else [tup["word"]]


@pytest.mark.parametrize("source", ["feeder", "rich"])
@pytest.mark.parametrize(("bolt", "error"), [(NamesKeys(), "ValueError"), (NamesLists(), "TypeError")])
def test_a_tuple_without_keys_becomes_a_dead_letter(source: str, bolt: Count, error: str, tmp_path: Path) -> None:
    letter = run(source, bolt, tmp_path)
    assert (letter["values"], letter["component"]) == (["bad"], "count")
    assert error in letter["reason"]
    assert set(EXECUTED) == {"a", "b"}


def run(source: str, bolt: Count, folder: Path) -> dict[str, Any]:
    """Run a bolt on three words; check that the others are counted, and return the dead letter of the word "bad"."""
    words = [("a",), ("bad",), ("b",)]
    MESSAGES.extend(enumerate(words))
    spout: Any = QueueSpout("word") if source == "rich" else FeederSpout(["word"], [words])
    conf = {"topology.dead.letter": str(folder / "dead"), "topology.max.tuple.retries": 0}
    handle = finished(chain("isolating", {"in": spout, "count": (bolt, "word")}), conf)
    assert handle.state("count") == {"a": 1, "b": 1}
    assert sorted(ACKED) == ([0, 1, 2] if source == "rich" else [])
    [file] = (folder / "dead").glob("*.jsonl")
    letter: dict[str, Any] = json.loads(file.read_text())
    return letter
