"""Dead letters: tuples that failed for good. They are recorded in the transaction of the wave that leaves them out.

The decision holds them; the driver writes them out in the commit phase, and does so again after a crash.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from anchorbolt.errors import AnchorboltError, BoltError, SinkUnavailable
from anchorbolt.serialization import pack, unpack
from anchorbolt.util.locations import Folder, open_folder
from anchorbolt.util.messages import user_traceback


@dataclass(frozen=True)
class DeadLetter:
    """One tuple of a spout that failed for good."""

    spout: str  # its id
    stream: str
    values: tuple[Any, ...]
    msg_id: Any  # None for a tuple of a stream spout
    component: str  # the bolt that failed it, or a tuple that descends from it; empty if unknown
    task_index: int
    reason: str  # the exception, or what else failed it
    tries: int  # how often it was tried
    at: float  # when it was left out, in seconds since 1970

    def encode(self) -> list[Any]:
        """Return plain values, for the decision record."""
        ids = [self.spout, self.stream, self.values, self.msg_id]
        return [*ids, self.component, self.task_index, self.reason, self.tries, self.at]

    @classmethod
    def decode(cls, content: Sequence[Any]) -> "DeadLetter":
        """Decode what `encode` returned. Raises `TypeError` or `ValueError` if it is damaged."""
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
        """Return a line of JSON; `packed` holds the values in the exact form, for a replay."""
        return json.dumps(
            {
                "txid": txid,
                "spout": self.spout,
                "stream": self.stream,
                "values": self.values,
                "message_id": self.msg_id,
                "component": self.component,
                "task": self.task_index,
                "reason": self.reason,
                "tries": self.tries,
                "at": self.at,
                "packed": base64.b64encode(pack(list(self.values))).decode(),
            },
            ensure_ascii=False,
            default=repr,
        )

    @classmethod
    def from_json(cls, line: str) -> tuple[int, "DeadLetter"]:
        """Read a line that `as_json` wrote: the txid and the letter. Raises `KeyError`, `TypeError` or `ValueError`."""
        content = json.loads(line)
        values = unpack(base64.b64decode(content["packed"]))
        names = ("spout", "stream", "message_id", "component", "task", "reason", "tries", "at")
        spout, stream, msg_id, *rest = (content[name] for name in names)
        return int(content["txid"]), cls.decode([spout, stream, values, msg_id, *rest])


class DeadLetterWriter(Protocol):
    """Writes the dead letters of a wave."""

    def write(self, txid: int, letters: Sequence[DeadLetter]) -> None:
        """Write them; called again with the same arguments after a crash, and then without a second effect."""


class JsonLines:
    """Writes a file of JSON lines for each wave with dead letters: `letters-<txid>.jsonl`."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def write(self, txid: int, letters: Sequence[DeadLetter]) -> None:
        """Write the wave's file. Raises `SinkUnavailable` if it cannot be written."""
        lines = "".join(f"{letter.as_json(txid)}\n" for letter in letters)
        try:
            self._folder.replace(f"letters-{txid:012d}.jsonl", lines.encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise SinkUnavailable(
                f"{len(letters)} dead letters of txid {txid} cannot be written to {self._folder.location}: {error}. "
                "Make room there, or make it writable."
            ) from error


class Function:
    """Passes the dead letters to a function of the user."""

    def __init__(self, function: Callable[[Sequence[DeadLetter], int], None]) -> None:
        self._function = function

    def write(self, txid: int, letters: Sequence[DeadLetter]) -> None:
        """Call the function. Raises `BoltError` if it raises."""
        try:
            self._function(letters, txid)
        except AnchorboltError:
            raise
        except Exception as error:
            text = user_traceback(error)
            raise BoltError(
                f"{text}\n\nraised by the function of topology.dead.letter, for txid {txid}. The wave is decided "
                "and its state committed; the next start calls it again, before anything else.",
                component=letters[0].component,
                task_index=letters[0].task_index,
                user_traceback=text,
            ) from error


LetterFunction = Callable[[Sequence[DeadLetter], int], None]
"""Called with the dead letters of a wave, and its txid."""


def dead_letter_writer(destination: str | LetterFunction | None) -> DeadLetterWriter | None:
    """Return the writer for the value of `topology.dead.letter`; None if it is not set."""
    if destination is None:
        return None
    return JsonLines(open_folder(destination)) if isinstance(destination, str) else Function(destination)
