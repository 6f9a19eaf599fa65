"""What a line of the history tells of a failure."""

import pytest
from msgspec.structs import replace

from anchorbolt.cli.history import line_of
from anchorbolt.observe.history.records import End, FailedMessage, Letter, Record, Wave

WAVE = Wave(at=0.0, generation=1, txid=4, rounds=3, total_ms=5.0, failed_ms=1200.0)
END = End(at=0.0, generation=1, txid=4, status="FAILED", error="BoltError")
MESSAGE = FailedMessage("in", "7", "b", 1, "ValueError: no", timed_out=False)
LETTER = Letter(0.0, 4, "in", "7", "b", 1, "ValueError: no", "", 1)
RAISED = (
    "Traceback (most recent call last):\n  File \"job.py\", line 3, in execute\nValueError: no\n\nraised by bolt 'b'.\n"
)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (replace(END, failure=RAISED), "BoltError: ValueError: no, raised by bolt 'b'."),
        (replace(END, failure="Redis did not answer.\nMore."), "BoltError: Redis did not answer."),
        (
            replace(WAVE, failures=["ValueError: no"]),
            "3 rounds, all but the last in 1,200 ms, the first failed: ValueError: no",
        ),
        (
            replace(WAVE, dead_letters=1),
            "3 rounds, all but the last in 1,200 ms, to leave out what fails, 1 dead letter",
        ),
        (
            replace(WAVE, rounds=1, failed=5, messages=[MESSAGE]),
            "5 failed messages, the first: bolt 'b', task 1: ValueError: no",
        ),
        (
            replace(WAVE, rounds=1, failed=1, messages=[replace(MESSAGE, reason="timed out", timed_out=True)]),
            "1 failed message, the first: timed out",
        ),
        (
            replace(WAVE, rounds=1, failed=2, dead_letters=1, letters=[LETTER]),
            "2 failed messages and 1 dead letter, the first: bolt 'b', task 1: ValueError: no",
        ),
    ],
)
def test_a_line_tells_why(record: Record, told: str) -> None:
    assert line_of(record).endswith(told)
