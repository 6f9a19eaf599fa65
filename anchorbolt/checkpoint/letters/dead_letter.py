"""A dead letter, in a decision record and as a line of JSON. Pure."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anchorbolt.serialization import pack, unpack
from anchorbolt.util.messages import counted, last_line, printable, shortened


@dataclass(frozen=True)
class DeadLetter:
    """A tuple of a spout that failed for good, or a batch of a transactional topology (without its tuples)."""

    spout: str  # its id
    stream: str  # empty for a batch
    values: tuple[Any, ...]  # for a batch: its txid and its metadata
    msg_id: Any  # None for a tuple of a stream spout
    component: str  # the bolt that failed it or a descendant, for a batch also the spout; empty if unknown
    task_index: int
    reason: str  # the exception, or another reason
    tries: int  # how often it was tried
    at: float  # when it was left out, in seconds since 1970

    @property
    def cause(self) -> str:
        """The task that failed it, if known, and the last line of the reason."""
        kind = "spout" if self.component == self.spout else "bolt"
        by = f"{kind} {self.component!r}, task {self.task_index}: " if self.component else ""
        return by + last_line(self.reason)

    @property
    def is_batch(self) -> bool:
        """Whether it is a batch of a transactional topology."""
        return not self.stream

    @property
    def content(self) -> str:
        """The lost content in one line: the spout with the values, or the batch with its metadata."""
        if self.is_batch:
            txid, metadata = self.values
            return f"{self.spout}, batch {txid} with the metadata {metadata!r}"
        return f"{self.spout}/{self.stream} {self.values!r}"

    def __str__(self) -> str:
        """Return a text for the log, without the values."""
        what = "a tuple" if self.msg_id is None else f"message {shortened(self.msg_id)}"
        if self.is_batch:
            what = f"batch {self.values[0]}"
        tries = counted(self.tries, "time")
        return f"{what} of spout {self.spout!r} is a dead letter, after it was tried {tries}: {self.cause}"

    def encode(self) -> list[Any]:
        """Return plain values, for the decision record."""
        ids = [self.spout, self.stream, self.values, self.msg_id]
        return [*ids, self.component, self.task_index, self.reason, self.tries, self.at]

    @classmethod
    def decode(cls, content: Sequence[Any]) -> "DeadLetter":
        """Decode the result of `encode`. Raises `TypeError` or `ValueError` if it is damaged."""
        spout, stream, values, msg_id, component, task_index, reason, tries, at = content
        return cls(
            str(spout),
            str(stream),
            tuple(values),
            msg_id,
            str(component),
            int(task_index),
            str(reason),
            int(tries),
            float(at),
        )

    def as_json(self, txid: int) -> str:
        """Return a line of JSON; its field `packed` holds the exact values, for a replay."""
        line = json.dumps(
            {
                "txid": txid,
                "spout": self.spout,
                "stream": self.stream,
                "values": _plain(self.values),
                "message_id": _plain(self.msg_id),
                "component": self.component,
                "task": self.task_index,
                "reason": self.reason,
                "tries": self.tries,
                "at": self.at,
                "packed": base64.b64encode(pack(list(self.values))).decode(),
            },
            ensure_ascii=False,
        )
        return printable(line)  # its escapes are valid in JSON, too

    @classmethod
    def from_json(cls, line: str) -> tuple[int, "DeadLetter"]:
        """Read a line that `as_json` wrote: the txid and the letter. Raises `KeyError`, `TypeError` or `ValueError`."""
        content = json.loads(line)
        values = unpack(base64.b64decode(content["packed"]))
        names = ("spout", "stream", "message_id", "component", "task", "reason", "tries", "at")
        spout, stream, msg_id, *rest = (content[name] for name in names)
        return int(content["txid"]), cls.decode([spout, stream, values, msg_id, *rest])


def _plain(value: Any) -> Any:
    """Convert a value to plain JSON values: readable, but not always exact."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key if isinstance(key, str) else repr(key): _plain(each) for key, each in value.items()}
    return value if value is None or isinstance(value, str | int | float) else repr(value)
