"""The blobs between tasks: tuples, contributions to tuple trees, and reports. Pure.

A blob is sent in an `Envelope`, so that the stages in between pass it on without decoding it.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from anchorbolt import errors
from anchorbolt.checkpoint.ports import Others, Round, TaskKey
from anchorbolt.config.masking import Masking
from anchorbolt.engine.task.executors.wrapped_bolts import TaskOutcome
from anchorbolt.errors import AnchorboltError, SerializationError, WaveFailed
from anchorbolt.metrics.registry import Measured
from anchorbolt.serialization import pack, unpack
from anchorbolt.streams.columns import Column, from_parts, to_parts
from anchorbolt.util.messages import bounded

if TYPE_CHECKING:
    from anchorbolt.engine.plan.execution_plan import ExecutionPlan
    from anchorbolt.tracking.verdict import Failure


_TEXT_LIMIT = 64_000
_REPORTED_LIMIT = 500
_ERRORS = sorted((getattr(errors, name) for name in errors.__all__), key=lambda kind: len(kind.__mro__), reverse=True)
_MASK = (1 << 64) - 1


class Tally(NamedTuple):
    """A number of blobs, and a digest of their senders, the senders' attempts, and their receivers.

    A task's input ends when Spark's shuffle has no more for it. To check that the input was complete, and from the
    winning attempts, the driver compares two sums: of the blobs that all tasks sent to a component, and of the blobs
    that its tasks received.
    """

    blobs: int = 0
    digest: int = 0  # 64 bits; does not depend on the order of the blobs

    def plus(self, other: Tally) -> Tally:
        return Tally(self.blobs + other.blobs, (self.digest + other.digest) & _MASK)


NOTHING = Tally()


def tally(sent: Iterable[tuple[TaskKey, str, TaskKey, int]]) -> Tally:
    """Add up (sending task, its attempt, receiving task, number of blobs); each pair of tasks must appear once."""
    blobs = digest = 0
    for (source, source_index), attempt, (receiver, index), number in sent:
        text = f"{source} {source_index} {attempt} {receiver} {index} {number}"  # ids and attempts contain no blanks
        blobs += number
        digest += int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
    return Tally(blobs, digest & _MASK)


class ReportedError(NamedTuple):
    """An error that a component has reported by `report_error`, or that explains why a round failed."""

    at: float  # seconds since 1970; for a reported error, by the clock of the task's machine
    text: str  # for a reported error, at most 500 characters


@dataclass
class TaskReport:
    """The report of one attempt. Pickled from the task to the driver."""

    task: TaskKey
    attempt: str
    seq: int  # of the round's fence
    received: Tally = NOTHING
    sent: dict[str, Tally] = field(default_factory=dict)  # by receiving component, if it was sent any blob
    tuples_in: int = 0
    tuples_from: dict[tuple[str, str], int] = field(default_factory=dict)  # by source and stream; bolts only
    tuples_out: int = 0  # all streams together
    bytes_out: int = 0  # bytes of blobs sent
    began_at: float = field(default_factory=time)  # in seconds since 1970, by the clock of the task's machine
    ended_at: float = 0.0
    source_ms: float = 0.0  # time waiting for the source; spouts only
    decode_ms: float = 0.0  # time decoding blobs and making tuples; bolts only
    execute_ms: float = 0.0  # time in which a bolt executed tuples, with the reads of its state, and what it sent
    encode_ms: float = 0.0  # time in which emitted tuples were grouped and encoded; of a bolt, part of other times
    aligned_ms: float = 0.0  # from its beginning until a bolt had all its input and PREPARE
    prepare_ms: float = 0.0  # time staging state or writing an outbox file
    stage_ms: float = 0.0  # time in which the store staged updates, also before PREPARE
    seal_ms: float = 0.0  # time in which the store sealed them
    errors_reported: int = 0  # calls of `report_error`
    failures_reported: int = 0  # the part of these for tuples that failed
    error: ReportedError | None = field(default=None, init=False)  # the latest; not sent if None
    tuples_acked: int = 0  # by a bolt in a topology that tracks tuples; including tuples of earlier waves
    tuples_failed: int = 0  # in such a topology; otherwise the tuples that a bolt reported
    changed_attributes: list[str] = field(default_factory=list)  # of the bolt; other instances lack the change
    metrics: Measured = field(default_factory=dict)  # that the component has registered
    outcome: TaskOutcome = field(default_factory=TaskOutcome)
    failure: AnchorboltError | None = None  # None if the attempt prepared
    # Trees that the bolt failed, in a round that isolates, or if no acker reports them.
    failed_trees: list[Failure] = field(default_factory=list)
    left_out: list[tuple[int, str, bytes]] = field(default_factory=list)  # excluded rows: root, stream, packed values
    others: Others | None = None  # tuples of the second half of a `Probe`; None if there are none
    metadata: dict[int, bytes] = field(default_factory=dict)  # of an emitter's task: by partition, packed

    @property
    def component(self) -> str:
        return self.task[0]

    @property
    def busy_ms(self) -> float:
        """The time in which a bolt's task has worked, in ms, without its waits."""
        return self.decode_ms + self.execute_ms + self.prepare_ms


def reported_error(plan: ExecutionPlan, at: float, text: str) -> ReportedError:
    """Return an error to send to the driver."""
    return ReportedError(at, plan.masking.text(text)[:_REPORTED_LIMIT])


def as_failure(error: Exception, txid: int, masking: Masking) -> AnchorboltError:
    """Convert an exception to one of Anchorbolt's errors that can be sent to the driver.

    A user's subclass becomes its nearest base class in Anchorbolt, because the driver may not be able to import it.
    Secrets are masked, then long texts are cut. Any other exception is a fault of Anchorbolt.
    """
    if not isinstance(error, AnchorboltError):
        text = "".join(traceback.format_exception(error))
        error = WaveFailed(
            f"{text}\nin a task of txid {txid}. This is a fault of Anchorbolt; please report it.", txid=txid
        )
    kind: type[AnchorboltError] = next(each for each in _ERRORS if isinstance(error, each))
    plain = kind.__new__(kind)
    plain.__dict__.update(
        (name, bounded(masking.text(value), _TEXT_LIMIT) if isinstance(value, str) else value)
        for name, value in error.__dict__.items()
        if isinstance(value, str | int | None)
    )
    plain.args = (plain.__dict__["message"],)
    return plain


class Envelope(NamedTuple):
    """A blob on its way: one row of Spark's shuffle."""

    partition: int  # of the next stage
    level: int  # of the receiving task; the driver's level follows the last one
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
    columns: Sequence[Column]  # one for each field
    lineage: Any = None  # `Lineage.parts`; None if no tuple is tracked


class ContributionMessage(NamedTuple):
    """The contribution of a task's attempt to the tuple trees of an acker. Sent with PREPARE."""

    source: TaskKey
    attempt: str
    number: int  # see `TuplesMessage`
    contribution: bytes = b""
    moves: bytes = b""  # the open trees that the acker must remove and add, see `moves_to`


class GaveUpMessage(NamedTuple):
    """A task failed. The input of a downstream bolt is incomplete, so the receiver must not prepare."""

    source: TaskKey


class ReportMessage(NamedTuple):
    """A task's report, still pickled."""

    source: TaskKey
    seq: int  # of the round's fence
    pickled: bytes


Message = TuplesMessage | ContributionMessage | GaveUpMessage | ReportMessage

_KINDS: tuple[type[Message], ...] = (TuplesMessage, ContributionMessage, GaveUpMessage, ReportMessage)


def encode_message(message: Message) -> bytes:
    """Encode a message. Raises `UnsupportedValue` if a value cannot be sent."""
    if isinstance(message, TuplesMessage):
        message = message._replace(columns=to_parts(message.columns))
    source, *rest = message
    return pack([_KINDS.index(type(message)), *source, *rest])


def encode_report(report: TaskReport) -> bytes:
    return encode_message(ReportMessage(report.task, report.seq, pickle.dumps(report)))


def decode_message(payload: bytes) -> Message:
    """Decode a blob. Raises `SerializationError` if it is damaged."""
    try:
        kind, component, index, *rest = unpack(payload)
        message: Message = _KINDS[kind]((component, index), *rest)
        if isinstance(message, TuplesMessage):
            message = message._replace(columns=from_parts(message.columns, message.size))
    except (TypeError, ValueError, IndexError) as error:
        raise SerializationError(f"a blob of {len(payload)} bytes cannot be read: {error}") from error
    return message


def reports_in(envelopes: Iterable[Envelope], current: Round) -> list[TaskReport]:
    """Decode the reports that reached the driver.

    Raises `WaveFailed` for any other message, and for a report of another round, which was rolled back.
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
