"""What a bolt can raise on a tuple that becomes a dead letter."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.testing import FeederSpout
from tests.engine.jobs import chain, finished
from tests.reliability.jobs import ACKED, MESSAGES, Count, QueueSpout

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
