"""Collectors, to which a bolt emits. An emit is one list append; full buffers are grouped and encoded in bulk."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anchorbolt.errors import AnchorboltError, TopologyError
from anchorbolt.streams.calls import Gate
from anchorbolt.streams.declaration import DEFAULT_STREAM, StreamDeclaration, not_a_row, wrong_stream, wrong_width
from anchorbolt.streams.tuple import Tuple
from anchorbolt.util.messages import described, shortened
from anchorbolt.util.sizes import estimated_bytes

_log = logging.getLogger("anchorbolt.bolts")

_FIRST_CAPACITY = 512
_FIRST_LOOK, _NEXT_LOOK = 32, 1024  # rows in a buffer until its size is estimated, and at most until the next estimate

FlushRows = Callable[[str, list[tuple[Any, ...]]], int]
CheckRow = Callable[[str, Any], None]
"""Raises the error that sending a row of a stream would raise."""

Anchors = Tuple | bytes | Sequence[Tuple | bytes] | None
"""The anchors of an emit: tuples, or their handles."""


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

    def __init__(
        self,
        component: str,
        streams: Mapping[str, StreamDeclaration],
        flush: FlushRows,
        *,
        must_anchor: bool,
        fail_has_effect: bool = True,
    ) -> None:
        """Called by the engine, never by a job.

        Args:
            component: Id of the emitting component.
            streams: Its declared streams.
            flush: Sends the buffered rows of a stream; returns how many rows to buffer next time. Rows of a direct
                stream are `(task id, values)`.
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
            {name: [] for name, stream in streams.items() if not stream.direct},
            {name: [] for name, stream in streams.items() if stream.direct},
        )
        self._buffers, self._direct = gate.buffers  # or `gate.checked_buffers`
        self.basic: BasicOutputCollector | None = None  # the collector that a basic bolt calls instead
        self._accepted: type[Tuple] | None = self.accepts  # the class that `ack` accepts without a check
        # Rows in the buffer until `_send` is called: 0 in a round that checks each emit.
        self._capacity = dict.fromkeys(streams, _FIRST_LOOK)
        self._wanted = dict.fromkeys(streams, _FIRST_CAPACITY)  # number of rows for the next buffer
        self._estimates: dict[str, tuple[int, int]] = {}  # of buffers: rows, and about how many bytes they have
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
            anchors: The input tuples that this tuple results from, or in a tracked topology their handles. Required in
                a topology with a stateful bolt.
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
        if len(buffer) >= self._capacity[stream]:
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
        if len(buffer) >= self._capacity[stream]:
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

    def _use(self, buffers: tuple[dict[str, list[Any]], dict[str, list[Any]]]) -> None:
        self._buffers, self._direct = buffers
        if self.basic is not None:
            self.basic._buffers = self._buffers

    def flush(self) -> None:
        """Send all buffers. Called by the engine at the end of a wave, never by a job."""
        if self.refused_late is not None:  # the bolt caught the error, and the rows of that buffer are lost
            raise self.refused_late
        for buffers in self._gate.buffers:
            for stream, buffer in buffers.items():
                if buffer:
                    self._send_all(stream, buffer)

    def begin(self, check: CheckRow | None = None) -> None:
        """Start a wave with empty buffers. Called by the engine, never by a job.

        With `check`, each emitted row is checked at once, so that its emit raises the error.
        """
        for buffers in self._gate.buffers:
            for buffer in buffers.values():
                buffer.clear()
        if check is not self._check:  # no work in an ordinary wave
            self._check = check
            self._estimates.update(dict.fromkeys(self._streams, (0, 0)))
        for stream in list(self._estimates):
            self._set_capacity(stream)
        self.refused_late = None
        self.failed_tuple = None
        self.emitted = 0
        self.errors_reported = 0
        self.last_reported = None
        self.failures_reported = 0

    def _send(self, stream: str, buffer: list[Any]) -> None:
        """Send a buffer if it is full. In a round with checks, called after each emit: check that row first."""
        if self._check is not None:
            try:
                self._check_width([buffer[-1][1]] if stream in self._gate.buffers[1] else buffer[-1:], stream)
                self._check(stream, buffer[-1])
            except BaseException:
                self._drop_last(stream, buffer)
                raise
        if len(buffer) >= self._wanted[stream] or self._is_large(stream, buffer):
            self._send_all(stream, buffer)

    def _is_large(self, stream: str, buffer: list[Any]) -> bool:
        """Return whether a buffer has about `most_bytes`; if not, set when to look again."""
        rows, size = self._estimates.get(stream, (0, 0))
        size += estimated_bytes(buffer, rows)
        if size >= self.most_bytes:
            return True
        self._estimates[stream] = len(buffer), size
        if self._check is None:
            self._capacity[stream] = min(self._wanted[stream], len(buffer) + min(3 * len(buffer), _NEXT_LOOK))
        return False

    def _set_capacity(self, stream: str) -> None:
        """Prepare an empty buffer."""
        self._estimates.pop(stream, None)
        self._capacity[stream] = 0 if self._check is not None else min(_FIRST_LOOK, self._wanted[stream])

    def _drop_last(self, stream: str, buffer: list[Any]) -> None:
        buffer.pop()

    def _send_all(self, stream: str, buffer: list[Any]) -> None:
        rows = buffer.copy()
        buffer.clear()
        try:
            self._check_width([row for _, row in rows] if stream in self._gate.buffers[1] else rows, stream)
            self.emitted += len(rows)
            self._wanted[stream] = self._deliver(stream, rows)
        except Exception as error:
            if isinstance(error, AnchorboltError):
                error.found_late = True
            self.refused_late = self.refused_late or error
            raise
        finally:
            self._set_capacity(stream)

    def _check_width(self, values: list[Any], stream: str) -> None:
        width = len(self._streams[stream].fields)
        if set(map(len, values)) != {width}:
            wrong = next(row for row in values if len(row) != width)
            raise self._refusal(wrong_width(wrong, stream, self._streams[stream].fields))

    def _deliver(self, stream: str, rows: list[Any]) -> int:
        return self._flush(stream, rows)

    def _as_tuple(self, values: Sequence[Any], stream: str) -> tuple[Any, ...]:
        if isinstance(values, list | tuple):
            return tuple(values)
        raise self._refusal(not_a_row(values, stream))

    def _check_anchors(self, anchors: object, stream: str) -> None:
        if anchors is None:
            raise self._refusal(
                f"emitted to stream {stream!r} without an anchor. In a topology with a stateful bolt every tuple is "
                "anchored: pass anchors=tup."
            )
        for anchor in anchors if isinstance(anchors, list | tuple) else (anchors,):
            if not isinstance(anchor, Tuple | bytes):
                raise self._refusal(
                    f"emitted to stream {stream!r} with the anchor {shortened(anchor, 120)}, a "
                    f"{type(anchor).__name__}. Pass the input tuple that `execute` got, or a list of such tuples."
                )

    def _not_a_tuple(self, method: str, given: object) -> TopologyError:
        return self._refusal(
            f"called {method}({shortened(given, 120)}), with a {type(given).__name__}. Pass the tuple that `execute` "
            "got."
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
        self._capacity = collector._capacity

    def emit(self, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> None:
        """Emit a tuple. Raises the same errors as `OutputCollector.emit`."""
        collector = self._collector  # repeats the code of `emit`: a call would cost about 60 ns a tuple
        try:
            buffer = self._buffers[stream]
        except KeyError:
            raise collector._undeclared(stream, direct=False) from None
        buffer.append(values if type(values) is tuple else collector._as_tuple(values, stream))
        if len(buffer) >= self._capacity[stream]:
            collector._send(stream, buffer)

    def emit_direct(self, task_id: int, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> None:
        """Emit a tuple to the task with this id, on a stream declared `direct=True`."""
        self._collector.emit_direct(task_id, values, anchors=(), stream=stream)

    def report_error(self, error: BaseException) -> None:
        """Log an error that does not fail the tuple, and count it in the wave's report."""
        self._collector.report_error(error)
