"""The history: its waves and its failures: rounds, messages, dead letters, and runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec import UNSET, structs

from anchorbolt.observe.history.failures import holders_of, raised_in, reasons_in
from anchorbolt.observe.history.records import End, FailedMessage, Raised, Record, Start, Wave
from anchorbolt.ui.answers import FailedEnd, FailedRounds, Failures, Message, TimedOut, Waves
from anchorbolt.ui.model.observation import Observation

_MOST = 100

MOST_WAVES = 300
"""Limit of an answer."""


def failures(seen: Observation) -> Failures:
    """Return the answer of `/api/v1/topology/{id}/failures`, newest first."""
    failed, current = seen.failed_records[::-1], seen.wave
    rounds = [
        _rounds(each.at, each.txid, each.rounds, reasons, each.raised)
        for each in failed
        if isinstance(each, Wave) and (reasons := reasons_in(each))
    ]
    if current is not None and current.failures:
        reasons = [each.reason for each in current.failures]
        at, raised = current.failures[-1].at, raised_in(current.failures)
        rounds.insert(0, _rounds(at, current.txid, current.round, reasons, raised))
    return Failures(
        run=seen.failure,
        rounds=rounds,
        ends=[
            FailedEnd(at=each.at, txid=each.txid, status=each.status, error=each.error, text=each.failure)
            for each in failed
            if isinstance(each, End) and each.failure
        ],
        messages=seen.failed_messages,
        timed_out=[TimedOut(**structs.asdict(each)) for each in holders_of(seen.timed_out, _MOST)],
        letters=seen.letters[::-1],
        dead_letters=seen.dead_letters,
    )


def _rounds(at: float, txid: int, rounds: int, reasons: Sequence[str], raised: Raised | None) -> FailedRounds:
    told = FailedRounds(at=at, txid=txid, rounds=rounds, reasons=reasons)
    return told if raised is None else structs.replace(told, **structs.asdict(raised))


def messages_shown(newest_first: Iterable[tuple[int, Sequence[FailedMessage]]]) -> list[Message]:
    """Return the latest 100 failed messages, given each wave's txid and messages."""
    messages = (
        Message(
            spout=each.spout,
            component=each.component,
            task=each.task,
            reason=each.reason,
            txid=txid,
            message_id=each.message,
            timed_out=each.timed_out,
        )
        for txid, of_wave in newest_first
        for each in of_wave
    )
    return list(islice(messages, _MOST))


def waves(seen: Observation, last: int, *, only_failed: bool = False) -> Waves:
    """Return the answer of `/api/v1/topology/{id}/waves`: the latest records of the history, newest first."""
    records = [each for each in seen.records if not only_failed or each.has_failed]
    return Waves(total=len(records), waves=[_in_list(each) for each in records[-last:][::-1]])


def _in_list(record: Record) -> Record:
    if isinstance(record, Wave):
        return structs.replace(record, tasks=UNSET)
    return structs.replace(record, graph=UNSET) if isinstance(record, Start) else record


def wave(seen: Observation, txid: int) -> Wave | None:
    """Return the answer of `/api/v1/topology/{id}/waves/{txid}`, with its tasks; None if the wave is unknown."""
    waves = (each for each in reversed(seen.records) if isinstance(each, Wave) and each.txid == txid)
    return next(waves, None)
