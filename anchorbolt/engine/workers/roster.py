"""The workers of a run that are there: the driver lets them in, hears them, and notices if one is lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.workers.connections import Connections
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.gate import Gate
from anchorbolt.engine.workers.links import Address, Link, Secret
from anchorbolt.engine.workers.rounds import Member, Slot, Table
from anchorbolt.errors import InfrastructureLost, SerializationError, WaveFailed
from anchorbolt.serialization import pack, unpack
from anchorbolt.util.messages import counted

_log = logging.getLogger("anchorbolt.engine")

_POLL_S = 1.0
_SILENT_S = 5.0  # at least: a worker tells each second that it is there


class Hosts(Protocol):
    """Starts the processes of the workers, and starts a lost one again."""

    def start(self, address: Address, gone: Callable[[str], None]) -> None:
        """Start all. They register at the address. `gone` is called, on any thread, if no more can be started."""

    def why_lost(self, slot: Slot, incarnation: int, txid: int, unheard: Sequence[TaskKey]) -> WaveFailed | None:
        """Return the error for a worker that was lost, perhaps after a short wait; None if nothing is known.

        `unheard` are its tasks that have not reported.
        """

    def end(self, slot: Slot) -> None:
        """End the worker of a slot, which does not answer, and start it again."""

    def close(self) -> None:
        """Wait until all have ended, which have been told to stop; end them after a while."""


class Worker:
    """A worker that has registered."""

    link: Link

    def __init__(self, slot: Slot, member: Member, name: str, pid: int) -> None:
        self.slot, self.member, self.name, self.pid = slot, member, name, pid
        self.since, self.heard_at = time.time(), time.monotonic()
        self.pulse: Sequence[Any] = (0, 0, 0, ())


class Watcher(Protocol):
    """Hears of the workers, on the roster's thread or within `tell`. Called with the lock, except `do_later`."""

    def came(self, slot: Slot) -> None:
        """Note that a worker has registered."""

    def gone(self, worker: Worker, reason: str, *, is_silent: bool) -> None:
        """Note that a worker was lost; `is_silent` if it does not answer, but may still run."""

    def said(self, worker: Worker, frame: Frame) -> None:
        """Take a frame. Pulses are not passed on."""

    def do_later(self) -> None:
        """Do what may last, without the lock. Called after the others."""


class Roster:
    """The table of the workers, and the connection with each. Methods need the lock of `changed` unless they say so."""

    def __init__(self, slots: int, timeout_s: float, hosts: Hosts, gate: tuple[str, str, Secret]) -> None:
        """Listen for the workers.

        Args:
            slots: The number of workers.
            timeout_s: How long to wait for a worker, and for a sign of life.
            hosts: Starts them.
            gate: The driver's address, by which they reach it; the address to listen at; and what they must know.

        Raises `OSError` if the machine does not have the address.
        """
        self.changed = threading.Condition(threading.RLock())
        self.table = Table(0, {})
        self.workers: dict[Slot, Worker] = {}
        self.last_lost: Worker | None = None
        self.is_closed = False
        self._slots, self._timeout_s = slots, timeout_s
        self._hosts = hosts
        self._no_more = ""  # why no worker can be started any more
        self._is_over = False
        self._connections = Connections[Worker]()
        host, bind_to, secret = gate
        self._gate = Gate(host, bind_to, self._connections.admit, secret)
        self.address = self._gate.address

    def watch(self, watcher: Watcher) -> None:
        """Begin to let workers in. Called once, without the lock."""
        self._watcher = watcher
        self._thread = threading.Thread(target=self._work, name="anchorbolt-fleet", daemon=True)
        self._thread.start()

    def start(self) -> None:
        """Start the workers. Called without the lock."""
        self._hosts.start(self.address, self._gone)

    @property
    def has_ended(self) -> bool:
        """Whether no more workers come. May be asked without the lock."""
        return self.is_closed or self._no_more != ""

    def wait_until_complete(self, txid: int) -> Table:
        """Wait until all workers are there. Raises `InfrastructureLost` or another `WaveFailed`."""
        is_complete = self.changed.wait_for(lambda: self.has_ended or len(self.workers) == self._slots, self._timeout_s)
        if self._no_more:
            raise WaveFailed(f"workers cannot be started any more: {self._no_more}", txid=txid)
        if not is_complete or self.is_closed:
            missing = [slot for slot in range(self._slots) if slot not in self.workers]
            raise InfrastructureLost(
                f"{counted(len(missing), 'worker')} of {self._slots} (topology.workers) did not come within "
                f"{self._timeout_s} s: {missing[:10]}. See whether Spark has free slots, and whether its executors can "
                f"reach the driver at {self.address.host}:{self.address.port}.",
                txid=txid,
            )
        return self.table

    def tell(self, slot: Slot, frame: Frame) -> None:
        """Send a frame to a worker, if it is there."""
        worker = self.workers.get(slot)
        if worker is None:
            return
        try:
            worker.link.send(frame)
        except OSError as error:
            self._lose(worker, f"worker {slot} was lost: {error}")
            return
        if worker.link.bytes_waiting:
            self._connections.wake()

    def end(self, worker: Worker, reason: str) -> None:
        """Give up a worker that does not answer; another one takes its place."""
        self._lose(worker, reason, is_silent=True)
        threading.Thread(target=self._hosts.end, args=(worker.slot,), daemon=True).start()

    def close(self) -> None:
        """Stop the workers, and wait until they have ended. Called without the lock, after `is_closed` was set."""
        with self.changed:
            for slot in list(self.workers):
                self.tell(slot, Frame(Kind.STOP))
            self.changed.notify_all()
        self._hosts.close()
        self._is_over = True
        self._connections.wake()
        self._thread.join(_POLL_S * 5)
        self._gate.close()
        with self.changed:
            self.workers = {}
            self._connections.close()

    def _gone(self, reason: str) -> None:
        with self.changed:
            self._no_more = reason
            self.changed.notify_all()

    def _lose(self, worker: Worker, reason: str, *, is_silent: bool = False) -> None:
        """Forget a worker."""
        if self.workers.get(worker.slot) is not worker:
            return
        del self.workers[worker.slot]
        self.table = self.table.without(worker.slot)
        self.last_lost = worker
        self._connections.remove(worker.link)
        if not self.is_closed:
            _log.warning("%s", reason)
        self._watcher.gone(worker, reason, is_silent=is_silent)
        self.changed.notify_all()

    # What follows runs on the roster's own thread.

    def _work(self) -> None:
        look_at = 0.0
        while not self._is_over:
            with self.changed:
                self._connections.watch()
            ready = self._connections.select(_POLL_S)
            with self.changed:
                for link, events in ready:
                    worker = self._connections.peers.get(link)
                    if worker is not None:  # else it was lost meanwhile
                        self._move(worker, events)
                self._let_in()
                if time.monotonic() >= look_at:
                    self._look_for_silent()
                    look_at = time.monotonic() + _POLL_S
            self._watcher.do_later()

    def _move(self, worker: Worker, events: int) -> None:
        try:
            frames = self._connections.move(worker.link, events)
            worker.heard_at = time.monotonic()
            for frame in frames:
                if frame.kind is Kind.PULSE:
                    worker.pulse = unpack(frame.payload)
                else:
                    self._watcher.said(worker, frame)
        except EOFError:
            self._lose(worker, f"worker {worker.slot} (process {worker.pid} on {worker.name}) has ended")
        except (OSError, SerializationError) as error:
            self._lose(worker, f"the connection with worker {worker.slot} was lost: {error}")

    def _let_in(self) -> None:
        for connection, hello in self._connections.admitted():
            slot, incarnation, host, port, name, pid = unpack(hello)
            member = Member(incarnation, host, port)
            if slot >= self._slots or self.is_closed or self.table.with_member(slot, member) is None:
                _log.warning("a process %d on %s is not worker %d any more, and is sent away", pid, name, slot)
                connection.close()
                continue
            if slot in self.workers:
                self._lose(self.workers[slot], f"worker {slot} was replaced")
            self.table = self.table.with_member(slot, member) or self.table
            worker = self.workers[slot] = Worker(slot, member, name, pid)
            worker.link = self._connections.add(connection, worker)
            level = logging.INFO if self.last_lost is None else logging.WARNING  # as the loss was
            _log.log(level, "worker %d is process %d on %s", slot, pid, name)
            self._watcher.came(slot)
            if len(self.workers) == self._slots:
                members = [[each, *self.table.members[each]] for each in sorted(self.table.members)]
                for each in list(self.workers):
                    self.tell(each, Frame(Kind.TABLE, payload=pack([self.table.number, members])))
            self.changed.notify_all()

    def _look_for_silent(self) -> None:
        silent_s = max(self._timeout_s, _SILENT_S)
        latest = time.monotonic() - silent_s
        for worker in self.workers.values():
            worker.link.end_if_dead()
        for worker in [each for each in self.workers.values() if each.heard_at < latest]:
            self.end(worker, f"worker {worker.slot} has not answered for {silent_s:g} s")
