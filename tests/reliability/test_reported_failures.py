"""`ReportedFailedException`: fails one tuple, and reports the error."""

import logging
from typing import Any

import pytest

from anchorbolt.bolts import BaseBasicBolt, FailedException, ReportedFailedException
from tests.engine.jobs import chain, finished
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, QueueSpout, RichBolt


def check(word: str) -> None:
    if word == "reported":
        raise ReportedFailedException(word)
    if word == "failed":
        raise FailedException(word)


class BasicCheck(BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        check(tup["word"])


class RichCheck(RichBolt):
    def execute(self, tup: Any) -> None:
        check(tup["word"])
        self.collector.ack(tup)


@pytest.mark.parametrize("policy", ["commit", "exclude"])
@pytest.mark.parametrize("bolt", [BasicCheck(), RichCheck()], ids=["basic", "rich"])
def test_a_reported_failure_fails_its_message_and_is_logged_and_counted(
    bolt: Any, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    MESSAGES.extend(enumerate((word,) for word in ("good", "reported", "failed", "good")))
    handle = finished(
        chain("reported", {"in": QueueSpout("word", replay=False), "check": bolt}), {"topology.fail.policy": policy}
    )
    assert (sorted(ACKED), sorted(FAILED)) == ([0, 3], [1, 2])
    assert sum(report.errors_reported for report in handle.reports) == 1
    [logged] = [record for record in caplog.records if record.name == "anchorbolt.bolts"]
    assert logged.levelno == logging.ERROR
    assert logged.exc_info is not None
    _, error, traceback = logged.exc_info
    assert isinstance(error, ReportedFailedException)
    assert traceback is not None
