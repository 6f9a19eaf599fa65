"""What a line of the history tells of a failure."""

from typing import Any

import pytest

from anchorbolt.cli.history import line_of

WAVE = {"kind": "wave", "at": 0.0, "generation": 1, "txid": 4, "rounds": 3, "total_ms": 5.0, "failed_ms": 1200.0}
END = {"kind": "end", "at": 0.0, "generation": 1, "txid": 4, "status": "FAILED", "error": "BoltError"}
MESSAGE = {"component": "b", "task": 1, "reason": "ValueError: no"}
RAISED = (
    "Traceback (most recent call last):\n  File \"job.py\", line 3, in execute\nValueError: no\n\nraised by bolt 'b'.\n"
)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({**END, "failure": RAISED}, "BoltError: ValueError: no, raised by bolt 'b'."),
        ({**END, "failure": "Redis did not answer.\nMore."}, "BoltError: Redis did not answer."),
        (
            {**WAVE, "failures": ["ValueError: no"]},
            "3 rounds, all but the last in 1,200 ms, the first failed: ValueError: no",
        ),
        ({**WAVE, "dead_letters": 1}, "3 rounds, all but the last in 1,200 ms, to leave out what fails, 1 dead letter"),
        (
            {**WAVE, "rounds": 1, "failed": 5, "messages": [{**MESSAGE, "timed_out": False}]},
            "5 failed messages, the first: bolt 'b', task 1: ValueError: no",
        ),
        (
            {**WAVE, "rounds": 1, "failed": 1, "messages": [{**MESSAGE, "reason": "timed out", "timed_out": True}]},
            "1 failed message, the first: timed out",
        ),
        (
            {**WAVE, "rounds": 1, "failed": 2, "dead_letters": 1, "letters": [MESSAGE]},
            "2 failed messages and 1 dead letter, the first: bolt 'b', task 1: ValueError: no",
        ),
    ],
)
def test_a_line_tells_why(record: dict[str, Any], told: str) -> None:
    assert line_of(record).endswith(told)
