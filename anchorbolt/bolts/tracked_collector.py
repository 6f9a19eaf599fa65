"""The collectors of a topology with tracked tuple trees: they keep the acked and failed tuples for the engine."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anchorbolt.bolts.collector import BasicOutputCollector, CheckRow, Flush, OutputCollector
from anchorbolt.state_backends.timed.timers import Timer
from anchorbolt.streams.declaration import DEFAULT_STREAM, StreamDeclaration
from anchorbolt.streams.tuple import ACKED, FAILED, Item, TrackedTuple, Tuple, TupleHandle, receiver_key, union
from anchorbolt.util.messages import shortened

Anchor = TrackedTuple | TupleHandle
_TRACKED = (TrackedTuple, TupleHandle)  # a union makes `isinstance` several times as slow


class TrackedOutputCollector(OutputCollector):
    """Emits, acks and fails tuples of tracked trees. See `OutputCollector`."""

    accepts = TrackedTuple
    _accepted: type[TrackedTuple] | None

    def __init__(
        self,
        component: str,
        streams: Mapping[str, StreamDeclaration],
        flush: Flush,
        *,
        must_anchor: bool,
        task_index: int,
        untracked_fail: bool,
        strict: bool,
        fail_has_effect: bool,
    ) -> None:
        """Called by the engine, never by a job.

        `task_index` is the index of the collector's task. With `untracked_fail`, failing a tuple that belongs to no
        tree fails the wave; otherwise, as in Storm, it has no effect. Unless `strict`, a second ack or fail of a tuple,
        and an anchor that was acked before, are accepted: in an untracked topology, only rounds that isolate failures
        track tuples.
        """
        super().__init__(component, streams, flush, must_anchor=must_anchor, fail_has_effect=fail_has_effect)
        self._receiver = receiver_key(component, task_index)
        self.untracked_fail = untracked_fail
        self._strict = strict
        self.acked: list[Any] = []  # since the engine last read them
        self.failed: list[Anchor] = []
        self.reset: list[Anchor] = []

    def emit(self, values: Sequence[Any], *, anchors: Any = None, stream: str = DEFAULT_STREAM) -> None:
        """Emit a tuple; an anchor may be a handle."""
        roots = anchors.roots if type(anchors) is TrackedTuple and not anchors.status else self._roots(anchors, stream)
        try:
            buffer = self._buffers[stream]
        except KeyError:
            raise self._undeclared(stream, direct=False) from None
        buffer.append(values if type(values) is tuple else self._as_tuple(values, stream))
        buffer.items.append(roots)
        if len(buffer) >= buffer.capacity:
            self._send(stream, buffer)

    def emit_direct(
        self, task_id: int, values: Sequence[Any], *, anchors: Any = None, stream: str = DEFAULT_STREAM
    ) -> None:
        """Emit a tuple to the task with this id; an anchor may be a handle."""
        roots = anchors.roots if type(anchors) is TrackedTuple and not anchors.status else self._roots(anchors, stream)
        self._emit_direct(task_id, values, roots, stream)

    def ack(self, tup: Tuple | bytes) -> None:
        """Ack a tuple, or a handle."""
        if type(tup) is self._accepted and not tup.status and tup._header.receiver == self._receiver:
            tup.status = ACKED
            self.acked.append(tup)
        else:
            self.acked.append(self._settled("ack", tup, ACKED))

    def fail(self, tup: Tuple | bytes) -> None:
        """Fail all trees of a tuple, or of a handle."""
        anchor = self._settled("fail", tup, FAILED)
        if not self.fail_has_effect:
            return
        self.failed.append(anchor)
        if self.untracked_fail and anchor.roots == () and isinstance(tup, Tuple):
            self.failed_tuple = self.failed_tuple or tup

    def reset_timeout(self, tup: Tuple | bytes) -> None:
        """Restart the time-out of all trees of a tuple, or of a handle."""
        self.reset.append(self._settled("reset_timeout", tup, 0))

    def begin(self, check: CheckRow | None = None) -> None:
        super().begin(check)
        self.acked, self.failed, self.reset = [], [], []

    def _emit_direct(self, task_id: int, values: Sequence[Any], roots: Item, stream: str) -> None:
        try:
            buffer = self._direct[stream]
        except KeyError:
            raise self._undeclared(stream, direct=True) from None
        buffer.append((task_id, values if type(values) is tuple else self._as_tuple(values, stream)))
        buffer.items.append(roots)
        if len(buffer) >= buffer.capacity:
            self._send(stream, buffer)

    def _roots(self, anchors: Any, stream: str) -> Item:
        """Return the roots of the anchors. Raises `TopologyError` if one of them is no longer valid as an anchor."""
        if type(anchors) is tuple or type(anchors) is list:
            receiver = self._receiver
            for anchor in anchors:
                if type(anchor) is not TrackedTuple or anchor.status or anchor._header.receiver != receiver:
                    break
            else:
                return union([anchor.roots for anchor in anchors])
        if type(anchors) is Timer:  # no tuple is anchored to
            return ()
        if anchors is not None and not isinstance(anchors, list | tuple):
            anchors = (anchors,)
        if anchors is None and not self._must_anchor:
            return ()
        handles = [self._handle(each) if isinstance(each, bytes) else each for each in anchors or ()]
        self._check_anchors(anchors and [each for each in handles if type(each) is not TupleHandle], stream)
        for anchor in handles if self._strict else ():
            if isinstance(anchor, _TRACKED) and anchor.receiver != self._receiver:
                raise self._refusal(
                    f"emitted to stream {stream!r} with the anchor {shortened(anchor, 120)}, which was sent to another "
                    "task. Anchor to tuples that the task received."
                )
            if isinstance(anchor, TrackedTuple) and anchor.status:
                self._gate.check("emit")
                raise self._refusal(
                    f"emitted to stream {stream!r} with the anchor {anchor!r}, which it has already "
                    f"{_said(anchor.status)}. Emit first, then ack."
                )
        return union(anchor.roots for anchor in handles if isinstance(anchor, _TRACKED))

    def _settled(self, method: str, given: object, status: int) -> Anchor:
        """Return the tuple with this new status. Raises `TopologyError` if it is settled, or of another task."""
        self._gate.check(method)
        anchor = self._handle(given) if isinstance(given, bytes) else given
        if type(anchor) is Tuple:  # of a wave that was not tracked, kept in the state: it belongs to no tree
            return TupleHandle(self._receiver, 0, ())
        if not isinstance(anchor, _TRACKED):
            raise self._not_a_tuple(method, given)
        if anchor.receiver != self._receiver:
            if not self._strict:
                return TupleHandle(self._receiver, 0, ())
            raise self._refusal(
                f"called {method}({shortened(given, 120)}) for a tuple that was sent to another task. Each task acks "
                "and fails the tuples that it received."
            )
        if isinstance(anchor, TrackedTuple):
            if self._strict and anchor.status:
                raise self._refusal(
                    f"called {method}({shortened(given, 120)}), but has already {_said(anchor.status)} that tuple. Ack "
                    "or fail each tuple once."
                )
            anchor.status = status
        return anchor

    def _handle(self, data: bytes) -> TupleHandle:
        handle = TupleHandle.decode(data)
        if handle is None:
            raise self._refusal(f"got {shortened(data, 120)} in place of a tuple, which is not the handle of one.")
        return handle


class TrackedBasicCollector(BasicOutputCollector):
    """Emits tuples that are anchored to the input tuple. See `BasicOutputCollector`.

    Attributes:
        roots: The trees of the input tuple; set by the engine.
    """

    def __init__(self, collector: TrackedOutputCollector) -> None:
        super().__init__(collector)
        self._tracked = collector
        self.roots: Item = ()

    def emit(self, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> None:
        """Emit a tuple."""
        collector = self._tracked
        try:
            buffer = self._buffers[stream]
        except KeyError:
            raise collector._undeclared(stream, direct=False) from None
        buffer.append(values if type(values) is tuple else collector._as_tuple(values, stream))
        buffer.items.append(self.roots)
        if len(buffer) >= buffer.capacity:
            collector._send(stream, buffer)

    def emit_direct(self, task_id: int, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> None:
        """Emit a tuple to the task with this id."""
        self._tracked._emit_direct(task_id, values, self.roots, stream)


def _said(status: int) -> str:
    return "acked" if status == ACKED else "failed"


def roots_of(anchors: Iterable[Anchor]) -> Iterable[int]:
    """Yield the roots of tuples."""
    for anchor in anchors:
        yield from (anchor.roots,) if isinstance(anchor.roots, int) else anchor.roots
