"""A task of a rich spout: its instance, its emitted tuples, and the acks and fails for its source. Without threads."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.flow_control import FlowControl
from anchorbolt.engine.sources.host import Deliveries
from anchorbolt.engine.task.emitter import new_router
from anchorbolt.engine.task.messages import TaskReport, reported_error
from anchorbolt.errors import AnchorboltError, SpoutError
from anchorbolt.spouts.collector import SpoutOutputCollector
from anchorbolt.spouts.intake import Chunk, Routes
from anchorbolt.tracking.redelivery import Known
from anchorbolt.tracking.settlements import FailedMessage
from anchorbolt.util.messages import user_traceback

_log = logging.getLogger("anchorbolt.engine")


class Step(Enum):
    """The result of a step."""

    EMITTED = "emitted"
    BEGAN = "began"  # emitted the first tuples of the next wave
    EMPTY = "empty"  # `next_tuple` has emitted nothing
    HELD = "held"  # the spout may not emit now


class HostedSpout:
    """One task of a rich spout. One thread makes the calls to the spout: `open`, `step` and `end`."""

    was_lost = False
    keeps_intake = True

    def __init__(self, plan: ExecutionPlan, task: TaskKey, flow: FlowControl, clock: Callable[[], float]) -> None:
        """Make the task; `clock` returns seconds, for the times of its emits."""
        component, _ = task
        self.redelivery: Deliveries | None = None  # of a spout with stable message ids
        self.task = task
        self.tell: Callable[[TaskReport], None] | None = None  # takes the task's metrics, on the spout's thread
        self._tells = False  # whether a wave has committed since the last report
        self._errors_told = 0
        self._plan = plan
        self._context = plan.wiring.context(task)
        self._flow = flow
        self._spout = plan.copy_spout(component)
        self._edges = plan.wiring.edges[component]
        self._collector = SpoutOutputCollector(
            component,
            plan.wiring.streams[component],
            self._routes,
            {
                stream: {id for edge in edges for id in plan.wiring.task_ids[edge.component]}
                for stream, edges in self._edges.items()
            },
            chunk_bytes=min(plan.settings.blob_bytes, plan.settings.intake_bytes),
            clock=clock,
            is_known=self._is_known if self._spout.stable_message_ids else None,
        )
        self._again: list[Any] = []  # acked messages that the source delivered again
        self._settled: deque[tuple[Sequence[Any], Sequence[FailedMessage]]] = deque()
        self._finished = 0  # tracked tuples that were acked or failed
        self._emitted = 0  # tuples that were reported to back pressure
        self._draining = self._paused = False
        self._active = False  # whether `activate` was called after the last `deactivate`
        self.is_drained = False  # whether `pause` or `drain` has stopped the emits
        # When `next_tuple` first and last returned without an emit, since the last emit, ack or fail.
        self._empty: tuple[float, float] | None = None

    @property
    def has_stable_ids(self) -> bool:
        """Whether the source redelivers a message under the same id."""
        return self._spout.stable_message_ids

    @property
    def acks_again(self) -> bool:
        """Whether earlier runs have acked messages without the source's confirmation."""
        return self.redelivery is not None and bool(self.redelivery.acked)

    @property
    def is_waiting(self) -> bool:
        """Whether emitted tuples wait for a wave."""
        return self._collector.emitted > self._collector.taken

    @property
    def waiting_since(self) -> float | None:
        """When the oldest tuple that waits for a wave was emitted; None if none waits. May be read on any thread."""
        return self._collector.waiting_since

    @property
    def errors_reported(self) -> int:
        """The number of errors that the spout has reported."""
        return self._collector.errors_reported

    @property
    def is_settled(self) -> bool:
        """Whether each tracked tuple was acked or failed."""
        return self.pending == 0

    @property
    def pending(self) -> int:
        """The number of tracked tuples that are neither acked nor failed."""
        if self.redelivery is not None:
            return self.redelivery.pending(self.task[1])
        return self._collector.tracked - self._finished

    def is_idle(self, seconds: float) -> bool:
        """Return whether all messages are settled, and `next_tuple` has emitted nothing for `seconds`.

        Only calls that have returned since the last ack, fail or emit count: a running call may be waiting for tuples
        of its source, and a failed message is emitted again. While the source does not answer, the spout is not idle.
        """
        was_settled = self.is_settled  # before `_empty` is read: the spout's thread clears `_empty` first
        empty = self._empty
        return was_settled and empty is not None and empty[1] - empty[0] >= seconds and self.is_settled

    def ask(self) -> None:
        """Do nothing: the tuples are here."""

    def take(self) -> list[Chunk]:
        """Return the tuples emitted since the last call: the intake of the next wave."""
        chunks = self._collector.take()
        self._flow.take(sum(chunk.size for chunk in chunks))
        return chunks

    def settle(self, acked: Sequence[Any], failed: Sequence[FailedMessage]) -> None:
        """Make the next step ack and fail these messages."""
        if acked or failed:
            self._settled.append((acked, failed))

    def forget(self, msg_ids: Sequence[Any]) -> None:
        """Do nothing: this process holds the task."""

    def tell_soon(self) -> None:
        """Ask the spout's thread to report its metrics, after the acks and fails of the wave."""
        self._tells = True

    def pause(self) -> None:
        """Stop the spout's emits until `resume`, once the running call of `next_tuple` has returned.

        Once no message of the spout is pending, the next step deactivates it.
        """
        self._paused = True

    def resume(self) -> None:
        """Make the next step activate the spout and continue."""
        self._paused = False

    def drain(self) -> None:
        """Stop the spout's emits for good, once a running call of `next_tuple` has returned."""
        self._draining = True

    def open(self) -> None:
        """Open and activate the spout. Raises `SpoutError`."""
        self._collector.open()
        self._call("open", self._plan.conf, self._context, self._collector)
        self._next_tuple = self._spout.next_tuple
        if self.task[1] == 0:
            self._ack_again()
        self._activate()
        self._count_emitted()

    def step(self) -> Step:
        """Ack and fail the settled messages, then call `next_tuple` if the spout may emit. Raises `SpoutError`."""
        collector = self._collector
        was_waiting = collector.emitted > collector.taken
        self.is_drained = False  # before anything below checks whether the spout may emit
        if not (self._active or self._is_held):
            self._activate()
        tells, self._tells = self._tells, False  # read first, so that the acks of this wave are in the report
        self._settle_all()
        if tells:
            self._tell()
        if self._count_emitted() and not was_waiting:
            return Step.BEGAN  # emitted in `ack` or `fail`
        if not self.may_emit:
            self.is_drained = self._is_held
            if self._paused and self._active and self.is_settled and not self.is_waiting:
                self._deactivate()
            return Step.HELD
        dropped = collector.dropped
        try:  # not by `_call`, whose context manager costs as much as an emit
            self._next_tuple()
        except (Exception, SystemExit) as error:
            if isinstance(error, AnchorboltError):
                raise
            raise self.error_of(error, "next_tuple") from None
        if self._count_emitted() or collector.dropped != dropped:
            self._empty = None
            return Step.EMITTED if was_waiting else Step.BEGAN
        now = time.monotonic()
        first = now if self._empty is None else self._empty[0]
        self._empty = None if self._spout.source_is_away else (first, now)
        return Step.EMPTY

    def end(self) -> None:
        """Ack and fail the settled messages, then deactivate and close the spout. Raises `SpoutError`."""
        self._settle_all()
        if self._active:
            self._deactivate()
        self._tell()
        self.close_spout()

    def close_spout(self) -> None:
        """Close the spout. Raises `SpoutError`."""
        try:
            self._call("close")
        finally:
            self._collector.close()

    def _tell(self) -> None:
        """Report the metrics since the last report. Runs on the spout's thread, because a gauge may call the spout."""
        if self.tell is None:
            return
        errors = self.errors_reported - self._errors_told
        metrics = self._context.metrics.take()
        if errors or metrics:
            self._errors_told += errors
            report = TaskReport(self.task, "", 0, errors_reported=errors, metrics=metrics)
            last, self._collector.last_reported = self._collector.last_reported, None
            if last is not None:
                report.error = reported_error(self._plan, *last)
            self.tell(report)

    def _activate(self) -> None:
        self._active = True
        self._call("activate")

    def _deactivate(self) -> None:
        self._active = False
        self._call("deactivate")

    @property
    def _is_held(self) -> bool:
        return self._draining or self._paused

    def _count_emitted(self) -> bool:
        """Report the new emits to back pressure; return whether there were any."""
        new = self._collector.emitted - self._emitted
        if new:
            self._emitted += new
            self._flow.add(new)
        return new > 0

    def _is_known(self, msg_id: Any) -> bool:
        assert self.redelivery is not None
        known = self.redelivery.emit(msg_id, self.task[1])
        if known is Known.ACKED:
            self._again.append(msg_id)
        return known is not Known.NEW

    def _routes(self, stream: str) -> Routes:
        plan, edges = self._plan, self._edges.get(stream, ())
        return [(new_router(plan, edge, self._context), plan.wiring.task_ids[edge.component]) for edge in edges]

    @property
    def may_emit(self) -> bool:
        """Whether nothing keeps the spout from emitting: no limit, no back pressure, no pause, no stop."""
        settings, collector = self._plan.settings, self._collector
        most = settings.max_spout_pending
        return (
            not (self._draining or self._paused)
            and not self._flow.is_throttled
            and collector.emitted - collector.taken < settings.intake_tuples
            and collector.waiting_bytes < settings.intake_bytes
            and (most is None or self.pending < most)
        )

    def _settle_all(self) -> None:
        for msg_id in () if self.redelivery is None else self.redelivery.take_recalled(self.task[1]):
            self._call("recall", msg_id)
        if self._again:
            again, self._again = self._again, []
            self._ack(again)
        while self._settled:
            acked, failed = self._settled[0]
            self._ack(acked)
            for message in failed:
                self._call("fail", message.msg_id)
            self._empty = None
            self._finished += len(acked) + len(failed)
            if self.redelivery is not None:
                self.redelivery.finish(self.task[1], len(acked) + len(failed))
            self._settled.popleft()

    def _ack(self, msg_ids: Sequence[Any]) -> None:
        if msg_ids:
            ack = self._spout.ack
            with self._calling("ack"):
                for msg_id in msg_ids:
                    ack(msg_id)
            self._call("flush_acks")
        if self.redelivery is not None:
            self.redelivery.confirm(msg_ids)

    def _ack_again(self) -> None:
        acked = self.redelivery.acked if self.redelivery is not None else []
        if acked and self._call("ack_again", acked) is True:
            assert self.redelivery is not None
            self.redelivery.confirm(acked)
            _log.info("spout %r has acked again what earlier runs had acked: %d messages", self.task[0], len(acked))

    def _call(self, hook: str, *arguments: Any) -> Any:
        with self._calling(hook):
            return getattr(self._spout, hook)(*arguments)

    @contextmanager
    def _calling(self, hook: str) -> Iterator[None]:
        """Wrap the spout's exceptions in `SpoutError`, except Anchorbolt's own."""
        try:
            yield
        except (Exception, SystemExit) as error:
            if isinstance(error, AnchorboltError):
                raise
            raise self.error_of(error, hook) from None

    def error_of(self, error: BaseException, hook: str) -> SpoutError:
        """Return the error for an exception that the spout raised in a hook."""
        component, index = self.task
        text = user_traceback(error)
        unacked = "" if hook in ("open", "activate") else " Messages that are not committed are not acked."
        return SpoutError(
            f"{text}\n\nraised by spout {component!r}, task {index}, in {hook}.{unacked} Fix the spout, or catch the "
            "exception in it.",
            component=component,
            task_index=index,
            user_traceback=text,
        )
