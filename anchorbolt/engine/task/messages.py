"""The blobs that travel between tasks: batches of tuples, checkpoint barriers and reports. Pure.

A blob goes in a `Row`, which says where to without being opened, so that it can pass through stages in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from anchorbolt.engine.task.round import TaskKey, TaskReport, Wave
from anchorbolt.errors import SerializationError, WaveFailed
from anchorbolt.serialization import pack, unpack

_BATCH, _BARRIER, _REPORT = range(3)


class Row(NamedTuple):
    """A blob on its way.

    Attributes:
        partition: Partition of the next stage that it goes to.
        level: Level of the task that it is for; the driver's is one above the last.
        destination: Partition, within that level, that it is for.
        payload: The blob.
    """

    partition: int
    level: int
    destination: int
    payload: bytes


@dataclass(frozen=True)
class BatchMessage:
    """Tuples of one stream from one attempt of a task, for one task.

    Attributes:
        source: The emitting task.
        task_id: Its task id.
        attempt: Its attempt.
        number: Counts the batches from this attempt to this destination, from 0.
        stream: The stream.
        size: How many tuples.
        columns: One list per field.
    """

    source: TaskKey
    task_id: int
    attempt: str
    number: int
    stream: str
    size: int
    columns: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class BarrierMessage:
    """The checkpoint tuple PREPARE(txid) from one attempt of a task, behind all its batches.

    Attributes:
        source: The sending task.
        attempt: Its attempt.
        txid: The transaction.
        batches: How many batches it sent to this destination.
    """

    source: TaskKey
    attempt: str
    txid: int
    batches: int


def encode_batch(
    source: TaskKey, task_id: int, attempt: str, number: int, stream: str, rows: Sequence[tuple[Any, ...]]
) -> bytes:
    """Encode rows as columns. Raises `UnsupportedValue` where a value cannot be sent."""
    columns = list(map(list, zip(*rows, strict=True)))
    return pack([_BATCH, source[0], source[1], task_id, attempt, number, stream, len(rows), columns])


def encode_barrier(message: BarrierMessage) -> bytes:
    """Encode a barrier."""
    return pack(
        [_BARRIER, message.source[0], message.source[1], message.attempt, message.txid, message.batches]
    )


def encode_report(report: TaskReport) -> bytes:
    """Encode a report."""
    return pack([_REPORT, report.to_content()])


def decode_message(payload: bytes) -> BatchMessage | BarrierMessage | TaskReport:
    """Decode any blob.

    Raises:
        SerializationError: It is none.
    """
    try:
        kind, *rest = unpack(payload)
        if kind == _BATCH:
            component, index, task_id, attempt, number, stream, size, columns = rest
            if any(len(column) != size for column in columns):
                raise SerializationError("a batch's columns differ in length")
            return BatchMessage((component, index), task_id, attempt, number, stream, size, columns)
        if kind == _BARRIER:
            component, index, attempt, txid, batches = rest
            return BarrierMessage((component, index), attempt, txid, batches)
        if kind == _REPORT:
            return TaskReport.from_content(*rest)
    except (TypeError, ValueError) as error:
        raise SerializationError(f"a blob of {len(payload)} bytes cannot be read: {error}") from error
    raise SerializationError(f"a blob of {len(payload)} bytes is of unknown kind {kind!r}")


def reports_in(rows: Iterable[Row], wave: Wave) -> list[TaskReport]:
    """Decode what reached the driver, which is reports and nothing else.

    Raises:
        WaveFailed: Something else did, or a report of another round, whose attempts are rolled back.
    """
    reports = []
    for row in rows:
        message = decode_message(row.payload)
        if not isinstance(message, TaskReport):
            raise WaveFailed(f"a {type(message).__name__} reached the driver", txid=wave.txid)
        if message.seq != wave.fence.seq:
            raise WaveFailed(
                f"the report of task {message.task} is of round {message.seq}, and round {wave.fence.seq} is under way "
                f"in txid {wave.txid}: Spark used what an earlier round had shuffled",
                txid=wave.txid,
            )
        reports.append(message)
    return reports
