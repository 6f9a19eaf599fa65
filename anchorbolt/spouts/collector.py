"""`SpoutOutputCollector`, to which a rich spout emits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from anchorbolt.streams.declaration import DEFAULT_STREAM


class SpoutOutputCollector(ABC):
    """Emits tuples. The engine passes it to a spout's `open`; call it only on the spout's own thread."""

    @abstractmethod
    def emit(self, values: Sequence[Any], msg_id: Any = None, *, stream: str = DEFAULT_STREAM) -> Sequence[int]:
        """Emit a tuple; return the ids of the tasks that it goes to.

        Args:
            values: One value per declared field.
            msg_id: The message's id, which comes back to `ack` or `fail`: a str, int, bytes, or a tuple of these. None
                leaves the tuple untracked: neither is called for it.
            stream: The stream to emit to.

        Raises:
            TopologyError: The stream is not declared, the number of values is wrong, or `msg_id` is not such a value.
        """

    @abstractmethod
    def emit_direct(
        self, task_id: int, values: Sequence[Any], msg_id: Any = None, *, stream: str = DEFAULT_STREAM
    ) -> None:
        """Emit a tuple to the task with this id, on a stream declared `direct=True`. Otherwise like `emit`."""

    @abstractmethod
    def report_error(self, error: BaseException) -> None:
        """Log an error that fails no tuple, and count it in the wave's report."""
