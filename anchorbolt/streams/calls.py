"""When and on which thread a component may call its collector; see docs/decisions/calls-outside-execute.md.

A forbidden call raises at the call itself.
"""

import logging
import threading
from collections.abc import Callable
from threading import get_ident
from typing import Any

from anchorbolt.errors import CollectorClosed

_log = logging.getLogger("anchorbolt.streams")

OF_BOLT = (
    "Call it only in execute, init_state, pre_prepare and finish_batch, or in the methods of an emitter that get it, "
    "on the thread that runs these. If other threads do the work, wait for their futures before the method returns. Or "
    "keep the tuple, or its handle in the state, and ack it in a later execute, such as that of a tick tuple."
)
OF_SPOUT = (
    "Call it only in the spout's methods, on the thread that runs these. If a client library calls back on a thread of "
    "its own, have it put what arrives into a queue.Queue, and emit that in next_tuple."
)

_OURS = "anchorbolt-"  # prefix of the names of our own threads


class Calls:
    """The calls of one instance to its collector. They are allowed on the thread that created this object."""

    def __init__(self, component: str, advice: str = OF_BOLT) -> None:
        self._component = component
        self._advice = advice
        self._thread: int | None = get_ident()  # the thread that may call now; None if no thread may
        self._told = False

    def allow(self) -> None:
        """Allow calls on this thread, until `refuse`."""
        self._thread = get_ident()

    def refuse(self) -> None:
        """Refuse calls on any thread."""
        self._thread = None

    def check(self, call: str) -> None:
        """Raise `CollectorClosed` if this call must not be made now on this thread. Logs the first refusal."""
        if self._thread != get_ident():
            raise self.refusal(call)

    def refusal(self, call: str) -> CollectorClosed:
        """Return the error for a forbidden call. Logs the first refusal: a thread may hide its exceptions."""
        when = "outside of its time, " if self._thread is None else ""
        error = CollectorClosed(
            f"component {self._component!r} called collector.{call} {when}on the thread "
            f"{threading.current_thread().name!r}: this call has no effect. {self._advice}",
            component=self._component,
            call=call,
        )
        if not self._told:
            self._told = True
            _log.error("%s", error, extra={"component": self._component})
        return error


class Buffer(list[Any]):
    """The tuples that a bolt has emitted to one stream: the last ones as rows, the ones before in columns.

    Rows are lists or tuples of values; those of a direct stream are `(task id, values)`.
    """

    __slots__ = ("bytes", "capacity", "columns", "items", "size", "tasks", "wanted")

    def __init__(self, fields: int, capacity: int, wanted: int) -> None:
        super().__init__()
        self.capacity = capacity  # rows until the collector looks at the buffer; 0 in a round that checks each emit
        self.wanted = wanted  # tuples until it is sent
        self.empty(fields)

    def empty(self, fields: int) -> None:
        """Forget all tuples."""
        self.clear()
        self.columns: list[list[Any]] = [[] for _ in range(fields)]
        self.tasks: list[int] = []  # the task ids of a direct stream, without those of the rows
        self.items: list[Any] = []  # the roots of all tuples, if they are tracked
        self.size = 0  # number of tuples in `columns`
        self.bytes = 0  # about so many bytes of these


Buffers = dict[str, Buffer]


class Gate(Calls):
    """The calls of a bolt, and its buffers of emitted tuples by stream, one set for each of `emit`, `emit_direct`."""

    def __init__(self, component: str, emitted: Buffers, emitted_directly: Buffers) -> None:
        super().__init__(component)
        self.buffers = emitted, emitted_directly
        self.checked_buffers: tuple[Buffers, Buffers] = (
            _CheckedBuffers(self, "emit", emitted),
            _CheckedBuffers(self, "emit_direct", emitted_directly),
        )


class _CheckedBuffers(Buffers):
    """Replaces the buffers of a collector while each of its calls is checked. Always empty."""

    def __init__(self, calls: Calls, call: str, buffers: Buffers) -> None:
        super().__init__()
        self._check: Callable[[str], None] = calls.check
        self._call = call
        self._checked = buffers

    def __missing__(self, stream: str) -> Buffer:
        self._check(self._call)
        return self._checked[stream]


def others_may_call() -> bool:
    """Return whether the process has threads that neither Python nor Anchorbolt started. Takes 1 us."""
    known = threading.main_thread(), threading.current_thread()
    return any(each not in known and not each.name.startswith(_OURS) for each in threading.enumerate())
