"""Collectors, to which a bolt emits. An emit is one list append; full buffers are grouped and encoded in bulk."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

from anchorbolt.errors import AnchorboltError, TopologyError
from anchorbolt.state_backends.timed.timers import Timer
from anchorbolt.streams.calls import Buffer, Buffers, Gate
from anchorbolt.streams.declaration import DEFAULT_STREAM, StreamDeclaration, not_a_row, wrong_stream, wrong_width
from anchorbolt.streams.tuple import Tuple
from anchorbolt.util.messages import described, shortened
from anchorbolt.util.sizes import estimated_bytes

_log = logging.getLogger("anchorbolt.bolts")

_FIRST_CAPACITY = 512
_FIRST_LOOK, _NEXT_LOOK = 32, 1024  # rows until they are put into columns: at first, and at most

Flush = Callable[[str, Buffer], int]
"""Sends the columns of a buffer; returns how many tuples to buffer next time."""

CheckRow = Callable[[str, Any], None]
"""Raises the error that sending a row of a stream would raise."""


class Untracked:
    """Base class of anchors that belong to no tuple tree, such as a window: its tuples were acked when it kept them."""


Anchor = Tuple | bytes | Timer | Untracked
Anchors = Anchor | Sequence[Anchor] | None
"""The anchors of an emit: tuples, their handles, or what the bolt was called for."""


_FIRST, _SECOND = itemgetter(0), itemgetter(1)

_UNPACKED: dict[int, Callable[[list[Any]], list[Any]]] = {
    1: lambda rows: [value for (value,) in rows],
    2: lambda rows: [value for value, _ in rows],
    3: lambda rows: [value for value, _, _ in rows],
}
"""By the number of fields: return the first value of each row, and check the number of values on the way."""


class OutputCollector:
    """Emits, acks and fails tuples. The engine passes it to a bolt's `prepare`.

    Emitted values are sent when a buffer is full or the wave ends, so do not change them after the emit.

    Call it only in `execute`, `init_state`, `pre_prepare` and `finish_batch`, on the thread that calls these hooks. Any
    other call raises `CollectorClosed`; `report_error` may always be called.
    """

    accepts: type[Tuple] = Tuple
    """The class of the tuples that the task receives."""

    most_bytes = 4 << 20
    """About so many bytes of rows make a buffer full. Set by the engine."""

    unread: Collection[str] = ()
    """The streams that no bolt takes: their tuples are counted only. Set by the engine."""

    has_attempt = False
    """Whether the first field of each stream is for the attempt of a transactional topology."""

    def __init__(
        self,
        component: str,
        streams: Mapping[str, StreamDeclaration],
        flush: Flush,
        *,
        must_anchor: bool,
        fail_has_effect: bool = True,
    ) -> None:
        """Called by the engine, never by a job.

        Args:
            component: Id of the emitting component.
            streams: Its declared streams.
            flush: Sends the buffered tuples of a stream.
            must_anchor: True in a topology with a stateful bolt: an emit without anchors is an error.
            fail_has_effect: Whether a failed tuple fails the wave.
        """
        self._component = component
        self._streams = streams
        self._flush = flush
        self._must_anchor = must_anchor
        self.fail_has_effect = fail_has_effect
        # Python reads attributes slowly from an object with more than 30 attributes, so a `Gate` holds some of them.
        self._gate = gate = Gate(
            component,
            {name: _new_buffer(stream) for name, stream in streams.items() if not stream.direct},
            {name: _new_buffer(stream) for name, stream in streams.items() if stream.direct},
        )
        self._buffers, self._direct = gate.buffers  # or `gate.checked_buffers`
        self.basic: BasicOutputCollector | None = None  # the collector that a basic bolt calls instead
        self._accepted: type[Tuple] | None = self.accepts  # the class that `ack` accepts without a check
        self._check: CheckRow | None = None
        self.refused_late: Exception | None = None  # the error of a refused buffer of this wave; for the engine
        self.failed_tuple: Tuple | None = None  # the first tuple that the bolt failed in this wave; for the engine
        self.emitted = 0
        self.errors_reported = 0
        self.last_reported: tuple[float, str] | None = None  # of this wave: time and text; for the engine
        self.failures_reported = 0  # of these, the errors of failed tuples

    def emit(self, values: Sequence[Any], *, anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        """Emit a tuple.

        Args:
            values: One value per declared field.
            anchors: The input tuples that this tuple results from, or in a tracked topology their handles; in
                `on_timer` the timer. Required in a topology with a stateful bolt.
            stream: The stream to emit to.

        Raises:
            TopologyError: The stream is not declared, a required anchor is missing, or an anchor is not a tuple.

        A wrong number of values, or a value that cannot be sent or grouped by, is detected when the buffer is sent. The
        engine then runs the wave again, and this call raises.
        """
        if type(anchors) is not Tuple and (anchors is not None or self._must_anchor):
            self._check_anchors(anchors, stream)
        try:
            buffer = self._buffers[stream]
        except KeyError:
            raise self._undeclared(stream, direct=False) from None
        buffer.append(values if type(values) is tuple else self._as_tuple(values, stream))
        if len(buffer) >= buffer.capacity:
            self._send(stream, buffer)

    def emit_direct(
        self, task_id: int, values: Sequence[Any], *, anchors: Anchors = None, stream: str = DEFAULT_STREAM
    ) -> None:
        """Emit a tuple to the task with this id, on a stream declared `direct=True`. Otherwise like `emit`."""
        if type(anchors) is not Tuple and (anchors is not None or self._must_anchor):
            self._check_anchors(anchors, stream)
        try:
            buffer = self._direct[stream]
        except KeyError:
            raise self._undeclared(stream, direct=True) from None
        buffer.append((task_id, values if type(values) is tuple else self._as_tuple(values, stream)))
        if len(buffer) >= buffer.capacity:
            self._send(stream, buffer)

    def ack(self, tup: Tuple | bytes) -> None:
        """Acknowledge that a tuple has been processed.

        A spout's message is acked when all tuples that descend from it are acked. `tup` may be the handle of a tuple of
        an earlier wave.

        Raises:
            TopologyError: `tup` is neither a tuple nor a handle. In a tracked topology also if it was acked or failed
                before, or was sent to another task.
        """
        if type(tup) is not self._accepted:
            self._gate.check("ack")
            if not isinstance(tup, bytes | Tuple):
                raise self._not_a_tuple("ack", tup)

    def fail(self, tup: Tuple | bytes) -> None:
        """Report that a tuple could not be processed: the messages that it descends from fail.

        A tuple of a stream spout fails its wave: the engine rolls the wave back and tries again. Raises the same errors
        as `ack`.
        """
        self._gate.check("fail")
        if isinstance(tup, bytes):
            return  # of an earlier wave: without trees it cannot fail any more
        if not isinstance(tup, Tuple):
            raise self._not_a_tuple("fail", tup)
        if self.failed_tuple is None and self.fail_has_effect:
            self.failed_tuple = tup

    def reset_timeout(self, tup: Tuple | bytes) -> None:
        """Restart the time-out of the messages that a tuple descends from. Raises the same errors as `ack`."""
        self._gate.check("reset_timeout")
        if not isinstance(tup, bytes | Tuple):
            raise self._not_a_tuple("reset_timeout", tup)

    @property
    def component(self) -> str:
        """Id of the emitting component."""
        return self._component

    @property
    def streams(self) -> Mapping[str, StreamDeclaration]:
        """The declared streams."""
        return self._streams

    def check_call(self, call: str) -> None:
        """Raise `CollectorClosed` if the bolt must not call now. For collectors of other kinds of bolts."""
        self._gate.check(call)

    def send_block(self, stream: str, buffer: Buffer) -> None:
        """Send tuples that are already in columns. For collectors of other kinds of bolts."""
        self.emitted += buffer.size
        self._flush(stream, buffer)

    def report_error(self, error: BaseException) -> None:
        """Log an error that does not fail the tuple, and count it in the wave's report."""
        self.errors_reported += 1
        text = described(error)
        self.last_reported = time.time(), text
        _log.error(
            "component %s reports: %s", self._component, text, exc_info=error, extra={"component": self._component}
        )

    def open(self, *, checks: bool = True) -> None:
        """Allow the bolt's calls on this thread, until `close`. Called by the engine around each hook, never by a job.

        Without `checks`, a call on another thread is neither detected nor safe, so the process must have no other
        threads.
        """
        self._gate.allow()
        if not checks:
            self._accepted = self.accepts
            self._use(self._gate.buffers)

    def close(self) -> None:
        """Refuse all calls of the bolt until `open`."""
        self._gate.refuse()
        self._accepted = None
        self._use(self._gate.checked_buffers)

    def _use(self, buffers: tuple[Buffers, Buffers]) -> None:
        self._buffers, self._direct = buffers
        if self.basic is not None:
            self.basic._buffers = self._buffers

    def flush(self) -> None:
        """Send all buffers. Called by the engine at the end of a wave, never by a job."""
        if self.refused_late is not None:  # the bolt caught the error, and the tuples of that buffer are lost
            raise self.refused_late
        for buffers in self._gate.buffers:
            for stream, buffer in buffers.items():
                if buffer or buffer.size:
                    self._send_all(stream, buffer)

    def begin(self, check: CheckRow | None = None) -> None:
        """Start a wave with empty buffers. Called by the engine, never by a job.

        With `check`, each emitted row is checked at once, so that its emit raises the error.
        """
        self._check = check
        for buffers in self._gate.buffers:
            for stream, buffer in buffers.items():
                self._empty(stream, buffer)
        self.refused_late = None
        self.failed_tuple = None
        self.emitted = 0
        self.errors_reported = 0
        self.last_reported = None
        self.failures_reported = 0

    def _empty(self, stream: str, buffer: Buffer) -> None:
        buffer.empty(len(self._streams[stream].fields))
        buffer.capacity = 0 if self._check is not None else min(_FIRST_LOOK, buffer.wanted)

    def _send(self, stream: str, buffer: Buffer) -> None:
        """Put the rows of a buffer into its columns, and send it if it is full. In a round with checks, check first."""
        if self._check is not None:
            try:
                self._check_width([buffer[-1][1]] if self._streams[stream].direct else buffer, stream)
                self._check(stream, buffer[-1])
            except BaseException:
                buffer.pop()
                del buffer.items[-1:]
                raise
        try:
            self._put_into_columns(stream, buffer)
        except Exception as error:
            self._refuse(stream, buffer, error)
            raise
        if buffer.size >= buffer.wanted or buffer.bytes >= self.most_bytes:
            self._send_all(stream, buffer)
        elif self._check is None:
            buffer.capacity = min(buffer.wanted - buffer.size, 3 * buffer.size, _NEXT_LOOK)

    def _put_into_columns(self, stream: str, buffer: Buffer) -> None:
        rows: list[Any] = buffer
        if not rows:
            return
        if self._streams[stream].direct:
            buffer.tasks += map(_FIRST, buffer)
            rows = list(map(_SECOND, buffer))
        firsts = self._firsts(rows, stream)
        if stream not in self.unread:
            buffer.bytes += estimated_bytes(rows)
            for position, column in enumerate(buffer.columns):
                column += map(itemgetter(position), rows) if position else firsts
        buffer.size += len(rows)
        buffer.clear()

    def _send_all(self, stream: str, buffer: Buffer) -> None:
        try:
            self._put_into_columns(stream, buffer)
            self.emitted += buffer.size
            buffer.wanted = self._flush(stream, buffer)
        except Exception as error:
            self._refuse(stream, buffer, error)
            raise
        self._empty(stream, buffer)

    def _refuse(self, stream: str, buffer: Buffer, error: Exception) -> None:
        """Note the error of a buffer; its tuples are lost."""
        if isinstance(error, AnchorboltError):
            error.found_late = True
        self.refused_late = self.refused_late or error
        self._empty(stream, buffer)

    def _firsts(self, rows: list[Any], stream: str) -> list[Any]:
        """Return the first value of each row. Raises `TopologyError` if a row has a wrong number of values."""
        unpacked = _UNPACKED.get(len(self._streams[stream].fields))
        if unpacked is not None:
            with suppress(ValueError):
                return unpacked(rows)
        self._check_width(rows, stream)
        return list(map(_FIRST, rows)) if self._streams[stream].fields else []

    def _check_width(self, rows: list[Any], stream: str) -> None:
        width = len(self._streams[stream].fields)
        if set(map(len, rows)) != {width}:
            wrong = next(row for row in rows if len(row) != width)
            raise self._refusal(wrong_width(wrong, stream, self._streams[stream].fields))

    def _as_tuple(self, values: Sequence[Any], stream: str) -> tuple[Any, ...]:
        if isinstance(values, list | tuple):
            return tuple(values)
        raise self._refusal(not_a_row(values, stream))

    def _check_anchors(self, anchors: object, stream: str) -> None:
        if anchors is None:
            raise self._refusal(
                f"emitted to stream {stream!r} without an anchor. In a topology with a stateful bolt every tuple is "
                "anchored: pass what the method got, as in anchors=tup, anchors=timer or anchors=window."
            )
        for anchor in anchors if isinstance(anchors, list | tuple) else (anchors,):
            if not isinstance(anchor, Anchor):
                raise self._refusal(
                    f"emitted to stream {stream!r} with the anchor {shortened(anchor, 120)}, of type "
                    f"{type(anchor).__name__}. Pass the input tuple that `execute` got, or a list of such tuples."
                )

    def _not_a_tuple(self, method: str, given: object) -> TopologyError:
        advice = "Pass the tuple that `execute` got."
        if isinstance(given, Timer | Untracked):
            advice = "A timer or a window needs no ack, and cannot fail: remove the call."
        return self._refusal(
            f"called {method}({shortened(given, 120)}), with a value of type {type(given).__name__}. {advice}"
        )

    def _undeclared(self, stream: str, *, direct: bool) -> TopologyError:
        return self._refusal(wrong_stream(self._streams, stream, "emit_direct" if direct else "emit"))

    def _refusal(self, problem: str) -> TopologyError:
        return TopologyError(f"component {self._component!r} {problem}", component=self._component)


class BasicOutputCollector:
    """Emits tuples that the framework anchors to the input tuple. The engine passes it to a basic bolt's `execute`."""

    def __init__(self, collector: OutputCollector) -> None:
        self._collector = collector
        collector.basic = self
        self._buffers = collector._buffers

    def emit(self, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> None:
        """Emit a tuple. Raises the same errors as `OutputCollector.emit`."""
        # Repeats the code of `emit`: a call would cost about 60 ns a tuple.
        try:
            buffer = self._buffers[stream]
        except KeyError:
            raise self._collector._undeclared(stream, direct=False) from None
        buffer.append(values if type(values) is tuple else self._collector._as_tuple(values, stream))
        if len(buffer) >= buffer.capacity:
            self._collector._send(stream, buffer)

    def emit_direct(self, task_id: int, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> None:
        """Emit a tuple to the task with this id, on a stream declared `direct=True`."""
        self._collector.emit_direct(task_id, values, anchors=(), stream=stream)

    def report_error(self, error: BaseException) -> None:
        """Log an error that does not fail the tuple, and count it in the wave's report."""
        self._collector.report_error(error)


def _new_buffer(stream: StreamDeclaration) -> Buffer:
    return Buffer(len(stream.fields), _FIRST_LOOK, _FIRST_CAPACITY)
