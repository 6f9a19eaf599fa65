"""The tasks of rich spouts in a worker. The driver's `spouts` decides what they do; their tuples stay here."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.flow_control import FlowControl
from anchorbolt.engine.sources.spout_host import SpoutHost
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.engine.task.spout_task import SourceRows
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.errors import AnchorboltError, InfrastructureLost
from anchorbolt.serialization.msgpack_values import pack_many
from anchorbolt.spouts.intake import Chunk
from anchorbolt.spouts.message_ids import id_key, id_keys
from anchorbolt.tracking.redelivery import Known
from anchorbolt.tracking.settlements import FailedMessage

_log = logging.getLogger("anchorbolt.engine")

_LOOK_S = 0.05  # between two looks whether the driver knows the state of the spouts
_CLOSE_S = 5.0
_LONGEST_IDLE_S = 1.0


class Order(Enum):
    """What the driver tells a task of a spout, with the arguments. A frame has the pickled order, task, arguments."""

    OPEN = "open"  # messages to ack again, None without stable ids; whether the driver takes metrics
    TAKE = "take"  # number of the intake, load of the last wave
    DROP = "drop"  # positions to drop by chunk, messages to ack again, how many the task has emitted twice
    FETCH = "fetch"  # number of the intake, position of the chunk
    SETTLE = "settle"  # acked messages, None for all of the intake; failed ones
    RECALL = "recall"  # messages
    HOLD = "hold"  # number of the order, whether the run is paused, whether it ends
    TELL = "tell"
    CLOSE = "close"


class Status(NamedTuple):
    """The state of a task."""

    is_open: bool = False
    is_closed: bool = False
    failure: AnchorboltError | None = None
    emitted: int = 0  # tuples
    pending: int = 0  # messages that are neither acked nor failed
    is_waiting: bool = False
    errors_reported: int = 0
    idle_s: float | None = None  # how long the spout has emitted nothing, at most 1; None if it was not asked
    hold: int = 0  # the last `HOLD` that `is_drained` answers
    is_drained: bool = False
    settled: int = 0  # orders to settle that are done
    has_acked_again: bool = False


class Said(NamedTuple):
    """What a worker tells the driver of a task."""

    task: TaskKey
    status: Status
    waiting_s: float | None = None  # the age of the oldest waiting tuple
    intake: tuple[int, Sequence[tuple[str, int, float, Sequence[Any]]]] | None = None  # stream, size, age, message ids
    fetched: tuple[int, int, bytes] | None = None  # numbers of the intake and of the chunk, packed columns
    report: TaskReport | None = None  # of metrics


def lost_intake(task: TaskKey, txid: int) -> InfrastructureLost:
    """Return the error for an intake whose worker was lost."""
    component, index = task
    return InfrastructureLost(
        f"the worker was lost that held the tuples of spout {component!r}, task {index}", txid=txid
    )


class _Relay:
    """`Redelivery` in a worker: only counts. The driver drops what a source delivers again when a wave takes it in."""

    def __init__(self, acked: list[Any]) -> None:
        self.acked = acked  # of earlier runs and lost workers
        self.has_acked_again = False
        self.repeated = 0  # messages that the driver has dropped because they were emitted here before
        self.recalled: deque[Any] = deque()
        self._emitted = self._finished = 0  # only the spout's thread changes these

    def emit(self, msg_id: Any, task_index: int) -> Known:
        self._emitted += 1
        return Known.NEW

    def take_recalled(self, task_index: int) -> list[Any]:
        recalled = [self.recalled.popleft() for _ in range(len(self.recalled))]
        self._finished += len(recalled)
        return recalled

    def pending(self, task_index: int) -> int:
        return self._emitted - self._finished - self.repeated

    def finish(self, task_index: int, count: int) -> None:
        self._finished += count

    def confirm(self, acked: Sequence[Any]) -> None:
        if acked is self.acked:
            self.has_acked_again = True


class _Host(SpoutHost):
    """A task of a rich spout in a worker."""

    said = Status()  # the last one

    def __init__(
        self, plan: ExecutionPlan, task: TaskKey, flow: FlowControl, on_change: Callable[[TaskKey], None]
    ) -> None:
        super().__init__(plan, task, flow, time.monotonic, lambda: on_change(task))
        self.number = 0  # of the intake
        self.intake: list[Chunk] = []
        self.hold = 0
        self.relay: _Relay | None = None  # with stable message ids
        self.is_closing = False
        self._orders_to_settle = 0
        # Messages of this task that are not settled, without stable ids: those of a lost worker are not of this task.
        self._known: set[Any] = set()

    def status(self) -> Status:
        hold, is_drained = self.hold, self.is_drained
        pending = self.pending  # before `_empty`, see `is_idle`
        empty = self._empty
        return Status(
            is_open=self._opened.is_set(),
            is_closed=self.is_closing and not self._thread.is_alive(),
            failure=self.failure,
            emitted=self._emitted,
            pending=pending,
            is_waiting=self.is_waiting,
            errors_reported=self.errors_reported,
            idle_s=None if empty is None else min(_LONGEST_IDLE_S, round(empty[1] - empty[0], 2)),
            hold=hold,
            is_drained=is_drained,
            settled=self._orders_to_settle - len(self._settled),
            has_acked_again=self.relay is not None and self.relay.has_acked_again,
        )

    def settle_all(self, acked: Sequence[Any] | None, failed: Sequence[Any]) -> None:
        """Ack and fail messages; None acks those of the intake."""
        if acked is None:
            acked = [msg_id for chunk in self.intake for msg_id in chunk.tracked_ids]
        elif self.relay is None:
            self._note_unsettled()
            acked = [msg_id for msg_id in acked if id_key(msg_id) in self._known]
            failed = [msg_id for msg_id in failed if id_key(msg_id) in self._known]
            self._known.difference_update(id_keys(acked), id_keys(failed))
        self.intake = []
        self._orders_to_settle += 1
        self._settled.append((acked, [FailedMessage(msg_id, "", -1, "") for msg_id in failed]))
        self.wake()

    def take_as(self, number: int) -> None:
        """Take the waiting tuples as the intake with this number."""
        if self.relay is None:
            self._note_unsettled()
        self.intake = []
        self.number, self.intake = number, self.take()
        self.wake()

    def drop(self, positions: dict[int, list[int]], again: Sequence[Any], repeated: int) -> None:
        """Drop tuples of the intake, which the source has delivered again; ack some of them again."""
        for number, dropped in positions.items():
            self.intake[number] = self.intake[number].without(frozenset(dropped))
        if self.relay is not None:
            self.relay.repeated += repeated
        self._orders_to_settle += 1
        self._settled.append((again, ()))
        self.wake()

    def _note_unsettled(self) -> None:
        for chunk in self.intake:
            self._known.update(id_keys(chunk.tracked_ids))


class HostedSpouts:
    """The tasks of rich spouts in one worker. The worker's own thread calls the methods."""

    def __init__(self, plan: ExecutionPlan, tell: Callable[[Frame], None]) -> None:
        """Create it without tasks; `tell` sends a frame to the driver, on any thread."""
        self._plan = plan
        self._tell = tell
        self._hosts: dict[TaskKey, _Host] = {}
        self._lock = threading.Lock()  # so that the driver gets the states in their order
        self._is_closed = threading.Event()
        self._flow = FlowControl.of(plan.settings)

    def obey(self, order: Order, task: TaskKey, arguments: Sequence[Any]) -> None:
        """Do what the driver says."""
        if order is Order.OPEN:
            self._open(task, *arguments)
            return
        host = self._hosts[task]
        if order is Order.TAKE:
            self._take(host, *arguments)
        elif order is Order.DROP:
            host.drop(*arguments)
        elif order is Order.FETCH:
            number, position = arguments
            payload = host.intake[position].payload if number == host.number else b""
            self._say(host, fetched=(number, position, payload))
        elif order is Order.SETTLE:
            host.settle_all(*arguments)
        elif order is Order.RECALL:
            assert host.relay is not None
            [msg_ids] = arguments
            host.relay.recalled.extend(msg_ids)
            host.wake()
        elif order is Order.HOLD:
            self._hold(host, *arguments)
        elif order is Order.TELL:
            host.tell_soon()
        elif order is Order.CLOSE:
            host.is_closing = True
            host.close(0)

    def rows(self, task: TaskKey, number: int, roots: Sequence[bytes], txid: int) -> Iterator[SourceRows]:
        """Yield the rows of an intake. Raises `InfrastructureLost` if another worker has taken it, which was lost."""
        import numpy as np  # only for rich spouts

        host = self._hosts.get(task)
        if host is None or host.number != number:
            raise lost_intake(task, txid)
        for chunk, of_chunk in zip(host.intake, roots, strict=True):
            ids = pack_many(chunk.tracked_ids) if self._plan.wiring.ackers else []
            yield SourceRows(chunk.stream, chunk.size, chunk.columns(), np.frombuffer(of_chunk, np.uint64), ids)

    def close(self) -> None:
        """Close all spouts; warn of each that has not closed within 5 s."""
        self._is_closed.set()
        until = time.monotonic() + _CLOSE_S
        for host in self._hosts.values():
            host.close(0)
        for host in self._hosts.values():
            if not host.close(max(0.0, until - time.monotonic())):
                _log.warning("spout %r, task %d has not ended: it is in a call that does not return", *host.task)

    def _open(self, task: TaskKey, acked: list[Any] | None, tells: bool) -> None:
        host = self._hosts[task] = _Host(self._plan, task, self._flow, self._changed)
        if acked is not None:
            host.relay = host.redelivery = _Relay(acked)
        if tells:
            host.tell = lambda report: self._say(host, report=report)
        if len(self._hosts) == 1:
            threading.Thread(target=self._watch, name="anchorbolt-spouts", daemon=True).start()
        host.start()

    def _take(self, host: _Host, number: int, load: Any) -> None:
        if load is not None:
            self._flow.measure(load)
        try:
            host.take_as(number)
        except AnchorboltError as error:
            host.failure = error
        now = time.monotonic()
        heads = [(chunk.stream, chunk.size, now - chunk.since, chunk.msg_ids) for chunk in host.intake]
        self._say(host, intake=(number, heads))

    def _hold(self, host: _Host, number: int, is_paused: bool, is_draining: bool) -> None:
        if is_draining:
            host.drain()
        if is_paused:
            host.pause()
        else:
            host.resume()
        host.is_drained = False  # after the pause: the spout's thread sets it again
        host.hold = number

    def _changed(self, task: TaskKey) -> None:
        self._say(self._hosts[task])

    def _watch(self) -> None:
        while not self._is_closed.wait(_LOOK_S):
            for host in list(self._hosts.values()):
                if host.status() != host.said:
                    self._say(host)

    def _say(self, host: _Host, **more: Any) -> None:
        with self._lock:
            since = host.waiting_since
            host.said = host.status()
            waiting_s = None if since is None else time.monotonic() - since
            said = Said(host.task, host.said, waiting_s, **more)
            self._tell(Frame(Kind.SPOUT, payload=pickle.dumps(said)))
