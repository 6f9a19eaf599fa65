"""Failures in a history: which records have one, and the fields of dead letters and failed messages. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anchorbolt.checkpoint.current_wave import FailedRound
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.tracking.settlements import FailedTree
from anchorbolt.util.messages import begun, bounded, counted, last_line, shortened

MOST_LETTERS = 100
"""A run keeps at most so many of its dead letters for its page."""

_MOST_ID, _MOST_REASON, _MOST_TRACEBACK = 100, 500, 4000  # characters
_IN_RECORD = 3  # dead letters of one wave
_MESSAGES_IN_RECORD = 5
_HOLDERS_IN_RECORD = 20
_TRACEBACK_IN_RECORD = 1500  # characters

Letter = Mapping[str, Any]
"""A dead letter without its values: `at`, `txid`, `spout`, `message`, `component`, `task`, `reason`, `traceback` and
`tries`. `component` is empty if nobody knows what failed it, and `traceback` is empty if no bolt raised."""

Message = Mapping[str, Any]
"""A message that failed: `spout`, `message` (its id), `component`, `task`, `reason` and `timed_out`. Of one that timed
out, the task is the one that held a tuple of it last; `component` is empty if nobody knows it."""

TimedOut = Mapping[tuple[str, TaskKey], int]
"""Messages that timed out, by their spout and the task that held a tuple of them last."""


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
        "reason": begun(last_line(reason), _MOST_REASON),
        "traceback": bounded(reason, _MOST_TRACEBACK) if "\n" in reason else "",
        "tries": letter.tries,
    }


def letters_in_record(letters: Sequence[Letter]) -> list[Letter]:
    """Return what the record of a wave keeps of its dead letters: the first three, with short tracebacks."""
    return [{**each, "traceback": bounded(each["traceback"], _TRACEBACK_IN_RECORD)} for each in letters[:_IN_RECORD]]


def letters_in(records: Iterable[Mapping[str, Any]]) -> list[Letter]:
    """Return the dead letters that these records of waves have."""
    return [letter for record in records for letter in record.get("letters", ())]


def messages_of(failures: Iterable[FailedTree]) -> list[Message]:
    """Return failed messages in the form in which records and the page have them."""
    return [
        {
            "spout": each.spout,
            "message": each.msg_id[:_MOST_ID] if isinstance(each.msg_id, str) else shortened(each.msg_id, _MOST_ID),
            "component": each.component,
            "task": each.task_index,
            "reason": each.reason,
            "timed_out": each.timed_out,
        }
        for each in failures
    ]


def messages_in_record(failures: Sequence[FailedTree]) -> list[Message]:
    """Return what the record of a wave keeps of its failed messages: the first five."""
    return messages_of(failures[:_MESSAGES_IN_RECORD])


def timed_out_in_record(timed_out: TimedOut) -> list[Mapping[str, Any]]:
    """Return what the record of a wave keeps of who held what timed out: the twenty with most messages."""
    most = sorted(timed_out.items(), key=lambda each: -each[1])[:_HOLDERS_IN_RECORD]
    return [
        {"spout": spout, "component": component, "task": index, "messages": number}
        for (spout, (component, index)), number in most
    ]


def timed_out_in(records: Iterable[Mapping[str, Any]]) -> Counter[tuple[str, TaskKey]]:
    """Return how many messages timed out in the waves of these records."""
    found = Counter[tuple[str, TaskKey]]()
    for record in records:
        for each in record.get("timed_out", ()):
            found[each["spout"], (each["component"], each["task"])] += each["messages"]
    return found


def reasons_in(record: Mapping[str, Any]) -> list[str]:
    """Return why rounds of a wave were run again: the errors, and whether failed messages were to be left out."""
    reasons = [str(each) for each in record.get("failures", ())]
    repeats = record.get("repeats", 0 if reasons else record.get("rounds", 1) - 1)
    if not repeats:
        return reasons
    first = first_failed(record)
    why = f"{counted(repeats, 'round')} run again to leave out failed messages"
    return [*reasons, f"{why}; the first of them: {first}" if first else why]


def first_failed(record: Mapping[str, Any]) -> str:
    """Return who failed the first message or dead letter of a wave, and why; empty if the record does not tell."""
    found = next((each for name in ("messages", "letters") for each in record.get(name, ())), None)
    if found is None:
        return ""
    by = f"bolt {found['component']!r}, task {found['task']}: " if found["component"] else ""
    return f"{'' if found.get('timed_out') else by}{found['reason']}"


def raised_in(rounds: Sequence[FailedRound]) -> Mapping[str, Any] | None:
    """Return what the record of a wave keeps of the first failed round in which a bolt or a spout raised."""
    found = next((each for each in rounds if each.traceback), None)
    if found is None:
        return None
    text = bounded(found.traceback, _TRACEBACK_IN_RECORD)
    return {"component": found.component, "task": found.task_index, "traceback": text}
