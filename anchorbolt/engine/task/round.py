"""What a driver tells the tasks of a wave, and what they tell it back. Plain data that crosses processes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from anchorbolt import errors
from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.decision import Committed
from anchorbolt.errors import AnchorboltError, SerializationError
from anchorbolt.serialization import pack, unpack
from anchorbolt.state_backends.contract import Fence, Seal

_TEXT_LIMIT = 64_000

TaskKey = tuple[str, int]
"""A task: its component's id and its index; for a stream spout, the index of the source's partition."""


@dataclass(frozen=True)
class Wave:
    """One round of a wave, as its tasks see it.

    Attributes:
        txid: The transaction.
        fence: The fence of this round.
        committed: For each namespace ever changed, where it stands.
        previous: For each bolt task the attempt that won the directly preceding wave.
    """

    txid: int
    fence: Fence
    committed: Mapping[str, Committed] = field(default_factory=dict)
    previous: Mapping[TaskKey, str] = field(default_factory=dict)

    def to_text(self) -> str:
        """Encode as ASCII text."""
        content = [
            self.txid,
            list(self.fence),
            {name: [at.txid, at.attempt] for name, at in self.committed.items()},
            [[component, index, attempt] for (component, index), attempt in self.previous.items()],
        ]
        return base64.b64encode(pack(content)).decode()

    @classmethod
    def from_text(cls, text: str) -> Wave:
        """Decode what `to_text` encoded."""
        txid, (generation, seq), committed, previous = unpack(base64.b64decode(text))
        return cls(
            txid,
            Fence(generation, seq),
            {name: Committed(at, attempt) for name, (at, attempt) in committed.items()},
            {(component, index): attempt for component, index, attempt in previous},
        )


@dataclass
class TaskReport:
    """What one attempt of a task did in a round; the last thing it sends, to the driver.

    Attributes:
        component: Id of the component.
        index: Index of the task, or of the source's partition.
        attempt: Id of this attempt.
        seq: `seq` of the round's fence.
        seen: The attempt of each upstream task that it received from.
        tuples_in: Tuples executed.
        tuples_out: Tuples emitted, all streams together.
        bytes_out: Bytes of blobs sent.
        keys_read: Keys asked of the store.
        keys_staged: Updates staged.
        source_ms: Time waiting for the source, in ms; spouts only.
        prepare_ms: Time staging state or writing an outbox file, in ms.
        errors_reported: Calls of `report_error`.
        base: Committed txid that the staged updates are based on.
        seal: What was staged; None where the state did not change.
        sink: The outbox file; None where there is none.
        failure: What went wrong; None where the attempt prepared.
    """

    component: str
    index: int
    attempt: str
    seq: int
    seen: dict[TaskKey, str] = field(default_factory=dict)
    tuples_in: int = 0
    tuples_out: int = 0
    bytes_out: int = 0
    keys_read: int = 0
    keys_staged: int = 0
    source_ms: float = 0.0
    prepare_ms: float = 0.0
    errors_reported: int = 0
    base: int = -1
    seal: Seal | None = None
    sink: SinkFile | None = None
    failure: AnchorboltError | None = None

    @property
    def task(self) -> TaskKey:
        """The task."""
        return (self.component, self.index)

    def to_content(self) -> dict[str, Any]:
        """Return plain values for `serialization.pack`."""
        content = dict(self.__dict__)
        content["seen"] = [[component, index, attempt] for (component, index), attempt in self.seen.items()]
        content["seal"] = None if self.seal is None else list(self.seal)
        content["sink"] = None if self.sink is None else asdict(self.sink)
        content["failure"] = None if self.failure is None else _error_content(self.failure)
        return content

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> TaskReport:
        """Rebuild a report. Raises `SerializationError` where the values are no report."""
        try:
            values = dict(content)
            values["seen"] = {(component, index): attempt for component, index, attempt in values["seen"]}
            values["seal"] = None if values["seal"] is None else Seal(*values["seal"])
            values["sink"] = None if values["sink"] is None else SinkFile(**values["sink"])
            values["failure"] = None if values["failure"] is None else _error_from(values["failure"])
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise SerializationError(f"a task report cannot be read: {error}") from error


def _error_content(error: AnchorboltError) -> list[Any]:
    plain = {
        name: _sendable(value) if isinstance(value, str) else value
        for name, value in error.__dict__.items()
        if isinstance(value, str | int | None)
    }
    return [type(error).__name__, _sendable(error.message), plain]


def _sendable(text: str) -> str:
    """Return text without lone surrogates, which a user's exception may hold, and of a bounded length."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT // 2]}\n…\n{text[-_TEXT_LIMIT // 2 :]}"


def _error_from(content: list[Any]) -> AnchorboltError:
    name, message, attributes = content
    kind = getattr(errors, name) if name in errors.__all__ else AnchorboltError
    error: AnchorboltError = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(attributes)
    return error
