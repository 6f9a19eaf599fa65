"""The driver's side of the workers: sends them rounds and requests, and gathers what they answer."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any, Protocol

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.engine.driver.runner import WorkerFigures
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.round_text import round_to_text
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.links import Secret
from anchorbolt.engine.workers.roster import Hosts, Roster, Worker
from anchorbolt.engine.workers.rounds import Placement, RoundProgress, Slot, Table
from anchorbolt.engine.workers.sources import SourceTask
from anchorbolt.engine.workers.worker_rounds import FEED
from anchorbolt.errors import InfrastructureLost, WaveFailed
from anchorbolt.serialization import pack, unpack

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


class _Loss(Exception):
    """A worker was lost while something ran."""

    def __init__(self, reason: str, worker: Worker | None = None, *, is_silent: bool = False) -> None:
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
        self.roster = Roster(slots, plans[0].settings.message_timeout_secs, hosts, (host, bind_to, secret))
        self.changed = self.roster.changed  # also guards the hosts of `spouts`
        self.address = self.roster.address
        self.spouts: WorkerSpouts | None = None
        self._running: dict[int, _Running] = {}
        self._latest: RoundProgress | None = None
        self._number = 0  # of rounds and requests
        self.roster.watch(self)

    def start(self) -> None:
        self.roster.start()

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
        with self.changed:
            table = self.roster.wait_until_complete(current.txid)
            number = self._begin(running)
            if plan is self._plans[-1]:
                self._latest = running.progress
            for slot in range(self.slots):
                tasks = [list(task) for task in sources.get(slot, ())]
                self.roster.tell(slot, Frame(Kind.ROUND, number, payload=pack([phase, text, tasks])))
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
                with self.changed:
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
        with self.changed:
            if needs_all:
                self.roster.wait_until_complete(txid)
            table = self.roster.table
            asked = [slot for slot in payloads if slot in self.roster.workers]
            if not asked:
                return []
            running = _Running(None, asked)
            number = self._begin(running)
            for slot in asked:
                self.roster.tell(slot, Frame(kind, number, payload=payloads[slot]))
        try:
            running.done.result()
        except _Loss as loss:
            raise self._failure(loss, txid, table.number) from None
        finally:
            self._end(number, has_failed=False)
        return running.answers

    def tell(self, slot: Slot, frame: Frame) -> None:
        """Send a frame to a worker, if it is there."""
        with self.changed:
            self.roster.tell(slot, frame)

    def has(self, slot: Slot) -> bool:
        return slot in self.roster.workers

    @property
    def has_ended(self) -> bool:
        """Whether no more workers come."""
        return self.roster.has_ended

    def end(self, slot: Slot, reason: str) -> None:
        """Give up a worker that does not answer; another one takes its place."""
        with self.changed:
            worker = self.roster.workers.get(slot)
            if worker is not None:
                self.roster.end(worker, reason)

    def progress(self) -> tuple[Mapping[TaskKey, int], int]:
        """Return the tuples executed by each ended task of the latest round, and the number of all its tasks."""
        latest = self._latest
        if latest is None:
            return {}, 0
        tasks = 0 if latest.is_done else sum(map(len, self.placements[-1].levels))
        return dict(latest.executed), tasks

    def figures(self, spout_tasks: Mapping[Slot, int] = MappingProxyType({})) -> list[WorkerFigures]:
        """Return the workers that are there. May be called on any thread.

        `spout_tasks` is the number of tasks that each has besides those of bolts and ackers.
        """
        with self.changed:
            workers = sorted(self.roster.workers.values(), key=lambda each: each.slot)
        found = []
        for each in workers:
            held, spilled, cached, sent = each.pulse
            tasks = sum(level.count(each.slot) for level in self.placements[0].levels) + spout_tasks.get(each.slot, 0)
            found.append(
                WorkerFigures(
                    each.slot, each.name, each.pid, each.since, tasks, held, spilled, cached, dict(map(tuple, sent))
                )
            )
        return found

    def close(self) -> None:
        """Stop the workers."""
        with self.changed:
            if self.roster.is_closed:
                return
            self.roster.is_closed = True
            for number in list(self._running):
                self._fail(number, _Loss("the run has ended"))
        self.roster.close()

    def _begin(self, running: _Running) -> int:
        self._number += 1
        self._running[self._number] = running
        return self._number

    def _end(self, number: int, *, has_failed: bool) -> None:
        with self.changed:
            self._running.pop(number, None)
            if has_failed:
                for slot in list(self.roster.workers):
                    self.roster.tell(slot, Frame(Kind.ABORT, number))

    def _failure(
        self, loss: _Loss, txid: int, number: int, phase: int = 0, progress: RoundProgress | None = None
    ) -> WaveFailed:
        """Return the error of a round that began under a table's number, once it is known why a worker was lost."""
        worker = loss.worker
        if worker is None:  # one cannot reach another, perhaps because that one has ended
            with self.changed:
                self.changed.wait_for(lambda: self.roster.table.number != number, _OTHERS_S)
                worker = self.roster.last_lost if self.roster.table.number != number else None
        known = None
        if worker is not None and not loss.is_silent:
            tasks = self.placements[phase].tasks(self._plans[phase].wiring, worker.slot)
            unheard = [task for _, _, task in tasks if progress is not None and task not in progress.executed]
            known = self._hosts.why_lost(worker.slot, worker.member.incarnation, txid, unheard)
        return known or InfrastructureLost(f"{loss.reason}, in txid {txid}. The wave is tried again.", txid=txid)

    def _fail(self, number: int, error: Exception) -> None:
        with self.changed:
            running = self._running.get(number)
            if running is not None:
                running.fail(error)

    def _tell_expected(self, number: int, told: Iterable[tuple[Slot, int, int]]) -> None:
        for slot, level, blobs in told:
            self.roster.tell(slot, Frame(Kind.EXPECT, number, level, payload=pack(blobs)))

    def _end_if_done(self, number: int, running: _Running) -> None:
        if running.progress is not None and running.progress.is_done and not running.done.done():
            running.done.set_result(None)

    def came(self, slot: Slot) -> None:
        """Note a new worker. Called by the roster."""
        if self.spouts is not None:
            self.spouts.came(slot)

    def gone(self, worker: Worker, reason: str, *, is_silent: bool) -> None:
        """Note that a worker was lost: what runs has failed. Called by the roster."""
        if self.spouts is not None:
            self.spouts.gone(worker.slot)
        for running in self._running.values():
            if running.progress is not None or worker.slot in running.asked:
                running.fail(_Loss(reason, worker, is_silent=is_silent))

    def do_later(self) -> None:
        """Do what may last. Called by the roster, without the lock."""
        if self.spouts is not None:
            self.spouts.do_later()

    def said(self, worker: Worker, frame: Frame) -> None:
        """Take a frame. Called by the roster."""
        kind, number, level, _, payload = frame
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

    def _lose_connection(self, worker: Worker, number: int, slot: Slot, reason: str) -> None:
        """Fail a round that a worker has given up, or all rounds that a lost connection may have carried."""
        for each, running in self._running.items():
            is_meant = each == number if slot == worker.slot else each <= number or slot == FEED
            if running.progress is not None and is_meant:
                running.fail(_Loss(reason))
