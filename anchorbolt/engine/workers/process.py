"""The process of a worker: moves frames between its connections and its rounds, until the run ends."""

from __future__ import annotations

import logging
import os
import pickle
import queue
import select
import selectors
import socket
import threading
import time
from contextlib import suppress
from typing import Any, NamedTuple

from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.plan.wiring import BatchPhase
from anchorbolt.engine.task.commit_task import run_commit_task
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import as_failure
from anchorbolt.engine.task.round_text import round_from_text
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.gate import Gate
from anchorbolt.engine.workers.inbox import Space
from anchorbolt.engine.workers.links import Address, Link, connect
from anchorbolt.engine.workers.rounds import Placement, Slot
from anchorbolt.engine.workers.sources import SourceTask, opened
from anchorbolt.engine.workers.worker_round import Arrivals, WorkerRound
from anchorbolt.errors import AnchorboltError, SerializationError
from anchorbolt.serialization import pack, unpack
from anchorbolt.transactional.batches.flights import BatchDriver

_log = logging.getLogger("anchorbolt.engine")

FEED = -1
"""In place of a slot: a task of a stream spout."""

_PULSE_S = 1.0
_GRACE_S = 5.0  # for a call of a bolt, after the driver is gone
_MOST_WAITING = 32 << 20  # bytes for one other worker: above, no task runs until they are sent


class WorkerHome(NamedTuple):
    """What a worker knows when it starts. Pickled to it."""

    slots: int
    driver: Address


class _Peer(NamedTuple):
    """The other side of a connection."""

    slot: Slot  # `FEED` for a task of a stream spout
    incarnation: int
    is_incoming: bool


_DRIVER = _Peer(-2, 0, is_incoming=True)


class WorkerProcess:
    """One worker. `serve` runs on the thread of the Spark task, and so do the bolts."""

    def __init__(
        self,
        plan: ExecutionPlan,
        home: WorkerHome,
        slot: Slot,
        incarnation: int,
        emitters: BatchDriver | None,
        folder: str,
    ) -> None:
        """Connect to the driver, and listen for the other workers.

        Args:
            plan: The plan of the run.
            home: What the driver says.
            slot: The number of this worker.
            incarnation: Grows with each worker that gets the slot.
            emitters: Answers the emitters of a transactional topology.
            folder: Where blobs are kept that do not fit into memory.

        Raises:
            OSError: The driver cannot be reached, or this machine's address cannot be listened at.
        """
        self._plans = [plan] if not plan.wiring.batch_spout else [plan, plan.commit_phase()]
        self._placements = [Placement(each.wiring, home.slots) for each in self._plans]
        self._home, self._slot, self._incarnation = home, slot, incarnation
        self._emitters = emitters
        self._space = Space(plan.settings.worker_buffer_mb << 20, folder)
        self._registry = InstanceRegistry()
        self._free: list[InstanceRegistry] = []  # of processing phases that have ended
        self._abandoned: list[InstanceRegistry] = []  # of those that were given up
        self._of_phase: dict[int, InstanceRegistry] = {}  # by round: of a processing phase
        self._rounds: dict[int, WorkerRound] = {}  # ascending
        self._early: dict[int, Arrivals] = {}  # of rounds that have not begun here
        self._last = 0  # the last round that has begun here
        self._table: dict[Slot, tuple[int, str, int]] = {}  # incarnation, host, port
        self._number = 0  # of the table
        self._selector = selectors.DefaultSelector()
        self._links: dict[Link, _Peer] = {}
        self._out: dict[Slot, Link] = {}
        self._unreachable: set[Slot] = set()
        self._writing: set[Link] = set()
        self._admitted: queue.SimpleQueue[tuple[socket.socket, bytes]] = queue.SimpleQueue()
        self._woken, self._waker = socket.socketpair()
        for each in (self._woken, self._waker):
            each.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._is_stopped = False
        self._driver = Link(connect(home.driver, self._hello))
        self._add(self._driver, _DRIVER)
        threading.Thread(target=self._pulse, name="anchorbolt-pulse", daemon=True).start()

    def serve(self) -> None:
        """Run rounds until the run ends, or the driver is gone."""
        try:
            while not self._is_stopped:
                is_congested = any(link.bytes_waiting > _MOST_WAITING for link in self._writing)
                self._pump(wait=is_congested or not self._step())
        except EOFError:
            _log.info("worker %d ends: the driver is gone", self._slot)
        finally:
            self._is_stopped = True
            self._close()

    def _hello(self, connection: socket.socket) -> bytes:
        """Open the gate at the address by which this machine reaches the driver; return what to tell the driver."""
        host = connection.getsockname()[0]
        self._gate = Gate(host, host, self._admit, self._home.driver.secret)
        own = [host, self._gate.address.port, socket.gethostname(), os.getpid()]
        return pack([self._slot, self._incarnation, *own])

    def _admit(self, connection: socket.socket, hello: bytes) -> None:
        self._admitted.put((connection, hello))
        self._wake()

    def _wake(self) -> None:
        with suppress(BlockingIOError, OSError):  # it is awake already, or has ended
            self._waker.send(b"\0")

    def _step(self) -> bool:
        for number, current in list(self._rounds.items()):
            try:
                if current.step():
                    if current.is_done:
                        self._drop(number)
                    return True
            except AnchorboltError as error:
                self._give_up(number, self._slot, error.message)
            except OSError as error:  # of the files for blobs that do not fit into memory
                self._give_up(number, self._slot, f"worker {self._slot} cannot keep blobs in a file: {error}")
        return False

    def _pump(self, *, wait: bool) -> None:
        for link in list(self._links):
            if bool(link.bytes_waiting) != (link in self._writing):
                self._watch(link)
        for key, events in self._selector.select(None if wait else 0):
            link = key.data
            if link is None:
                with suppress(BlockingIOError):
                    self._woken.recv(4096)
                self._let_in()
            elif link in self._links:
                self._move(link, events)

    def _watch(self, link: Link) -> None:
        """Ask the system whether the connection can be written to, only as long as something waits."""
        events = selectors.EVENT_READ
        if link.bytes_waiting:
            events |= selectors.EVENT_WRITE
            self._writing.add(link)
        else:
            self._writing.discard(link)
        self._selector.modify(link.socket, events, link)

    def _move(self, link: Link, events: int) -> None:
        peer = self._links[link]
        try:
            if events & selectors.EVENT_WRITE:
                link.flush()
            frames = link.receive() if events & selectors.EVENT_READ else []
        except (EOFError, OSError, SerializationError) as error:
            if peer is _DRIVER:
                raise EOFError from error
            self._lose(link, error)
            return
        for frame in frames:
            if peer is _DRIVER:
                self._obey(frame)
            elif frame.kind is Kind.BLOB:
                self._arrive(frame)

    def _lose(self, link: Link, error: Exception) -> None:
        peer = self._links[link]
        self._remove(link)
        if peer.slot != FEED:
            self._cannot_reach(peer.slot, f"the connection with worker {peer.slot} was lost: {error}")
        elif not isinstance(error, EOFError) or link.is_cut:
            self._cannot_reach(FEED, f"the connection with a task of a spout was lost: {error}")

    def _cannot_reach(self, slot: Slot, reason: str) -> None:
        if slot != FEED:
            self._unreachable.add(slot)
        for number in self._rounds:
            self._driver.send(Frame(Kind.LOST, number, payload=pack([slot, reason])))

    def _give_up(self, number: int, slot: Slot, reason: str) -> None:
        self._driver.send(Frame(Kind.LOST, number, payload=pack([slot, reason])))
        self._drop(number)

    def _let_in(self) -> None:
        """Take the connections that the gate has admitted. One of a worker that was replaced is ended."""
        while not self._admitted.empty():
            connection, hello = self._admitted.get()
            slot, incarnation, number = unpack(hello)
            known = self._table.get(slot)
            is_old = known is not None and slot != FEED and number <= self._number and known[0] != incarnation
            if is_old:
                _log.warning("worker %d refuses worker %d of an older table", self._slot, slot)
                connection.close()
                continue
            self._add(Link(connection), _Peer(slot, incarnation, is_incoming=True))

    def _add(self, link: Link, peer: _Peer) -> None:
        self._links[link] = peer
        self._selector.register(link.socket, selectors.EVENT_READ, link)

    def _remove(self, link: Link) -> None:
        peer = self._links.pop(link)
        self._writing.discard(link)
        if self._out.get(peer.slot) is link:
            del self._out[peer.slot]
        with suppress(KeyError, ValueError):
            self._selector.unregister(link.socket)
        link.close()

    def _arrive(self, frame: Frame) -> None:
        """Take a blob. One of a round that has ended or was given up is dropped."""
        current = self._rounds.get(frame.round)
        try:
            if current is not None:
                current.receive(frame)
            elif frame.round > self._last:
                if frame.round not in self._early:
                    self._early[frame.round] = Arrivals(self._space)
                self._early[frame.round].put(frame)
        except OSError as error:
            self._give_up(frame.round, self._slot, f"worker {self._slot} cannot keep blobs in a file: {error}")

    def _obey(self, frame: Frame) -> None:
        kind, number, level, _, payload = frame
        if kind is Kind.ROUND:
            self._begin(number, payload)
        elif kind is Kind.EXPECT:
            if number in self._rounds:
                self._rounds[number].expect(level, unpack(payload))
        elif kind is Kind.ABORT:
            self._unreachable.clear()
            self._last = max(self._last, number)
            self._drop(number)
        elif kind is Kind.TABLE:
            self._take_table(*unpack(payload))
        elif kind is Kind.HANDLE:
            self._answer(number, self._handled(payload))
        elif kind is Kind.COMMIT:
            phase, group, threads, text = pickle.loads(payload)  # noqa: S301 - made by the driver of this run
            plan = self._plans[phase]
            self._answer(number, run_commit_task(plan, group, round_from_text(plan, text), threads)[0].payload)
        elif kind is Kind.STOP:
            self._is_stopped = True

    def _begin(self, number: int, payload: bytes) -> None:
        phase, text, tasks = unpack(payload)
        plan = self._plans[phase]
        current = round_from_text(plan, text)
        registry = self._registry
        if plan.wiring.phase is BatchPhase.PROCESSING:  # several batches are processed at a time
            registry = self._of_phase[number] = self._free.pop() if self._free else InstanceRegistry()
        sources = [opened(SourceTask(*task), plan, current, registry, self._emitters, self._wake) for task in tasks]
        self._last = number
        self._rounds[number] = WorkerRound(
            number,
            plan,
            current,
            self._placements[phase],
            self._slot,
            registry,
            sources,
            self._early.pop(number) if number in self._early else Arrivals(self._space),
            self._send,
            self._driver.send,
            waits_for_sources=plan.wiring.phase is BatchPhase.PROCESSING
            and plan.wiring.batch_spout in plan.wiring.tasks,
        )
        for each in [each for each in self._early if each < number]:
            self._early.pop(each).close()

    def _drop(self, number: int) -> None:
        current, early = self._rounds.pop(number, None), self._early.pop(number, None)
        if current is not None:
            current.close()
        if early is not None:
            early.close()
        registry = self._of_phase.pop(number, None)
        if registry is not None:
            # An emitter may still be in a call, so another phase must not use it.
            is_free = current is not None and current.is_done
            (self._free if is_free else self._abandoned).append(registry)

    def _take_table(self, number: int, members: list[list[Any]]) -> None:
        self._number = number
        self._table = {slot: (incarnation, host, port) for slot, incarnation, host, port in members}
        self._unreachable.clear()
        for link, peer in list(self._links.items()):
            known = self._table.get(peer.slot)
            if peer.slot >= 0 and (known is None or known[0] > peer.incarnation):
                self._remove(link)

    def _send(self, slot: Slot, frame: Frame) -> None:
        if slot in self._unreachable:
            return  # the round fails
        link = self._out.get(slot)
        try:
            if link is None:
                link = self._connected(slot)
            link.send(frame)
        except OSError as error:
            if link is not None and link in self._links:
                self._remove(link)
            self._cannot_reach(slot, f"worker {self._slot} cannot reach worker {slot}: {error}")

    def _connected(self, slot: Slot) -> Link:
        if slot not in self._table:
            raise ConnectionError("it is not known where it listens")
        incarnation, host, port = self._table[slot]
        hello = pack([self._slot, self._incarnation, self._number])
        link = Link(connect(Address(host, port, self._home.driver.secret), lambda _: hello))
        self._out[slot] = link
        self._add(link, _Peer(slot, incarnation, is_incoming=False))
        return link

    def _handled(self, payload: bytes) -> AnchorboltError | None:
        phase, checkpoint, tasks, text = pickle.loads(payload)  # noqa: S301 - made by the driver of this run
        plan = self._plans[phase]
        current = round_from_text(plan, text)
        for task in tasks:
            try:
                self._registry.handle(plan, checkpoint, task, current)
            except Exception as error:
                return as_failure(error, current.txid, plan.masking)
        return None

    def _answer(self, number: int, answer: object) -> None:
        self._driver.send(Frame(Kind.ANSWER, number, payload=pickle.dumps(answer)))

    def _pulse(self) -> None:
        """Tell the driver every second that this process is alive, and end it soon after the driver is gone.

        A bolt's call may last long, so this is a thread of its own.
        """
        poll = select.poll()
        with suppress(OSError, ValueError):
            poll.register(self._driver.socket, select.POLLRDHUP)
            while not self._is_stopped:
                if poll.poll(_PULSE_S * 1000):
                    break
                self._driver.send(Frame(Kind.PULSE, payload=pack(self._figures())))
        until = time.monotonic() + _GRACE_S
        while not self._is_stopped and time.monotonic() < until:
            time.sleep(_PULSE_S / 10)
        if not self._is_stopped:
            os._exit(1)

    def _figures(self) -> list[Any]:
        sent = [[peer.slot, link.bytes_sent] for link, peer in list(self._links.items()) if not peer.is_incoming]
        return [self._space.held, self._space.spilled, self._registry.cached_entries, sent]

    def _close(self) -> None:
        for number in list(self._rounds):
            self._drop(number)
        self._gate.close()
        for link in list(self._links):
            self._remove(link)
        self._selector.close()
        self._woken.close()
        self._waker.close()
        for registry in (self._registry, *self._free, *self._abandoned):
            for plan in self._plans:
                registry.close_run(plan.run_id)
