"""Short forms of dead letters, failed messages and failed rounds, for the history and the page. Pure."""

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
"""The most dead letters that a run keeps for its page."""

_MOST_ID, _MOST_REASON, _MOST_TRACEBACK = 100, 500, 4000  # characters
_IN_RECORD = 3  # dead letters of one wave
_TRACEBACK_IN_RECORD = 1500  # characters

TimedOut = Mapping[tuple[str, TaskKey], int]
"""Numbers of timed-out messages, by spout and last task that held one of their tuples."""


def letter_of(txid: int, letter: DeadLetter) -> Letter:
    """Return the short form of a dead letter that the wave `txid` has left out."""
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
    """Return the dead letters for the record of a wave: the first three, with short tracebacks."""
    return [
        structs.replace(each, traceback=bounded(each.traceback, _TRACEBACK_IN_RECORD)) for each in letters[:_IN_RECORD]
    ]


def letters_in(records: Iterable[Record]) -> list[Letter]:
    """Return the dead letters in these records."""
    return [letter for record in records if isinstance(record, Wave) for letter in record.letters]


def messages_of(failures: Iterable[FailedTree]) -> list[FailedMessage]:
    """Convert failed messages to the form of records."""
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
    """Return the `most` tasks that held the most timed-out messages."""
    ordered = sorted(timed_out.items(), key=lambda each: -each[1])[:most]
    return [
        Holder(spout=spout, component=component, task=index, messages=number)
        for (spout, (component, index)), number in ordered
    ]


def timed_out_in(records: Iterable[Record]) -> Counter[tuple[str, TaskKey]]:
    """Return the numbers of messages that timed out in these records' waves."""
    found = Counter[tuple[str, TaskKey]]()
    for record in records:
        for each in record.timed_out if isinstance(record, Wave) else ():
            found[each.spout, (each.component, each.task)] += each.messages
    return found


def reasons_in(wave: Wave) -> list[str]:
    """Return the reasons of a wave's repeated rounds: the errors, and the number that left out failed messages."""
    repeats = wave.repeats
    if repeats is None:
        repeats = 0 if wave.failures else wave.rounds - 1
    if not repeats:
        return list(wave.failures)
    first = first_failed(wave)
    why = f"{counted(repeats, 'round')} run again to leave out failed messages"
    return [*wave.failures, f"{why}; the first of them: {first}" if first else why]


def first_failed(wave: Wave) -> str:
    """Return the bolt that failed a wave's first message or dead letter, and the reason; empty if unknown."""
    for message in wave.messages:
        return message.reason if message.timed_out else f"{_by(message)}{message.reason}"
    for letter in wave.letters:
        return f"{_by(letter)}{letter.reason}"
    return ""


def _by(failed: FailedMessage | Letter) -> str:
    return f"bolt {failed.component!r}, task {failed.task}: " if failed.component else ""


def raised_in(rounds: Sequence[FailedRound]) -> Raised | None:
    """Return the first exception of a bolt or a spout in a wave's failed rounds, for its record."""
    found = next((each for each in rounds if each.traceback), None)
    if found is None:
        return None
    text = bounded(found.traceback, _TRACEBACK_IN_RECORD)
    return Raised(component=found.component, task=found.task_index, traceback=text)
