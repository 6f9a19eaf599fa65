"""The driver's side of the workers: lets them in, sends them rounds, and notices if one is lost."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.engine.driver.runner import WorkerFigures
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.round_text import round_to_text
from anchorbolt.engine.workers.connections import Connections
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.gate import Gate
from anchorbolt.engine.workers.links import Address, Link, Secret
from anchorbolt.engine.workers.rounds import Member, Placement, RoundProgress, Slot, Table
from anchorbolt.engine.workers.sources import SourceTask
from anchorbolt.engine.workers.worker_rounds import FEED
from anchorbolt.errors import InfrastructureLost, SerializationError, WaveFailed
from anchorbolt.serialization import pack, unpack
from anchorbolt.util.messages import counted

_log = logging.getLogger("anchorbolt.engine")

_POLL_S = 1.0
_SILENT_S = 5.0  # at least: a worker tells each second that it is there
_OTHERS_S = 1.0  # how long a worker that cannot reach another one may be the first to say so

Feed = Callable[[int, Table, "Future[None]"], tuple[Mapping[tuple[int, Slot], int], list[bytes]]]
"""Runs the tasks of stream spouts, which send their blobs to the workers of the table under the round's number.

If the future gets an error, the round has failed: the call then gives up, and raises `WaveFailed`.
Returns the number of blobs sent by level and worker, and the reports.
"""


class WorkerSpouts(Protocol):
    """The driver's side of the rich spouts in workers. Called with the lock of `changed`, except `do_later`."""

    def came(self, slot: Slot) -> None:
        """Note that a worker has registered."""

    def gone(self, slot: Slot) -> None:
        """Note that a worker was lost."""

    def said(self, slot: Slot, payload: bytes) -> None:
        """Take the payload of a frame of kind `SPOUT`."""

    def do_later(self) -> None:
        """Do what may last, without the lock. Called after the others."""


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


class _Worker:
    """A worker that has registered."""

    link: Link

    def __init__(self, slot: Slot, member: Member, name: str, pid: int) -> None:
        self.slot, self.member, self.name, self.pid = slot, member, name, pid
        self.since, self.heard_at = time.time(), time.monotonic()
        self.pulse: Sequence[Any] = (0, 0, 0, ())


class _Loss(Exception):
    """A worker was lost while something ran."""

    def __init__(self, reason: str, worker: _Worker | None = None, *, is_silent: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.worker, self.is_silent = reason, worker, is_silent


class _Running:
    """A round or a request that runs."""

    def __init__(self, progress: RoundProgress | None, asked: Iterable[Slot] = ()) -> None:
        self.progress = progress  # None for a request
        self.asked = set(asked)  # workers that have not answered
        self.answers: list[Any] = []
        self.done: Future[None] = Future()

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class Fleet:
    """The workers of one run. `run` and `ask` may be called on several threads."""

    def __init__(
        self, plans: Sequence[ExecutionPlan], slots: int, hosts: Hosts, host: str, bind_to: str, secret: Secret
    ) -> None:
        """Listen for the workers.

        Args:
            plans: The plan of each phase: of the whole topology; or of the processing phase and of the commit phase.
            slots: The number of workers.
            hosts: Starts them.
            host: The driver's address, by which they reach it.
            bind_to: The address to listen at.
            secret: What the workers must know.

        Raises `OSError` if the machine does not have the address.
        """
        self._plans = plans
        self.slots = slots
        self.placements = [Placement(plan.wiring, slots) for plan in plans]
        self._hosts = hosts
        self._timeout_s = plans[0].settings.message_timeout_secs
        self._lock = threading.RLock()
        self.changed = threading.Condition(self._lock)  # also guards the hosts of `spouts`
        self.spouts: WorkerSpouts | None = None
        self._table = Table(0, {})
        self._workers: dict[Slot, _Worker] = {}
        self._running: dict[int, _Running] = {}
        self._latest: RoundProgress | None = None
        self._last_lost: _Worker | None = None
        self._number = 0  # of rounds and requests
        self._is_closed = self._is_over = False
        self._no_more = ""  # why no worker can be started any more
        self._connections = Connections[_Worker]()
        self._gate = Gate(host, bind_to, self._connections.admit, secret)
        self.address = self._gate.address
        self._thread = threading.Thread(target=self._work, name="anchorbolt-fleet", daemon=True)
        self._thread.start()

    def start(self) -> None:
        self._hosts.start(self.address, self._gone)

    def _gone(self, reason: str) -> None:
        with self._lock:
            self._no_more = reason
            self.changed.notify_all()

    def run(
        self,
        phase: int,
        current: Round,
        sources: Mapping[Slot, Sequence[SourceTask]],
        feed: Feed | None = None,
        cancel: Callable[[Callable[[], None]], None] = lambda abort: None,
    ) -> list[bytes]:
        """Run a round in all workers; return the reports of its tasks, still encoded.

        Args:
            phase: The position of the plan.
            current: The round.
            sources: The tasks of spouts by worker.
            feed: Runs the tasks of stream spouts; None without them.
            cancel: Gets a function that gives the round up, to be called on any thread.

        Raises `InfrastructureLost` or another `WaveFailed` if a worker is lost or does not come; the error of `feed`.
        """
        plan, text = self._plans[phase], round_to_text(self._plans[phase], current)
        running = _Running(RoundProgress(self.placements[phase], sources, has_feed=feed is not None))
        assert running.progress is not None
        with self._lock:
            table = self._complete_table(current.txid)
            number = self._begin(running)
            if plan is self._plans[-1]:
                self._latest = running.progress
            for slot in range(self.slots):
                tasks = [list(task) for task in sources.get(slot, ())]
                self._tell(slot, Frame(Kind.ROUND, number, payload=pack([phase, text, tasks])))
            self._tell_expected(number, running.progress.begin())
        cancel(lambda: self._fail(number, WaveFailed(f"batch {current.txid} was given up", txid=current.txid)))
        reports: list[bytes] = []
        try:
            if feed is not None:
                try:
                    sent, reports = feed(number, table, running.done)
                except WaveFailed:
                    if running.done.done():  # the reason why the call has failed
                        running.done.result()
                    raise
                with self._lock:
                    self._tell_expected(number, running.progress.feed_ended(sent))
                    self._end_if_done(number, running)
            running.done.result()
        except _Loss as loss:
            raise self._failure(loss, current.txid, table.number, phase, running.progress) from None
        finally:
            self._end(number, has_failed=not running.progress.is_done)
        return [*reports, *running.progress.reports]

    def ask(self, kind: Kind, payloads: Mapping[Slot, bytes], txid: int, *, needs_all: bool = True) -> list[Any]:
        """Send a request to some workers; return their answers. Raises as `run`.

        Without `needs_all`, workers that are not there are left out.
        """
        with self._lock:
            if needs_all:
                self._complete_table(txid)
            table = self._table
            asked = [slot for slot in payloads if slot in self._workers]
            if not asked:
                return []
            running = _Running(None, asked)
            number = self._begin(running)
            for slot in asked:
                self._tell(slot, Frame(kind, number, payload=payloads[slot]))
        try:
            running.done.result()
        except _Loss as loss:
            raise self._failure(loss, txid, table.number) from None
        finally:
            self._end(number, has_failed=False)
        return running.answers

    def tell(self, slot: Slot, frame: Frame) -> None:
        """Send a frame to a worker, if it is there."""
        with self._lock:
            self._tell(slot, frame)

    def has(self, slot: Slot) -> bool:
        return slot in self._workers

    @property
    def has_ended(self) -> bool:
        """Whether no more workers come."""
        return self._is_closed or self._no_more != ""

    def end(self, slot: Slot, reason: str) -> None:
        """Give up a worker that does not answer; another one takes its place."""
        with self._lock:
            worker = self._workers.get(slot)
            if worker is not None:
                self._end_silent(worker, reason)

    def progress(self) -> tuple[Mapping[TaskKey, int], int]:
        """Return the tuples executed by each ended task of the latest round, and the number of all its tasks."""
        latest = self._latest
        if latest is None:
            return {}, 0
        tasks = 0 if latest.is_done else sum(map(len, self.placements[-1].levels))
        return dict(latest.executed), tasks

    def figures(self) -> list[WorkerFigures]:
        """Return the workers that are there. May be called on any thread."""
        with self._lock:
            workers = sorted(self._workers.values(), key=lambda each: each.slot)
        found = []
        for each in workers:
            held, spilled, cached, sent = each.pulse
            tasks = sum(level.count(each.slot) for level in self.placements[0].levels)
            found.append(
                WorkerFigures(
                    each.slot, each.name, each.pid, each.since, tasks, held, spilled, cached, dict(map(tuple, sent))
                )
            )
        return found

    def close(self) -> None:
        """Stop the workers."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            for slot in list(self._workers):
                self._tell(slot, Frame(Kind.STOP))
            for number in list(self._running):
                self._fail(number, _Loss("the run has ended"))
            self.changed.notify_all()
        self._hosts.close()
        self._is_over = True
        self._connections.wake()
        self._thread.join(_POLL_S * 5)
        self._gate.close()
        with self._lock:
            self._workers = {}
            self._connections.close()

    def _complete_table(self, txid: int) -> Table:
        """Wait until all workers are there. Called with the lock."""
        is_complete = self.changed.wait_for(
            lambda: self._is_closed or self._no_more != "" or len(self._workers) == self.slots, self._timeout_s
        )
        if self._no_more:
            raise WaveFailed(f"workers cannot be started any more: {self._no_more}", txid=txid)
        if not is_complete or self._is_closed:
            missing = [slot for slot in range(self.slots) if slot not in self._workers]
            raise InfrastructureLost(
                f"{counted(len(missing), 'worker')} of {self.slots} (topology.workers) did not come within "
                f"{self._timeout_s} s: {missing[:10]}. See whether Spark has free slots, and whether its executors can "
                f"reach the driver at {self.address.host}:{self.address.port}.",
                txid=txid,
            )
        return self._table

    def _begin(self, running: _Running) -> int:
        self._number += 1
        self._running[self._number] = running
        return self._number

    def _end(self, number: int, *, has_failed: bool) -> None:
        with self._lock:
            self._running.pop(number, None)
            if has_failed:
                for slot in list(self._workers):
                    self._tell(slot, Frame(Kind.ABORT, number))

    def _failure(
        self, loss: _Loss, txid: int, number: int, phase: int = 0, progress: RoundProgress | None = None
    ) -> WaveFailed:
        """Return the error of a round that began under a table's number, once it is known why a worker was lost."""
        worker = loss.worker
        if worker is None:  # one cannot reach another, perhaps because that one has ended
            with self.changed:
                self.changed.wait_for(lambda: self._table.number != number, _OTHERS_S)
                worker = self._last_lost if self._table.number != number else None
        known = None
        if worker is not None and not loss.is_silent:
            tasks = self.placements[phase].tasks(self._plans[phase].wiring, worker.slot)
            unheard = [task for _, _, task in tasks if progress is not None and task not in progress.executed]
            known = self._hosts.why_lost(worker.slot, worker.member.incarnation, txid, unheard)
        return known or InfrastructureLost(f"{loss.reason}, in txid {txid}. The wave is tried again.", txid=txid)

    def _fail(self, number: int, error: Exception) -> None:
        with self._lock:
            running = self._running.get(number)
            if running is not None:
                running.fail(error)

    def _tell(self, slot: Slot, frame: Frame) -> None:
        """Send a frame to a worker. Called with the lock."""
        worker = self._workers.get(slot)
        if worker is None:
            return
        try:
            worker.link.send(frame)
        except OSError as error:
            self._lose(worker, f"worker {slot} was lost: {error}")
            return
        if worker.link.bytes_waiting:
            self._connections.wake()

    def _tell_expected(self, number: int, told: Iterable[tuple[Slot, int, int]]) -> None:
        for slot, level, blobs in told:
            self._tell(slot, Frame(Kind.EXPECT, number, level, payload=pack(blobs)))

    def _end_if_done(self, number: int, running: _Running) -> None:
        if running.progress is not None and running.progress.is_done and not running.done.done():
            running.done.set_result(None)

    # What follows runs on the fleet's own thread.

    def _work(self) -> None:
        look_at = 0.0
        while not self._is_over:
            with self._lock:
                self._connections.watch()
            ready = self._connections.select(_POLL_S)
            with self._lock:
                for link, events in ready:
                    worker = self._connections.peers.get(link)
                    if worker is not None:  # else it was lost meanwhile
                        self._move(worker, events)
                self._let_in()
                if time.monotonic() >= look_at:
                    self._look_for_silent()
                    look_at = time.monotonic() + _POLL_S
            if self.spouts is not None:
                self.spouts.do_later()

    def _move(self, worker: _Worker, events: int) -> None:
        try:
            frames = self._connections.move(worker.link, events)
            worker.heard_at = time.monotonic()
            for frame in frames:
                self._take(worker, frame)
        except EOFError:
            self._lose(worker, f"worker {worker.slot} (process {worker.pid} on {worker.name}) has ended")
        except (OSError, SerializationError) as error:
            self._lose(worker, f"the connection with worker {worker.slot} was lost: {error}")

    def _take(self, worker: _Worker, frame: Frame) -> None:
        kind, number, level, _, payload = frame
        if kind is Kind.PULSE:
            worker.pulse = unpack(payload)
            return
        if kind is Kind.SPOUT and self.spouts is not None:
            self.spouts.said(worker.slot, payload)
            self.changed.notify_all()
            return
        if kind is Kind.LOST:
            self._lose_connection(worker, number, *unpack(payload))
            return
        running = self._running.get(number)
        if running is None:  # it was given up
            return
        if kind is Kind.ENDED and running.progress is not None:
            self._tell_expected(number, running.progress.ended(worker.slot, level, *unpack(payload)))
            self._end_if_done(number, running)
        elif kind is Kind.ANSWER:
            running.answers.append(pickle.loads(payload))  # noqa: S301 - made by a worker of this run
            running.asked.discard(worker.slot)
            if not running.asked and not running.done.done():
                running.done.set_result(None)

    def _lose_connection(self, worker: _Worker, number: int, slot: Slot, reason: str) -> None:
        """Fail a round that a worker has given up, or all rounds that a lost connection may have carried."""
        for each, running in self._running.items():
            is_meant = each == number if slot == worker.slot else each <= number or slot == FEED
            if running.progress is not None and is_meant:
                running.fail(_Loss(reason))

    def _let_in(self) -> None:
        for connection, hello in self._connections.admitted():
            slot, incarnation, host, port, name, pid = unpack(hello)
            member = Member(incarnation, host, port)
            table = self._table.with_member(slot, member) if slot < self.slots else None
            if table is None or self._is_closed:
                _log.warning("a process %d on %s is not worker %d any more, and is sent away", pid, name, slot)
                connection.close()
                continue
            former = self._workers.get(slot)
            if former is not None:
                self._lose(former, f"worker {slot} was replaced")
                table = self._table.with_member(slot, member)
                assert table is not None
            self._table = table
            worker = self._workers[slot] = _Worker(slot, member, name, pid)
            worker.link = self._connections.add(connection, worker)
            _log.info("worker %d is process %d on %s", slot, pid, name)
            if self.spouts is not None:
                self.spouts.came(slot)
            if len(self._workers) == self.slots:
                members = [[each, *self._table.members[each]] for each in sorted(self._table.members)]
                for each in list(self._workers):
                    self._tell(each, Frame(Kind.TABLE, payload=pack([self._table.number, members])))
            self.changed.notify_all()

    def _lose(self, worker: _Worker, reason: str, *, is_silent: bool = False) -> None:
        """Forget a worker; what runs has failed. Called with the lock."""
        if self._workers.get(worker.slot) is not worker:
            return
        del self._workers[worker.slot]
        self._table = self._table.without(worker.slot)
        self._last_lost = worker
        if self.spouts is not None:
            self.spouts.gone(worker.slot)
        self._connections.remove(worker.link)
        if not self._is_closed:
            _log.warning("%s", reason)
        for running in self._running.values():
            if running.progress is not None or worker.slot in running.asked:
                running.fail(_Loss(reason, worker, is_silent=is_silent))
        self.changed.notify_all()

    def _look_for_silent(self) -> None:
        silent_s = max(self._timeout_s, _SILENT_S)
        latest = time.monotonic() - silent_s
        for worker in self._workers.values():
            worker.link.end_if_dead()
        for worker in [each for each in self._workers.values() if each.heard_at < latest]:
            self._end_silent(worker, f"worker {worker.slot} has not answered for {silent_s:g} s")

    def _end_silent(self, worker: _Worker, reason: str) -> None:
        self._lose(worker, reason, is_silent=True)
        threading.Thread(target=self._hosts.end, args=(worker.slot,), daemon=True).start()
