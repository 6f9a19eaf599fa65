"""The process of a worker: moves frames between its connections and its rounds, until the run ends."""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
import time
from contextlib import suppress
from typing import Any, NamedTuple

from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.watchdog import watched
from anchorbolt.engine.workers.connections import Connections
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.gate import Gate
from anchorbolt.engine.workers.hosted_spouts import HostedSpouts
from anchorbolt.engine.workers.inbox import Space
from anchorbolt.engine.workers.links import Address, Link, connect
from anchorbolt.engine.workers.rounds import Slot
from anchorbolt.engine.workers.worker_rounds import FEED, WorkerRounds
from anchorbolt.errors import SerializationError
from anchorbolt.serialization import pack, unpack
from anchorbolt.transactional.batches.flights import BatchDriver

_log = logging.getLogger("anchorbolt.engine")

_PULSE_S = 1.0
_GRACE_S = 5.0  # for a call of a bolt, after the driver is gone


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
        slots: int,
        driver: Address,
        slot: Slot,
        incarnation: int,
        emitters: BatchDriver | None,
        folder: str,
    ) -> None:
        """Connect to the driver, and listen for the other workers.

        Args:
            plan: The plan of the run.
            slots: The number of workers.
            driver: Where the driver listens.
            slot: The number of this worker.
            incarnation: Grows with each worker that gets the slot.
            emitters: Answers the emitters of a transactional topology.
            folder: Where blobs are kept that do not fit into memory.

        Raises:
            OSError: The driver cannot be reached, or this machine's address cannot be listened at.
        """
        self._plan = plan
        self._secret, self._slot, self._incarnation = driver.secret, slot, incarnation
        self._space = Space(plan.settings.worker_buffer_mb << 20, folder)
        self._connections = Connections[_Peer]()
        self._out: dict[Slot, Link] = {}
        self._is_ended = False
        self._driver = self._connections.add(connect(driver, self._hello), _DRIVER)
        self._spouts = HostedSpouts(plan, self._tell) if plan.settings.spouts_in == "workers" else None
        self._rounds = WorkerRounds(
            plan,
            slots,
            slot,
            self._space,
            self._send,
            self._driver.send,
            emitters,
            self._connections.wake,
            self._spouts,
        )
        threading.Thread(target=self._pulse, name="anchorbolt-pulse", daemon=True).start()

    def serve(self) -> None:
        """Run rounds until the run ends, or the driver is gone."""
        rounds = self._rounds
        try:
            with watched(self._plan, ("", -1)) as rounds.runs_task:
                while not rounds.is_stopped:
                    is_congested = self._connections.bytes_waiting > self._space.most
                    self._pump(wait=is_congested or not rounds.step())
        except EOFError:
            _log.info("worker %d ends: the driver is gone", self._slot)
        finally:
            self._is_ended = True
            self._close()

    def _hello(self, connection: socket.socket) -> bytes:
        """Open the gate at the address by which this machine reaches the driver; return what to tell the driver."""
        host = connection.getsockname()[0]
        self._gate = Gate(host, host, self._connections.admit, self._secret)
        own = [host, self._gate.address.port, socket.gethostname(), os.getpid()]
        return pack([self._slot, self._incarnation, *own])

    def _pump(self, *, wait: bool) -> None:
        self._connections.watch()
        for link, events in self._connections.select(None if wait else 0):
            if link in self._connections.peers:
                self._move(link, events)
        self._let_in()

    def _move(self, link: Link, events: int) -> None:
        peer = self._connections.peers[link]
        try:
            frames = self._connections.move(link, events)
        except (EOFError, OSError, SerializationError) as error:
            if peer is _DRIVER:
                raise EOFError from error
            self._lose(link, error)
            return
        for frame in frames:
            if peer is _DRIVER:
                self._rounds.obey(frame)
                if frame.kind is Kind.TABLE:
                    self._end_older_links()
            elif frame.kind is Kind.BLOB:
                self._rounds.arrive(frame)

    def _lose(self, link: Link, error: Exception) -> None:
        peer = self._connections.peers[link]
        self._remove(link)
        if peer.slot != FEED:
            self._rounds.cannot_reach(peer.slot, f"the connection with worker {peer.slot} was lost: {error}")
        elif link.is_cut or not isinstance(error, EOFError):
            self._rounds.cannot_reach(FEED, f"the connection with a task of a spout was lost: {error}")

    def _let_in(self) -> None:
        """Take the connections that the gate has admitted. One of a worker that was replaced is ended."""
        for connection, hello in self._connections.admitted():
            slot, incarnation, number = unpack(hello)
            if self._rounds.is_old(slot, incarnation, number):
                _log.warning("worker %d refuses worker %d of an older table", self._slot, slot)
                connection.close()
            else:
                self._connections.add(connection, _Peer(slot, incarnation, is_incoming=True))

    def _end_older_links(self) -> None:
        members = self._rounds.table.members
        for link, peer in list(self._connections.peers.items()):
            known = members.get(peer.slot)
            if peer.slot >= 0 and (known is None or known.incarnation > peer.incarnation):
                self._remove(link)

    def _remove(self, link: Link) -> None:
        peer = self._connections.peers[link]
        if self._out.get(peer.slot) is link:
            del self._out[peer.slot]
        self._connections.remove(link)

    def _send(self, slot: Slot, frame: Frame) -> None:
        link = self._out.get(slot)
        try:
            if link is None:
                link = self._connected(slot)
            link.send(frame)
        except OSError as error:
            if link is not None and link in self._connections.peers:
                self._remove(link)
            self._rounds.cannot_reach(slot, f"worker {self._slot} cannot reach worker {slot}: {error}")

    def _connected(self, slot: Slot) -> Link:
        table = self._rounds.table
        if slot not in table.members:
            raise ConnectionError("it is not known where it listens")
        incarnation, host, port = table.members[slot]
        hello = pack([self._slot, self._incarnation, table.number])
        connection = connect(Address(host, port, self._secret), lambda _: hello)
        self._out[slot] = link = self._connections.add(connection, _Peer(slot, incarnation, is_incoming=False))
        return link

    def _tell(self, frame: Frame) -> None:
        """Tell the driver, on any thread."""
        with suppress(OSError):  # the driver is gone, which this worker's own thread notices
            self._driver.send(frame)
            if self._driver.bytes_waiting:
                self._connections.wake()

    def _pulse(self) -> None:
        """Tell the driver every second that this process is alive, and end it soon after the driver is gone.

        A bolt's call may last long, so this is a thread of its own.
        """
        poll = select.poll()
        with suppress(OSError, ValueError):
            poll.register(self._driver.socket, getattr(select, "POLLRDHUP", select.POLLHUP))
            while not self._is_ended:
                if poll.poll(_PULSE_S * 1000):
                    break
                self._driver.send(Frame(Kind.PULSE, payload=pack(self._figures())))
                for link in list(self._connections.peers):
                    link.end_if_dead()
        until = time.monotonic() + _GRACE_S
        while not self._is_ended and time.monotonic() < until:
            time.sleep(_PULSE_S / 10)
        if not self._is_ended:
            os._exit(1)

    def _figures(self) -> list[Any]:
        sent = [
            [peer.slot, link.bytes_sent] for link, peer in list(self._connections.peers.items()) if not peer.is_incoming
        ]
        held = self._space.held + self._connections.bytes_waiting
        return [held, self._space.spilled, self._rounds.registry.cached_entries, sent]

    def _close(self) -> None:
        if self._spouts is not None:
            self._spouts.close()
        self._gate.close()
        self._connections.close()
        self._rounds.close()
