"""The blobs between tasks: tuples, checkpoint barriers and reports. Pure.

A blob travels in an `Envelope`, so that it can pass through the stages in between without being decoded.
"""

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.engine.task.report import TaskReport
from anchorbolt.errors import SerializationError, WaveFailed
from anchorbolt.serialization import pack, unpack

_TUPLES, _BARRIER, _REPORT = range(3)


class Envelope(NamedTuple):
    """A blob on its way: one row of Spark's shuffle."""

    partition: int  # of the next stage
    level: int  # of the receiving task; the driver's is one above the last
    destination: int  # the receiving task's partition within that level
    payload: bytes


@dataclass(frozen=True)
class TuplesMessage:
    """Tuples of one stream, from one attempt of a task to one task."""

    source: TaskKey
    task_id: int  # of the source
    attempt: str
    number: int  # counts the messages from this attempt to this task, from 0
    stream: str
    size: int  # number of tuples
    columns: Sequence[Sequence[Any]]  # one for each field


@dataclass(frozen=True)
class BarrierMessage:
    """The checkpoint tuple PREPARE(txid) from one attempt of a task, behind all tuples that it sent to this task."""

    source: TaskKey
    attempt: str
    txid: int
    sent: int  # number of `TuplesMessage`s before it


@dataclass(frozen=True)
class ReportMessage:
    """A task's report, still pickled."""

    source: TaskKey
    seq: int  # of the round's fence
    pickled: bytes


def encode_tuples(
    source: TaskKey, task_id: int, attempt: str, number: int, stream: str, rows: Sequence[tuple[Any, ...]]
) -> bytes:
    """Encode rows as columns. Raises `UnsupportedValue` where a value cannot be sent."""
    columns = list(map(list, zip(*rows, strict=True)))
    return pack([_TUPLES, source[0], source[1], task_id, attempt, number, stream, len(rows), columns])


def encode_barrier(message: BarrierMessage) -> bytes:
    """Encode a barrier."""
    return pack([_BARRIER, message.source[0], message.source[1], message.attempt, message.txid, message.sent])


def encode_report(report: TaskReport) -> bytes:
    """Encode a report."""
    return pack([_REPORT, report.component, report.index, report.seq, pickle.dumps(report)])


def decode_message(payload: bytes) -> TuplesMessage | BarrierMessage | ReportMessage:
    """Decode a blob. Raises `SerializationError` if it is damaged."""
    try:
        kind, *rest = unpack(payload)
        if kind == _TUPLES:
            component, index, task_id, attempt, number, stream, size, columns = rest
            if any(len(column) != size for column in columns):
                raise SerializationError("the columns of a blob differ in length")
            return TuplesMessage((component, index), task_id, attempt, number, stream, size, columns)
        if kind == _BARRIER:
            component, index, attempt, txid, sent = rest
            return BarrierMessage((component, index), attempt, txid, sent)
        if kind == _REPORT:
            component, index, seq, pickled = rest
            return ReportMessage((component, index), seq, pickled)
    except (TypeError, ValueError) as error:
        raise SerializationError(f"a blob of {len(payload)} bytes cannot be read: {error}") from error
    raise SerializationError(f"a blob of {len(payload)} bytes is of unknown kind {kind!r}")


def reports_in(envelopes: Iterable[Envelope], current: Round) -> list[TaskReport]:
    """Decode the reports that reached the driver.

    Raises `WaveFailed` if another message reached it, or a report of another round, whose attempts are rolled back.
    """
    reports = []
    for envelope in envelopes:
        message = decode_message(envelope.payload)
        if not isinstance(message, ReportMessage):
            raise WaveFailed(f"a {type(message).__name__} reached the driver", txid=current.txid)
        if message.seq != current.fence.seq:
            raise WaveFailed(
                f"the report of task {message.source} is of round {message.seq}, but round {current.fence.seq} is "
                f"running in txid {current.txid}: Spark used what an earlier round had shuffled",
                txid=current.txid,
            )
        report: TaskReport = pickle.loads(message.pickled)  # noqa: S301 - made by a task of this run
        reports.append(report)
    return reports
