"""What a history says of failures: which records tell of one, and what is kept of dead letters. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anchorbolt.checkpoint.current_wave import FailedRound
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.util.messages import bounded, last_line, shortened

MOST_LETTERS = 100
"""A run keeps at most so many of its dead letters for its page."""

_MOST_ID, _MOST_REASON, _MOST_TRACEBACK = 100, 500, 4000  # characters
_IN_RECORD = 3  # dead letters of one wave
_TRACEBACK_IN_RECORD = 1500  # characters

Letter = Mapping[str, Any]
"""A dead letter without its values: `at`, `txid`, `spout`, `message`, `component`, `task`, `reason`, `traceback` and
`tries`. `component` is empty if nobody knows what failed it, and `traceback` is empty if no bolt raised."""


def has_failed(record: Mapping[str, Any]) -> bool:
    """Return whether a record tells of a failure.

    A wave does if a round of it was run again, a message of it failed, or a tuple of it became a dead letter. The end
    of a run does if the run failed.
    """
    again = record.get("rounds", 1) > 1
    return again or record.get("status") == "FAILED" or bool(record.get("failed") or record.get("dead_letters"))


def letter_of(txid: int, letter: DeadLetter) -> Letter:
    """Return what is kept of a dead letter that the wave `txid` has left out."""
    message = f"batch {letter.values[0]}" if letter.is_batch else ""
    reason = letter.reason.rstrip()
    return {
        "at": letter.at,
        "txid": txid,
        "spout": letter.spout,
        "message": message if letter.msg_id is None else shortened(letter.msg_id, _MOST_ID),
        "component": letter.component,
        "task": letter.task_index,
        "reason": last_line(reason)[:_MOST_REASON],
        "traceback": bounded(reason, _MOST_TRACEBACK) if "\n" in reason else "",
        "tries": letter.tries,
    }


def letters_in_record(letters: Sequence[Letter]) -> list[Letter]:
    """Return what the record of a wave keeps of its dead letters: the first three, with short tracebacks."""
    return [{**each, "traceback": bounded(each["traceback"], _TRACEBACK_IN_RECORD)} for each in letters[:_IN_RECORD]]


def raised_in(rounds: Sequence[FailedRound]) -> Mapping[str, Any] | None:
    """Return what the record of a wave keeps of the first failed round in which a bolt or a spout raised."""
    found = next((each for each in rounds if each.traceback), None)
    if found is None:
        return None
    text = bounded(found.traceback, _TRACEBACK_IN_RECORD)
    return {"component": found.component, "task": found.task_index, "traceback": text}
