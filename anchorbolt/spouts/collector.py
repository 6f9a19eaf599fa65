"""`SpoutOutputCollector`, to which a rich spout emits. An emit appends to the intake of the next wave."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from threading import get_ident
from typing import Any

from anchorbolt.errors import SerializationError, TopologyError, UnsupportedValue
from anchorbolt.serialization import pack, unpack
from anchorbolt.serialization.msgpack_values import refused_value
from anchorbolt.spouts.intake import Chunk, Routes, StreamIntake, TaskIds
from anchorbolt.streams.calls import OF_SPOUT, Calls
from anchorbolt.streams.declaration import DEFAULT_STREAM, StreamDeclaration, not_a_row, wrong_stream, wrong_width
from anchorbolt.util.messages import described, shortened

_log = logging.getLogger("anchorbolt.spouts")


class SpoutOutputCollector:
    """Emits tuples. The engine passes it to a spout's `open`.

    Emit only in the spout's methods: on another thread, and after `close`, an emit raises `CollectorClosed`.
    """

    def __init__(
        self,
        component: str,
        streams: Mapping[str, StreamDeclaration],
        new_routes: Callable[[str], Routes],
        receivers: Mapping[str, Collection[int]],
        *,
        chunk_bytes: int,
        clock: Callable[[], float],
        is_known: Callable[[Any], bool] | None = None,
    ) -> None:
        """Called by the engine, never by a job.

        Args:
            component: Id of the spout.
            streams: Its declared streams.
            new_routes: Returns the routes of a stream as they are at the start of each wave.
            receivers: By stream, the ids of all tasks that receive it.
            chunk_bytes: About how many bytes of tuples are encoded together.
            clock: Returns seconds, for the times of emits.
            is_known: Returns whether the message with this id was emitted before, and must be dropped.
        """
        self._component = component
        self._streams = streams
        self._new_routes = new_routes
        self._receivers = receivers
        self._chunk_bytes = chunk_bytes
        self._clock = clock
        self._is_known = is_known
        self._calls = Calls(component, OF_SPOUT)
        self._thread: int | None = get_ident()  # the spout's; None once it is closed
        self._lock = threading.Lock()  # `take` is called on another thread than `emit`
        self._widths = {name: len(stream.fields) for name, stream in streams.items() if not stream.direct}
        self._direct_widths = {name: len(stream.fields) for name, stream in streams.items() if stream.direct}
        self._capacities = dict.fromkeys(streams, 0)
        self._intakes = self._empty()
        self.emitted = 0  # number of tuples
        self.taken = 0  # of these, the tuples that earlier waves took in; the others wait for the next wave
        self.waiting_bytes = 0  # of the waiting tuples that are already encoded
        self.tracked = 0  # of the emitted tuples, those with a message id
        self.dropped = 0  # messages that the source redelivered; not counted in `emitted`
        self.errors_reported = 0  # in total
        self.last_reported: tuple[float, str] | None = None  # time and text; the engine reads it and sets it to None

    def emit(self, values: Sequence[Any], msg_id: Any = None, *, stream: str = DEFAULT_STREAM) -> Sequence[int]:
        """Emit a tuple; return the ids of the tasks that receive it.

        If a source with stable message ids delivers a message again that is in flight or already committed, it is
        dropped. The result is then empty.

        Args:
            values: One value per declared field. Do not change them after the emit.
            msg_id: The message's id: a str, int or bytes, or a tuple of plain values. `ack` or `fail` gets an equal id.
                Two ids are the same if their encodings are equal: `("x", 1)` and `("x", True)` differ. With None the
                tuple is untracked: neither `ack` nor `fail` is called for it.
            stream: The stream to emit to.

        Raises:
            TopologyError: The stream is not declared, the number of values is wrong, or `msg_id` is not hashable, or
                its decoded form would not be equal, such as an id with a NaN.
            UnsupportedValue: A message id cannot be encoded, or a value of this tuple or of an earlier tuple.
        """
        if get_ident() != self._thread:
            raise self._calls.refusal("emit")
        if type(values) is not tuple:
            values = self._as_tuple(values, stream)
        if len(values) != self._widths.get(stream):
            raise self._wrong(values, stream, self._widths, "emit")
        # Repeats the code of `_add`: calling it and its parts would double the cost of an emit.
        if msg_id is not None:
            if type(msg_id) is not int:
                self._check_id(msg_id)
            if self._is_known is not None and self._is_known(msg_id):
                self.dropped += 1
                return ()
            self.tracked += 1
        with self._lock:
            self.emitted += 1
            intake = self._intakes[stream]
            rows = intake.rows
            if not rows:
                intake.begin()
            rows.append(values)
            intake.msg_ids.append(msg_id)
            position = intake.size
            intake.size = position + 1
            if len(rows) >= intake.capacity:
                self._encode_waiting(intake)
        return TaskIds(intake, position)

    def emit_direct(
        self, task_id: int, values: Sequence[Any], msg_id: Any = None, *, stream: str = DEFAULT_STREAM
    ) -> None:
        """Emit a tuple to the task with this id, on a stream declared `direct=True`. Otherwise like `emit`."""
        if get_ident() != self._thread:
            raise self._calls.refusal("emit_direct")
        if type(values) is not tuple:
            values = self._as_tuple(values, stream)
        if len(values) != self._direct_widths.get(stream):
            raise self._wrong(values, stream, self._direct_widths, "emit_direct")
        if task_id not in self._receivers.get(stream, ()):
            raise self._refusal(
                f"emitted directly to task {shortened(task_id)} on stream {stream!r}, which no receiver of the stream "
                "has. Take the id from context.get_component_tasks."
            )
        self._add(stream, (task_id, *values), msg_id)

    def report_error(self, error: BaseException) -> None:
        """Log an error that fails no tuple, and count it in the wave's report."""
        self.errors_reported += 1
        text = described(error)
        self.last_reported = time.time(), text
        _log.error("spout %s reports: %s", self._component, text, exc_info=error, extra={"component": self._component})

    def open(self) -> None:
        """Let the spout emit on this thread only. Called by the engine, never by a job."""
        self._calls.allow()
        self._thread = get_ident()

    def close(self) -> None:
        """Refuse all emits from now on. Called by the engine, never by a job."""
        self._calls.refuse()
        self._thread = None

    @property
    def waiting_since(self) -> float | None:
        """When the first tuple that waits for a wave was emitted; None if no tuple waits.

        For the engine, on any thread.
        """
        return min((intake.since for intake in self._intakes.values() if intake.since is not None), default=None)

    def take(self) -> list[Chunk]:
        """Return the tuples emitted since the last call. For the engine. Raises `UnsupportedValue`."""
        with self._lock:
            taken, self._intakes = self._intakes, self._empty()
            self.taken, self.waiting_bytes = self.emitted, 0
        chunks = []
        for stream, intake in taken.items():
            self._encode(intake)
            self._capacities[stream] = intake.capacity
            chunks += intake.chunks
        return chunks

    def _empty(self) -> dict[str, StreamIntake]:
        return {
            stream: StreamIntake(stream, capacity, self._chunk_bytes, partial(self._new_routes, stream), self._clock)
            for stream, capacity in self._capacities.items()
        }

    def _add(self, stream: str, row: tuple[Any, ...], msg_id: Any) -> None:
        if msg_id is not None:
            self._check_id(msg_id)
            if self._is_known is not None and self._is_known(msg_id):
                self.dropped += 1
                return
            self.tracked += 1
        with self._lock:
            self.emitted += 1
            intake = self._intakes[stream]
            if not intake.rows:
                intake.begin()
            intake.rows.append(row)
            intake.msg_ids.append(msg_id)
            intake.size += 1
            if len(intake.rows) >= intake.capacity:
                self._encode_waiting(intake)

    def _encode_waiting(self, intake: StreamIntake) -> None:
        before = intake.bytes
        self._encode(intake)
        self.waiting_bytes += intake.bytes - before

    def _encode(self, intake: StreamIntake) -> None:
        try:
            intake.pack()
        except UnsupportedValue as error:
            raise self._refused(intake, error) from None

    def _refused(self, intake: StreamIntake, error: UnsupportedValue) -> UnsupportedValue:
        """Return the error for the first tuple that cannot be encoded."""
        declared = self._streams[intake.stream]
        for row, msg_id in zip(intake.rows, intake.msg_ids, strict=True):
            try:
                pack(row)
            except UnsupportedValue:
                columns = [[value] for value in (row[1:] if declared.direct else row)]
                refused = refused_value(f"spout {self._component!r}", intake.stream, declared.fields, columns)
                return UnsupportedValue(
                    f"{refused.message} It is in the tuple with the message id {shortened(msg_id)}."
                )
        return error

    def _check_id(self, msg_id: Any) -> None:
        if type(msg_id) is bytes or (type(msg_id) is str and msg_id.isascii()):
            return
        try:
            hash(msg_id)
            packed = pack(msg_id)
            if type(msg_id) is str or unpack(packed) == msg_id:
                return
            problem = "it is not equal to itself when it comes back to ack or fail"
        except (TypeError, ValueError, ArithmeticError, SerializationError) as error:
            problem = str(error)
        raise self._refusal(
            f"emitted a tuple with the message id {shortened(msg_id)}, of type {type(msg_id).__name__}, which "
            f"cannot be kept ({problem}). Use a str, int, bytes, or a tuple of plain values."
        )

    def _as_tuple(self, values: Sequence[Any], stream: str) -> tuple[Any, ...]:
        if isinstance(values, list | tuple):
            return tuple(values)
        raise self._refusal(not_a_row(values, stream))

    def _wrong(self, values: tuple[Any, ...], stream: str, widths: Mapping[str, int], used: str) -> TopologyError:
        if stream in widths:
            return self._refusal(wrong_width(values, stream, self._streams[stream].fields))
        return self._refusal(wrong_stream(self._streams, stream, used))

    def _refusal(self, problem: str) -> TopologyError:
        return TopologyError(f"spout {self._component!r} {problem}", component=self._component)
