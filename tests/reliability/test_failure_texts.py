"""The text of a failure in a topology without ackers: all its bolts are basic."""

from typing import Any

import pytest

from anchorbolt.bolts import BaseBasicBolt, FailedException
from tests.engine.jobs import chain, finished
from tests.reliability import jobs
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, QueueSpout


class Fails(BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        if not FAILED:
            raise FailedException("begins " + "x" * 60_000 + " ends")


def test_a_long_text_is_cut_in_its_middle(caplog: pytest.LogCaptureFixture) -> None:
    jobs.forget()
    MESSAGES.append((1, ("word",)))
    finished(chain("fails", {"in": QueueSpout("word"), "fails": Fails()}), {})
    assert (FAILED, ACKED) == ([1], [1])
    [text] = [record.getMessage() for record in caplog.records if " of spout 'in' failed" in record.getMessage()]
    assert "FailedException: begins" in text
    assert text.endswith(" ends")
    assert len(text) < 5_000
