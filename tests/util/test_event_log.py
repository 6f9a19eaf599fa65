"""Events: their fields, and repeats that are counted instead of written."""

import io
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from anchorbolt.util.event_log import BETWEEN_REPEATS_S, EventHandler


class Log:
    """A logger whose only handler writes events to a text, by a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.fields: dict[str, object] = {}
        self._text = io.StringIO()
        self.calls: list[tuple[float, Callable[[], None]]] = []  # that the handler wants to be made later: their times
        self.handler = EventHandler(self._text, lambda: self.fields, clock=lambda: self.now, later=self._later)
        self.logger = logging.Logger("tests.events")  # not below the root, whose handlers are pytest's
        self.logger.addHandler(self.handler)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self.calls.append((self.now + seconds, call))

    def make_call(self) -> None:
        """Let the time of the first call come, and make it."""
        self.now, call = self.calls.pop(0)
        call()

    def events(self) -> list[dict[str, Any]]:
        """Return the events since the last call."""
        lines = self._text.getvalue().splitlines()
        self._text.seek(0)
        self._text.truncate()
        return [json.loads(line) for line in lines]


@pytest.fixture
def log() -> Log:
    return Log()


def test_an_event_has_time_level_logger_message_and_what_is_known(log: Log) -> None:
    log.fields = {"topology": "words", "txid": 1}
    log.logger.warning("task %d\nwaits", 3, extra={"txid": 7, "component": "count", "task": 3})
    [event] = log.events()
    assert list(event)[:4] == ["time", "level", "logger", "message"]
    assert event["time"].endswith("+00:00")
    assert (event["level"], event["logger"]) == ("WARNING", "tests.events")
    assert event["message"] == "task 3\nwaits"
    assert {name: event[name] for name in ("topology", "txid", "component", "task")} == {
        "topology": "words",
        "txid": 7,
        "component": "count",
        "task": 3,
    }


def test_a_traceback_is_a_field(log: Log) -> None:
    try:
        raise ValueError("why")
    except ValueError:
        log.logger.exception("failed")
    [event] = log.events()
    assert event["message"] == "failed"
    assert event["traceback"].startswith("Traceback ")
    assert event["traceback"].endswith("ValueError: why")


def test_what_a_user_adds_replaces_nothing_and_never_breaks_a_line(log: Log) -> None:
    log.logger.warning("a", extra={"time": 1, "level": "none", "logger": "me", "traceback": 2, "own": {1, 2}})
    log.logger.warning("%d is no number", "b\n")
    log.logger.warning("\ud800")
    first, unreadable, surrogate = log.events()
    assert (first["level"], first["logger"], "traceback" in first) == ("WARNING", "tests.events", False)
    assert first["time"] != 1
    assert "is no number" in unreadable["message"]
    assert surrogate["message"] == "\ud800"


def test_repeats_are_counted_and_the_last_of_them_is_written_when_the_time_has_passed(log: Log) -> None:
    for _ in range(5):
        log.logger.warning("again")
        log.logger.warning("again", extra={"component": "other"})
    assert [event.get("component") for event in log.events()] == [None, "other"]
    log.now += BETWEEN_REPEATS_S
    log.handler.sweep()
    assert [event["left_out"] for event in log.events()] == [3, 3], "four were left out, and one of them is written now"
    log.logger.warning("again")
    assert log.events() == [], "the last one was written just now"
    log.now += BETWEEN_REPEATS_S
    log.logger.warning("something else")
    assert [event["message"] for event in log.events()] == ["again", "something else"]
    log.now += BETWEEN_REPEATS_S
    log.logger.warning("again")
    assert [event.get("left_out") for event in log.events()] == [None]


def test_the_counts_are_written_at_the_end(log: Log) -> None:
    for number in range(3):
        try:
            raise ValueError(number)
        except ValueError:
            log.logger.exception("failed")
    log.handler.close()
    first, last = log.events()
    assert first["traceback"].endswith("ValueError: 0")
    assert (last["left_out"], last["traceback"][-13:]) == (1, "ValueError: 2")


def test_only_so_many_messages_are_remembered(log: Log) -> None:
    for number in range(3000):
        log.logger.warning("message %d", number)
    log.logger.warning("message 0")
    assert len(log.events()) == 3001
    log.logger.warning("message 0")
    assert log.events() == []


def test_a_closed_stream_is_ignored() -> None:
    stream = io.StringIO()
    stream.close()
    EventHandler(stream).handle(logging.makeLogRecord({"msg": "a"}))


def test_a_process_that_logs_nothing_more_tells_what_it_left_out(log: Log) -> None:
    log.logger.warning("once")
    assert log.calls == [], "nothing was left out"
    for _ in range(48):
        log.logger.warning("again")
    log.now += 2
    for _ in range(30):
        log.logger.warning("tail")
    assert len(log.events()) == 3
    assert [at for at, _ in log.calls] == [100.0 + BETWEEN_REPEATS_S], "one call is enough"
    log.make_call()
    log.make_call()
    assert [(event["message"], event["left_out"]) for event in log.events()] == [("again", 46), ("tail", 28)]
    assert log.calls == [], "all is told"
    log.logger.warning("again")
    log.make_call()
    assert [event["message"] for event in log.events()] == ["again"]


def test_what_was_left_out_can_be_told_before_it_is_due(log: Log) -> None:
    for _ in range(3):
        log.logger.warning("again")
    log.handler.tell()
    log.handler.tell()
    assert [event.get("left_out") for event in log.events()] == [None, 1]
    log.make_call()
    assert (log.events(), log.calls) == ([], [])


def test_what_is_known_of_a_repeat_is_that_of_its_own_moment(log: Log) -> None:
    for task in (0, 1):
        log.fields = {"component": "count", "task": task, "txid": 4}
        log.logger.warning("again")
        log.logger.warning("again")
    log.fields = {"component": "other", "task": 0, "txid": 5}
    log.handler.tell()
    told = [(event["component"], event["task"], event["txid"]) for event in log.events()]
    assert told == [("count", 0, 4), ("count", 1, 4), ("count", 0, 4), ("count", 1, 4)]
