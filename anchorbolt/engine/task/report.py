"""The report of a task's attempt, which the task sends to the driver at the end of a round."""

import traceback
from dataclasses import dataclass, field

from anchorbolt import errors
from anchorbolt.checkpoint.forwarder import TaskOutcome
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.errors import AnchorboltError, WaveFailed

_TEXT_LIMIT = 64_000
_KINDS = sorted((getattr(errors, name) for name in errors.__all__), key=lambda kind: len(kind.__mro__), reverse=True)


@dataclass
class TaskReport:
    """The report of one attempt. Pickled from the task to the driver."""

    task: TaskKey
    attempt: str
    seq: int  # of the round's fence
    seen: dict[TaskKey, str] = field(default_factory=dict)  # the attempt of each upstream task that sent here
    tuples_in: int = 0
    tuples_out: int = 0  # all streams together
    bytes_out: int = 0  # bytes of blobs sent
    source_ms: float = 0.0  # time waiting for the source; spouts only
    prepare_ms: float = 0.0  # time staging state or writing an outbox file
    errors_reported: int = 0  # calls of `report_error`
    outcome: TaskOutcome = field(default_factory=TaskOutcome)
    failure: AnchorboltError | None = None  # None if the attempt prepared

    @property
    def component(self) -> str:
        return self.task[0]


def as_failure(error: Exception, txid: int) -> AnchorboltError:
    """Return an exception as an error of our own tree that can be sent to the driver.

    A user's subclass becomes its nearest base of ours, because the driver may not be able to import it. Long texts are
    cut. An exception outside the tree is a fault of Anchorbolt.
    """
    if not isinstance(error, AnchorboltError):
        text = "".join(traceback.format_exception(error))
        error = WaveFailed(
            f"{text}\nin a task of txid {txid}. This is a fault of Anchorbolt; please report it.", txid=txid
        )
    kind: type[AnchorboltError] = next(each for each in _KINDS if isinstance(error, each))
    plain = kind.__new__(kind)
    plain.__dict__.update(
        (name, _bounded(value) if isinstance(value, str) else value)
        for name, value in error.__dict__.items()
        if isinstance(value, str | int | None)
    )
    plain.args = (plain.__dict__["message"],)
    return plain


def _bounded(text: str) -> str:
    return text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT // 2]}\n…\n{text[-_TEXT_LIMIT // 2 :]}"
