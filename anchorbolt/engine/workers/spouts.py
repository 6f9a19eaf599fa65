"""The driver's side of rich spouts whose tasks run in workers: `topology.spouts.in` is `workers`.

The tuples of a wave's intake stay in the worker, which sends their message ids. If it is lost, the intake is, too: the
wave goes on without it, and the source delivers its messages again to the worker that takes its place.
"""

from __future__ import annotations

import logging
import pickle
from collections import deque
from collections.abc import Callable, Container, Sequence
from functools import partial
from operator import is_
from typing import Any

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.driver_spouts import DriverSpouts, driver_spouts
from anchorbolt.engine.sources.flow_control import FlowControl
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.engine.workers.fleet import Fleet
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.hosted_spouts import Order, Said, Status, lost_intake
from anchorbolt.engine.workers.rounds import Slot
from anchorbolt.errors import AnchorboltError, InfrastructureLost, WorkerLost
from anchorbolt.spouts.base import BaseRichSpout, Spout
from anchorbolt.spouts.intake import Chunk
from anchorbolt.tracking.redelivery import Known, Redelivery
from anchorbolt.tracking.settlements import FailedMessage

_log = logging.getLogger("anchorbolt.engine")


class RemoteChunk(Chunk):
    """A chunk whose columns are in a worker."""

    fetch: Callable[[], bytes]

    def columns(self) -> list[list[Any]]:
        """Fetch and decode the columns. Raises `InfrastructureLost` if the worker was lost."""
        return self.fetched().columns()

    def fetched(self) -> Chunk:
        """Return the chunk with its columns. Raises `InfrastructureLost` if the worker was lost."""
        return Chunk(self.stream, self.size, self.fetch(), self.msg_ids, self.since)

    def without(self, dropped: Container[int]) -> RemoteChunk:
        msg_ids = [msg_id for position, msg_id in enumerate(self.msg_ids) if position not in dropped]
        chunk = RemoteChunk(self.stream, len(msg_ids), b"", msg_ids, self.since)
        chunk.fetch = self.fetch
        return chunk


class RemoteHost:
    """A task of a rich spout in a worker, with the face of `SpoutHost`.

    The fleet's lock guards it. The worker's states arrive on the fleet's thread.
    """

    def __init__(
        self,
        spouts: WorkerSpouts,
        slot: Slot,
        plan: ExecutionPlan,
        task: TaskKey,
        flow: FlowControl,
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        self.redelivery: Redelivery | None = None
        self.task = task
        self.tell: Callable[[TaskReport], None] | None = None
        self.failure: AnchorboltError | None = None
        spout = plan.graph.spouts[task[0]].spout
        assert isinstance(spout, BaseRichSpout)
        self.has_stable_ids = spout.stable_message_ids
        self.waiting_since: float | None = None
        self.slot = slot
        self.number = 0  # of the intake
        self.was_lost = False  # whether a worker with this task was lost, and the wave loop has not noticed it yet
        self._spouts = spouts
        self._fleet = spouts.fleet
        self._timeout_s = plan.settings.message_timeout_secs
        self._flow, self._clock, self._on_change = flow, clock, on_change
        self._status = Status()
        self._is_wanted = self._is_hosted = False
        self._is_paused = self._is_draining = False
        self._hold = 0  # number of the last order to hold
        self._errors_before = 0  # that lost workers had reported
        self._flow_waiting = 0  # tuples that were reported to back pressure
        self._to_ack_again: list[Any] = []  # what the task was opened with
        self._answer: Said | None = None  # with the intake, or a chunk's columns
        self._is_asked = False
        self._intake: list[Chunk] = []
        self.keeps_intake = False
        self._lost_intakes = 0  # in a row
        self._is_intake_lost = False
        self._most_lost = plan.settings.max_batch_retries
        self._unsettled: deque[Sequence[Any]] = deque()  # orders to settle that are not done: their acks
        self._settled = 0

    @property
    def acks_again(self) -> bool:
        return self.redelivery is not None and bool(self.redelivery.acked)

    @property
    def is_waiting(self) -> bool:
        return self._status.is_waiting

    @property
    def errors_reported(self) -> int:
        return self._errors_before + self._status.errors_reported

    @property
    def pending(self) -> int:
        return self._status.pending

    @property
    def is_settled(self) -> bool:
        return not self._unsettled and self._status.pending == 0

    @property
    def is_drained(self) -> bool:
        return self._status.is_drained and self._status.hold == self._hold

    def is_idle(self, seconds: float) -> bool:
        with self._fleet.changed:
            idle_s = self._status.idle_s
            return self.is_settled and not self.is_waiting and idle_s is not None and idle_s >= seconds

    def start(self) -> None:
        with self._fleet.changed:
            self._is_wanted = True
            if self._fleet.has(self.slot):
                self.open()

    def wait_until_open(self) -> None:
        """Wait until the spout is open. Raises its error, or `InfrastructureLost` if no worker comes any more."""
        with self._fleet.changed:
            while not self._fleet.changed.wait_for(
                lambda: self._status.is_open or self.failure is not None or self._fleet.has_ended, self._timeout_s
            ):
                _log.warning(
                    "spout %r, task %d is not open yet: worker %d has not come, or open has not returned",
                    *self.task,
                    self.slot,
                )
        if self.failure is not None:
            raise self.failure
        if not self._status.is_open:
            raise InfrastructureLost(f"no worker could be started for spout {self.task[0]!r}", txid=0)

    def open(self) -> None:
        """Open the task in the worker that is there now. Called with the lock."""
        self._is_hosted = True
        acked = None
        if self.redelivery is not None:
            acked = self.redelivery.acked if self.task[1] == 0 else []
        self._to_ack_again = acked or []
        self._order(Order.OPEN, acked, self.tell is not None)
        self._order_hold()

    def lose(self) -> None:
        """Note that the worker was lost. Called with the lock."""
        self._flow.take(self._flow_waiting)
        self._flow_waiting = 0
        self._errors_before += self._status.errors_reported
        self._status, self.waiting_since = Status(), None
        self._is_hosted, self.was_lost = False, True
        self._unsettled.clear()
        self._settled = 0

    def ask(self) -> None:
        """Ask the worker for the waiting tuples, if there are any: all workers at once, so that the waits overlap."""
        if self is self._spouts.hosts[0]:
            self._spouts.confirm()
        self._forget(())  # lost since the wave
        with self._fleet.changed:
            if any(chunk.size for chunk in self._intake) and not self._is_intake_lost:
                self._lost_intakes = 0
            self._intake, self._is_intake_lost = [], False
            # A tuple may have ended the worker. If the driver has the tuples, the wave's tries and the search for the
            # tuple are as for any other source. Without stable ids, what is delivered again would then count twice.
            self.keeps_intake = self.has_stable_ids and self._lost_intakes > 0
            self._is_asked = self._is_hosted and (self.is_waiting or self.has_stable_ids)
            if self._is_asked:
                self.number += 1
                self._order(Order.TAKE, self.number, self._spouts.load_of(self._flow))

    def take(self) -> list[Chunk]:
        """Return the heads of the tuples that wait; of no tuples if the worker is lost meanwhile."""
        with self._fleet.changed:
            said = self._answered(lambda said: said.intake is not None and said.intake[0] == self.number)
            self._is_asked = False
            if said is None or said.intake is None:
                return []
            now = self._clock()
            for position, (stream, size, age_s, msg_ids) in enumerate(said.intake[1]):
                chunk = RemoteChunk(stream, size, b"", msg_ids, now - age_s)
                chunk.fetch = partial(self._fetch, self.number, position)
                self._intake.append(chunk)
            taken = sum(chunk.size for chunk in self._intake)
            self._flow.take(taken)
            self._flow_waiting -= taken
        if self.keeps_intake:
            try:
                self._intake = [chunk.fetched() for chunk in self._intake if isinstance(chunk, RemoteChunk)]
            except InfrastructureLost:
                self._intake = []
        if self.redelivery is not None:
            self._drop_known(self.redelivery)
        return self._intake

    def settle(self, acked: Sequence[Any], failed: Sequence[FailedMessage]) -> None:
        with self._fleet.changed:
            if self.was_lost or not (acked or failed):
                return  # the worker is gone that knew the messages
            self._unsettled.append(acked)
            of_intake = [msg_id for chunk in self._intake for msg_id in chunk.tracked_ids]
            # Compare objects: Python calls ids of two messages equal, such as `("x", 1)` and `("x", True)`.
            is_all = not failed and len(acked) == len(of_intake) and all(map(is_, acked, of_intake))
            self._order(Order.SETTLE, None if is_all else acked, [message.msg_id for message in failed])

    def forget(self, msg_ids: Sequence[Any]) -> None:
        """If the worker was lost in the wave, forget these messages, and who has emitted all others."""
        if self._forget(msg_ids) and not self._is_intake_lost and any(chunk.size for chunk in self._intake):
            self._lost_intakes, self._is_intake_lost = self._lost_intakes + 1, True
            if self._lost_intakes > self._most_lost and not self.has_stable_ids:
                self.failure = self._suspected()
                self._on_change()

    def _forget(self, msg_ids: Sequence[Any]) -> bool:
        with self._fleet.changed:
            was_lost, self.was_lost = self.was_lost, False
        if was_lost and self.redelivery is not None:
            self.redelivery.lose(self.task[1], msg_ids)
        return was_lost

    def recall(self) -> None:
        """Tell the spout which of its messages another task has received. Called with the lock."""
        if self.redelivery is not None and not self.was_lost:
            recalled = self.redelivery.take_recalled(self.task[1])
            if recalled:
                self._order(Order.RECALL, recalled)

    def wake(self) -> None:
        """Do nothing: the worker does it when its tuples are taken."""

    def tell_soon(self) -> None:
        self._order(Order.TELL)

    def pause(self) -> None:
        self._set_hold(is_paused=True)

    def resume(self) -> None:
        self._set_hold(is_paused=False)

    def drain(self) -> None:
        self._set_hold(is_draining=True)

    def close(self, timeout_s: float) -> bool:
        with self._fleet.changed:
            self._is_wanted = False
            if timeout_s == 0:
                self._order(Order.CLOSE)
            is_closed = self._fleet.changed.wait_for(lambda: self._status.is_closed or not self._is_hosted, timeout_s)
        for _ in range(2):  # no wave takes what waits in the workers any more
            self._spouts.confirm()
        return is_closed

    def came(self) -> None:
        """Note that a worker has come in the slot. Called with the lock."""
        if self._is_wanted:
            self.open()

    def note(self, said: Said) -> None:
        """Note what the worker says. Called with the lock."""
        before, self._status = self._status, said.status
        self.failure = self.failure or said.status.failure
        self.waiting_since = None if said.waiting_s is None else self._clock() - said.waiting_s
        emitted = said.status.emitted - before.emitted
        if emitted:
            self._flow.add(emitted)
            self._flow_waiting += emitted
        if said.intake is not None or said.fetched is not None:
            self._answer = said
        later = self._spouts.later
        if said.report is not None and self.tell is not None:
            later.append(partial(self.tell, said.report))
        redelivery = self.redelivery
        while self._settled < said.status.settled:
            self._settled += 1
            acked = self._unsettled.popleft()
            if redelivery is not None:
                self._spouts.confirmed.append(partial(redelivery.confirm, acked))
        if said.status.has_acked_again and redelivery is not None and self._to_ack_again:
            self._spouts.confirmed.append(partial(redelivery.confirm, self._to_ack_again))
            self._to_ack_again = []
        later.append(self._on_change)

    def _drop_known(self, redelivery: Redelivery) -> None:
        dropped: dict[int, list[int]] = {}
        again: list[Any] = []
        repeated = 0
        for position, chunk in enumerate(self._intake):
            known = redelivery.emit_all(chunk.msg_ids, self.task[1])
            if known:
                dropped[position] = list(known)
                again += [chunk.msg_ids[each] for each, what in known.items() if what is Known.ACKED]
                repeated += sum(what is Known.IN_FLIGHT for what in known.values())
                self._intake[position] = chunk.without(known)
        if dropped:
            with self._fleet.changed:
                if not self.was_lost:
                    self._unsettled.append(again)
                    self._order(Order.DROP, dropped, again, repeated)
                for host in self._spouts.hosts:
                    host.recall()

    def _suspected(self) -> WorkerLost:
        component, index = self.task
        return WorkerLost(
            f"worker {self.slot} was lost {self._lost_intakes} times in a row while it held tuples of spout "
            f"{component!r}, task {index}: one of them may end its process. See the last output of the worker. With "
            "stable_message_ids, dead letters (topology.dead.letter) would find the tuple.",
            txid=0,
        )

    def _fetch(self, number: int, position: int) -> bytes:
        with self._fleet.changed:
            self._is_asked = not self.was_lost
            self._order(Order.FETCH, number, position)
            said = self._answered(lambda said: said.fetched is not None and said.fetched[:2] == (number, position))
            self._is_asked = False
        if said is None or said.fetched is None or not said.fetched[2]:
            raise lost_intake(self.task, 0)
        return said.fetched[2]

    def _answered(self, is_answer: Callable[[Said], bool]) -> Said | None:
        """Wait for an answer, if the worker was asked; None if it is lost or does not answer."""
        if not self._is_asked:
            return None

        def is_over() -> bool:
            return self.was_lost or (self._answer is not None and is_answer(self._answer))

        if not self._fleet.changed.wait_for(is_over, self._timeout_s):
            self._fleet.end(self.slot, f"worker {self.slot} has not answered for {self._timeout_s} s")
        return None if self.was_lost else self._answer

    def _set_hold(self, **changes: bool) -> None:
        with self._fleet.changed:
            self._is_paused = changes.get("is_paused", self._is_paused)
            self._is_draining = changes.get("is_draining", self._is_draining)
            self._hold += 1
            self._order_hold()

    def _order_hold(self) -> None:
        self._order(Order.HOLD, self._hold, self._is_paused, self._is_draining)

    def _order(self, order: Order, *arguments: Any) -> None:
        with self._fleet.changed:
            if self._is_hosted:
                payload = pickle.dumps((order, self.task, arguments))
                self._fleet.tell(self.slot, Frame(Kind.SPOUT, payload=payload))


class WorkerSpouts:
    """All tasks of rich spouts of a fleet's workers."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.hosts: list[RemoteHost] = []
        self.later: list[Callable[[], None]] = []  # what the fleet's thread does without the lock
        self.confirmed: list[Callable[[], None]] = []  # acks that the sources have since the last wave began
        self._confirmed_before: list[Callable[[], None]] = []  # and those of the wave before
        fleet.spouts = self

    def new_host(
        self,
        plan: ExecutionPlan,
        task: TaskKey,
        flow: FlowControl,
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> RemoteHost:
        """Make the host of the next task of `Wiring.rich_spout_tasks`, in the worker that `driver_tasks` chooses."""
        host = RemoteHost(self, len(self.hosts) % self.fleet.slots, plan, task, flow, clock, on_change)
        self.hosts.append(host)
        return host

    def load_of(self, flow: FlowControl) -> Any:
        """Return the load of the last wave for one worker: each may let an equal share of the tuples wait."""
        load, shares = flow.last, min(self.fleet.slots, len(self.hosts))
        return None if load is None else load.shared(shares)

    def confirm(self) -> None:
        """Forget the messages whose acks had reached their sources when the last wave took its intake.

        Not at once: another task may have received such a message before, and no wave has taken it from its worker yet.
        """
        with self.fleet.changed:
            ready = self._confirmed_before
            self._confirmed_before, self.confirmed = self.confirmed, []
        for call in ready:
            call()

    def intakes(self) -> dict[TaskKey, int]:
        """Return the numbers of the intakes that workers hold, by task."""
        return {host.task: host.number for host in self.hosts if not host.keeps_intake}

    def came(self, slot: Slot) -> None:
        """Note a new worker. Called by the fleet, with its lock."""
        for host in self.hosts:
            if host.slot == slot:
                host.came()

    def gone(self, slot: Slot) -> None:
        """Note that a worker was lost. Called by the fleet, with its lock."""
        for host in self.hosts:
            if host.slot == slot:
                host.lose()

    def said(self, slot: Slot, payload: bytes) -> None:
        """Take what a worker says. Called by the fleet, with its lock."""
        said: Said = pickle.loads(payload)  # noqa: S301 - made by a worker of this run
        for host in self.hosts:
            if host.task == said.task and host.slot == slot:
                host.note(said)

    def do_later(self) -> None:
        """Do what may last. Called by the fleet, without its lock."""
        with self.fleet.changed:
            later, self.later = self.later, []
        for call in later:
            call()


def worker_spouts(
    plan: ExecutionPlan, fleet: Fleet, engine: str, kinds: tuple[type[Spout], ...]
) -> tuple[DriverSpouts | None, WorkerSpouts | None]:
    """Return what the driver runs itself, see `driver_spouts`, and the hosts of the spouts that workers run."""
    if plan.wiring.batch_spout:
        return None, None
    hosted = WorkerSpouts(fleet) if plan.settings.spouts_in == "workers" else None
    return driver_spouts(plan, engine, kinds, new_host=None if hosted is None else hosted.new_host), hosted
