"""What becomes of the lines of Java and of Spark's workers with `--log-format json`."""

import io
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from anchorbolt.cli.run.jvm_events import JvmEvents
from anchorbolt.util.event_log import EventHandler

ReadEvents = Callable[[str], list[dict[str, Any]]]

JAVA = """\
26/11/24 06:12:41 WARN HeartbeatReceiver: Removing executor driver
26/11/24 06:12:42 ERROR Utils: Uncaught exception in thread Thread-4
java.io.IOException: No space left
\tat java.base/java.io.FileOutputStream.write(FileOutputStream.java:310)
Caused by: java.lang.IllegalStateException
\t... 12 more
"""
PYTHON = """\
component count reports: ValueError: odd
Traceback (most recent call last):
  File "job.py", line 4, in execute
    raise ValueError("odd")
ValueError: odd

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "job.py", line 6, in execute
KeyError: 'even'
printed by a bolt
"""


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> ReadEvents:
    """Make events of these lines."""

    def read(text: str) -> list[dict[str, Any]]:
        written = io.StringIO()
        handler = EventHandler(written)
        monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
        receiver = JvmEvents()
        for line in text.splitlines(keepends=True):
            receiver.take(line)
        receiver.pause()
        handler.close()
        return [json.loads(line) for line in written.getvalue().splitlines()]

    return read


def test_a_line_of_sparks_log_has_its_level_and_class_and_the_stack_trace_that_follows(events: ReadEvents) -> None:
    removing, uncaught = events(JAVA)
    assert removing["logger"] == uncaught["logger"] == "spark"
    assert (removing["level"], removing["java_class"]) == ("WARNING", "HeartbeatReceiver")
    assert removing["message"] == "Removing executor driver"
    assert (uncaught["level"], uncaught["message"]) == ("ERROR", "Uncaught exception in thread Thread-4")
    assert uncaught["traceback"].splitlines() == JAVA.splitlines()[2:]


def test_a_traceback_of_a_worker_belongs_to_the_line_before_it(events: ReadEvents) -> None:
    reports, printed = events(PYTHON)
    assert reports["message"] == "component count reports: ValueError: odd"
    assert reports["traceback"].splitlines() == [line for line in PYTHON.splitlines()[1:-1] if line]
    assert (printed["level"], printed["message"]) == ("INFO", "printed by a bolt")


def test_a_traceback_without_a_line_before_it_is_an_event(events: ReadEvents) -> None:
    [event] = events("Traceback (most recent call last):\n  File x\nOSError: gone\n")
    assert (event["level"], event["message"]) == ("ERROR", "OSError: gone")


def test_numbers_of_tasks_do_not_make_a_message_of_spark_a_new_one_and_what_is_printed_is_left_alone(
    events: ReadEvents,
) -> None:
    lost = [f"26/11/24 06:12:41 WARN Scheduler: lost task {number}.0\n" for number in range(9)]
    printed = [f"number {number}\n" for number in range(9)]
    shown = events("".join(lost + printed))
    assert [event["message"] for event in shown[:10]] == ["lost task 0.0", *map(str.strip, printed)]
    assert (shown[-1]["message"], shown[-1]["left_out"]) == ("lost task 8.0", 7)


def test_an_event_of_a_worker_stays_as_it_is_and_what_only_looks_like_one_is_a_line(events: ReadEvents) -> None:
    event = {
        "time": "2026-11-26T01:02:03.000004+00:00",
        "level": "WARNING",
        "logger": "anchorbolt.engine",
        "message": "a 100% bolt",
        "component": "count",
        "task": 1,
        "txid": 7,
        "left_out": 2,
        "traceback": "Traceback …",
    }
    assert [dict(each) for each in events(json.dumps(event) + "\n")] == [event]
    for text in ('{"time": 1}', '{"time": "now", "level": "X", "logger": "", "message": ""}', '{"time": 1, '):
        [line] = events(text + "\n")
        assert (line["logger"], line["message"]) == ("spark", text)
