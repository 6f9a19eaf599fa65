"""How failures of messages are counted, and how messages that fail for good become dead letters."""

from typing import Any

import pytest

from anchorbolt.serialization import pack
from anchorbolt.spouts.intake import Chunk
from anchorbolt.tracking.failed_messages import FailedMessages
from anchorbolt.tracking.in_flight import InFlight
from anchorbolt.tracking.settlements import FailedMessage, FailedTree, Settlement, failed_trees
from tests.engine.jobs import chain, finished
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, QueueSpout, RichBolt

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
