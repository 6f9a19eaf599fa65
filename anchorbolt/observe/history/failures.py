"""Failures in a history: what a run keeps of its dead letters, failed messages and failed rounds. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from anchorbolt.checkpoint.current_wave import FailedRound
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.observe.history.records import FailedMessage, Holder, Letter, Raised, Record, Wave
from anchorbolt.tracking.settlements import FailedTree
from anchorbolt.util.messages import begun, bounded, counted, last_line, shortened

MOST_LETTERS = 100
"""A run keeps at most so many of its dead letters for its page."""

_MOST_ID, _MOST_REASON, _MOST_TRACEBACK = 100, 500, 4000  # characters
_IN_RECORD = 3  # dead letters of one wave
_TRACEBACK_IN_RECORD = 1500  # characters

TimedOut = Mapping[tuple[str, TaskKey], int]
"""Messages that timed out, by their spout and the last task that held a tuple of them."""


def letter_of(txid: int, letter: DeadLetter) -> Letter:
    """Return what is kept of a dead letter that the wave `txid` has left out."""
    message = f"batch {letter.values[0]}" if letter.is_batch else ""
    reason = letter.reason.rstrip()
    return Letter(
        at=letter.at,
        txid=txid,
        spout=letter.spout,
        message=message if letter.msg_id is None else shortened(letter.msg_id, _MOST_ID),
        component=letter.component,
        task=letter.task_index,
        reason=begun(last_line(reason), _MOST_REASON),
        traceback=bounded(reason, _MOST_TRACEBACK) if "\n" in reason else "",
        tries=letter.tries,
    )


def letters_in_record(letters: Sequence[Letter]) -> list[Letter]:
    """Return what the record of a wave keeps of its dead letters: the first three, with short tracebacks."""
    return [
        structs.replace(each, traceback=bounded(each.traceback, _TRACEBACK_IN_RECORD)) for each in letters[:_IN_RECORD]
    ]


def letters_in(records: Iterable[Record]) -> list[Letter]:
    """Return the dead letters that these records have."""
    return [letter for record in records if isinstance(record, Wave) for letter in record.letters]


def messages_of(failures: Iterable[FailedTree]) -> list[FailedMessage]:
    """Return failed messages in the form in which records have them."""
    return [
        FailedMessage(
            spout=each.spout,
            message=each.msg_id[:_MOST_ID] if isinstance(each.msg_id, str) else shortened(each.msg_id, _MOST_ID),
            component=each.component,
            task=each.task_index,
            reason=each.reason,
            timed_out=each.timed_out,
        )
        for each in failures
    ]


def holders_of(timed_out: TimedOut, most: int) -> list[Holder]:
    """Return the tasks that held most of the messages which timed out."""
    ordered = sorted(timed_out.items(), key=lambda each: -each[1])[:most]
    return [
        Holder(spout=spout, component=component, task=index, messages=number)
        for (spout, (component, index)), number in ordered
    ]


def timed_out_in(records: Iterable[Record]) -> Counter[tuple[str, TaskKey]]:
    """Return how many messages timed out in the waves of these records."""
    found = Counter[tuple[str, TaskKey]]()
    for record in records:
        for each in record.timed_out if isinstance(record, Wave) else ():
            found[each.spout, (each.component, each.task)] += each.messages
    return found


def reasons_in(wave: Wave) -> list[str]:
    """Return why rounds of a wave were run again: the errors, and whether failed messages were to be left out."""
    repeats = wave.repeats
    if repeats is None:
        repeats = 0 if wave.failures else wave.rounds - 1
    if not repeats:
        return list(wave.failures)
    first = first_failed(wave)
    why = f"{counted(repeats, 'round')} run again to leave out failed messages"
    return [*wave.failures, f"{why}; the first of them: {first}" if first else why]


def first_failed(wave: Wave) -> str:
    """Return who failed the first message or dead letter of a wave, and why; empty if the record does not tell."""
    for message in wave.messages:
        return message.reason if message.timed_out else f"{_by(message)}{message.reason}"
    for letter in wave.letters:
        return f"{_by(letter)}{letter.reason}"
    return ""


def _by(failed: FailedMessage | Letter) -> str:
    return f"bolt {failed.component!r}, task {failed.task}: " if failed.component else ""


def raised_in(rounds: Sequence[FailedRound]) -> Raised | None:
    """Return what the record of a wave keeps of the first failed round in which a bolt or a spout raised."""
    found = next((each for each in rounds if each.traceback), None)
    if found is None:
        return None
    text = bounded(found.traceback, _TRACEBACK_IN_RECORD)
    return Raised(component=found.component, task=found.task_index, traceback=text)
