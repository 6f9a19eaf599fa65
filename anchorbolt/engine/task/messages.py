"""The blobs between tasks: tuples, checkpoint barriers and reports. Pure.

A blob travels in an `Envelope`, so that it can pass through the stages in between without being decoded.
"""

import pickle
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.engine.task.report import TaskReport
from anchorbolt.errors import SerializationError, WaveFailed
from anchorbolt.serialization import pack, unpack


class Envelope(NamedTuple):
    """A blob on its way: one row of Spark's shuffle."""

    partition: int  # of the next stage
    level: int  # of the receiving task; the driver's is one above the last
    destination: int  # the receiving task's partition within that level
    payload: bytes


class TuplesMessage(NamedTuple):
    """Tuples of one stream, from one attempt of a task to one task."""

    source: TaskKey
    task_id: int  # of the source
    attempt: str
    number: int  # counts the messages from this attempt to this task, from 0
    stream: str
    size: int  # number of tuples
    columns: Sequence[Sequence[Any]]  # one for each field


class BarrierMessage(NamedTuple):
    """The checkpoint tuple PREPARE(txid) from one attempt of a task, behind all tuples that it sent to this task."""

    source: TaskKey
    attempt: str
    txid: int
    sent: int  # number of `TuplesMessage`s before it


class ReportMessage(NamedTuple):
    """A task's report, still pickled."""

    source: TaskKey
    seq: int  # of the round's fence
    pickled: bytes


Message = TuplesMessage | BarrierMessage | ReportMessage

_KINDS: tuple[type[Message], ...] = (TuplesMessage, BarrierMessage, ReportMessage)


def encode_message(message: Message) -> bytes:
    """Encode a message. Raises `UnsupportedValue` where a value cannot be sent."""
    source, *rest = message
    return pack([_KINDS.index(type(message)), *source, *rest])


def encode_report(report: TaskReport) -> bytes:
    return encode_message(ReportMessage(report.task, report.seq, pickle.dumps(report)))


def decode_message(payload: bytes) -> Message:
    """Decode a blob. Raises `SerializationError` if it is damaged."""
    try:
        kind, component, index, *rest = unpack(payload)
        message: Message = _KINDS[kind]((component, index), *rest)
        if isinstance(message, TuplesMessage) and any(len(column) != message.size for column in message.columns):
            raise ValueError("its columns differ in length")
    except (TypeError, ValueError, IndexError) as error:
        raise SerializationError(f"a blob of {len(payload)} bytes cannot be read: {error}") from error
    return message


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
