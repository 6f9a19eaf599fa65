"""Hosts a task of a rich spout on the driver: its instance, and the thread that makes all calls to it."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from anchorbolt.acker.in_flight import FailedMessage
from anchorbolt.acker.redelivery import Known, Redelivery
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.driver.flow_control import FlowControl
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.emitter import new_router
from anchorbolt.engine.task.watchdog import watched
from anchorbolt.errors import AnchorboltError, SpoutError
from anchorbolt.spouts.collector import SpoutOutputCollector
from anchorbolt.spouts.intake import Chunk, Routes
from anchorbolt.util.messages import user_traceback

_log = logging.getLogger("anchorbolt.engine")

_PAUSE_S = 0.001  # after a `next_tuple` that emitted nothing


class SpoutHost:
    """One task of a rich spout. Its thread calls the spout; the driver's threads call the methods of this object."""

    def __init__(
        self,
        plan: ExecutionPlan,
        task: TaskKey,
        flow: FlowControl,
        on_change: Callable[[], None],  # called when the first tuple of a wave waits, and when the spout has failed
    ) -> None:
        component, index = task
        self.redelivery: Redelivery | None = None  # of a spout with stable message ids
        self.task = task
        self.failure: AnchorboltError | None = None
        self._plan = plan
        self._context = plan.context(task)
        self._flow = flow
        self._on_change = on_change
        self._spout = plan.copy_spout(component)
        self._edges = plan.edges[component]
        self._collector = SpoutOutputCollector(
            component,
            plan.streams[component],
            self._routes,
            {
                stream: {id for edge in edges for id in plan.task_ids[edge.component]}
                for stream, edges in self._edges.items()
            },
            chunk_bytes=plan.settings.blob_bytes,
            is_known=self._is_known if self._spout.stable_message_ids else None,
        )
        self._again: list[Any] = []  # messages that a decision has acked, and that the source delivered again
        self._changed = threading.Condition()
        self._settled: deque[tuple[Sequence[Any], Sequence[FailedMessage]]] = deque()
        self._finished = 0  # tracked tuples that were acked or failed
        self._draining = False
        self._closing = False
        self._opened = threading.Event()
        # When `next_tuple` first and last returned without an emit, since one that emitted.
        self._empty: tuple[float, float] | None = None
        self._thread = threading.Thread(target=self._run, name=f"anchorbolt-spout-{component}-{index}", daemon=True)

    @property
    def has_stable_ids(self) -> bool:
        """Whether the source gives a message that it delivers again the id that it had before."""
        return self._spout.stable_message_ids

    @property
    def acks_again(self) -> bool:
        """Whether earlier runs have acked messages, and their source may not know it."""
        return self.redelivery is not None and bool(self.redelivery.acked)

    def start(self) -> None:
        self._thread.start()

    def wait_until_open(self) -> None:
        """Wait until the spout is open and active. Raises `SpoutError` if it could not be opened."""
        self._opened.wait()
        if self.failure is not None:
            raise self.failure

    @property
    def is_waiting(self) -> bool:
        """Whether emitted tuples wait for a wave."""
        return self._collector.waiting[0] > 0

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

    @property
    def idle_s(self) -> float:
        """For how many seconds `next_tuple` has returned without an emit; 0 while the source does not answer.

        A call that has not returned does not count: it may wait for a source that has tuples.
        """
        empty = self._empty
        return 0.0 if empty is None else empty[1] - empty[0]

    def take(self) -> list[Chunk]:
        """Return what was emitted since the last call: the intake of the next wave."""
        chunks = self._collector.take()
        self._flow.take(sum(chunk.size for chunk in chunks))
        return chunks

    def wake(self) -> None:
        """Have the thread look again whether the spout may emit."""
        self._notify()

    def settle(self, acked: Sequence[Any], failed: Sequence[FailedMessage]) -> None:
        """Have the spout's thread ack and fail these messages."""
        if acked or failed:
            self._settled.append((acked, failed))
            self._notify()

    def drain(self) -> None:
        """Have the spout emit no more."""
        self._draining = True
        self._notify()

    def close(self, timeout_s: float) -> bool:
        """Have the spout's thread call `deactivate` and `close`; return whether it has ended in this time."""
        self._draining = self._closing = True
        self._notify()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _is_known(self, msg_id: Any) -> bool:
        assert self.redelivery is not None
        known = self.redelivery.emit(msg_id, self.task[1])
        if known is Known.ACKED:
            self._again.append(msg_id)
        return known is not Known.NEW

    def _routes(self, stream: str) -> Routes:
        plan, edges = self._plan, self._edges.get(stream, ())
        return [(new_router(plan, edge, self._context), plan.task_ids[edge.component]) for edge in edges]

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            with watched(self.task, self._plan.settings, "spout"):
                self._call("open", self._plan.conf, self._context, self._collector)
                if self.task[1] == 0:
                    self._ack_again()
                self._call("activate")
                self._opened.set()
                while not self._closing:
                    self._step()
                self._settle_all()
                self._call("deactivate")
                self._call("close")
        except AnchorboltError as error:
            self.failure = error
        finally:
            self._opened.set()
            self._on_change()

    def _step(self) -> None:
        self._settle_all()
        if not self._may_emit():
            with self._changed:
                if not (self._settled or self._closing or self._may_emit()):
                    self._changed.wait()
            return
        collector = self._collector
        was_waiting, emitted, dropped = self.is_waiting, collector.emitted, collector.dropped
        self._call("next_tuple")
        if (collector.emitted, collector.dropped) != (emitted, dropped):
            self._flow.add(collector.emitted - emitted)
            self._empty = None
            if not was_waiting:
                self._on_change()
            return
        now = time.monotonic()
        first = now if self._empty is None else self._empty[0]
        self._empty = None if self._spout.source_is_away else (first, now)
        with self._changed:
            if not (self._settled or self._closing):
                self._changed.wait(_PAUSE_S)

    def _may_emit(self) -> bool:
        settings, collector = self._plan.settings, self._collector
        tuples, size = collector.waiting
        most = settings.max_spout_pending
        return (
            not self._draining
            and not self._flow.is_throttled
            and tuples < settings.intake_tuples
            and size < settings.intake_bytes
            and (most is None or self.pending < most)
        )

    def _settle_all(self) -> None:
        if self._again:
            again, self._again = self._again, []
            self._ack(again)
        while self._settled:
            acked, failed = self._settled[0]
            self._ack(acked)
            for message in failed:
                self._call("fail", message.msg_id)
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
        """Raise `SpoutError` for what the spout raises; an error of ours says enough."""
        try:
            yield
        except (Exception, SystemExit) as error:
            if isinstance(error, AnchorboltError):
                raise
            component, index = self.task
            text = user_traceback(error)
            unacked = "" if hook in ("open", "activate") else " Messages that are not committed are not acked."
            raise SpoutError(
                f"{text}\n\nraised by spout {component!r}, task {index}, in {hook}.{unacked} Fix the spout, or catch "
                "the exception in it.",
                component=component,
                task_index=index,
                user_traceback=text,
            ) from None
