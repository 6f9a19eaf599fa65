"""The rounds of a worker: which frames belong to which, and which are late. Does no I/O of its own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.plan.wiring import BatchPhase
from anchorbolt.engine.task.commit_task import run_commit_task
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import as_failure
from anchorbolt.engine.task.round_text import round_from_text
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.hosted_spouts import HostedSpouts
from anchorbolt.engine.workers.inbox import Space
from anchorbolt.engine.workers.rounds import Member, Placement, Slot, Table
from anchorbolt.engine.workers.sources import SourceTask, opened
from anchorbolt.engine.workers.worker_round import Arrivals, Send, TellDriver, WorkerRound
from anchorbolt.errors import AnchorboltError
from anchorbolt.serialization import pack, unpack
from anchorbolt.transactional.batches.flights import BatchDriver

_ABANDONED_KEPT = 8

FEED = -1
"""In place of a slot: a task of a stream spout."""


class WorkerRounds:
    """The rounds that run in one worker, the blobs of rounds that have not begun here, and the kept instances."""

    def __init__(
        self,
        plan: ExecutionPlan,
        slots: int,
        slot: Slot,
        space: Space,
        send: Send,
        tell: TellDriver,
        emitters: BatchDriver | None = None,
        wake: Callable[[], None] = lambda: None,
        spouts: HostedSpouts | None = None,
    ) -> None:
        """Create it.

        Args:
            plan: The plan of the run.
            slots: The number of workers.
            slot: The number of this one.
            space: The memory for blobs.
            send: Sends a blob to another worker.
            tell: Sends a frame to the driver.
            emitters: Answers the emitters of a transactional topology.
            wake: Called on any thread when `step` has something to do again.
            spouts: The tasks of rich spouts that this worker hosts; None if the driver hosts them.
        """
        self._plans = [plan] if not plan.wiring.batch_spout else [plan, plan.commit_phase()]
        self._placements = [Placement(each.wiring, slots) for each in self._plans]
        self._slot = slot
        self._space = space
        self._send_on, self._tell = send, tell
        self._emitters, self._wake, self._spouts = emitters, wake, spouts
        self.registry = InstanceRegistry()
        self._free: list[InstanceRegistry] = []  # of processing phases that have ended
        self._abandoned: list[InstanceRegistry] = []  # of processing phases that were given up
        self._of_phase: dict[int, InstanceRegistry] = {}  # by round: of a processing phase
        self._rounds: dict[int, WorkerRound] = {}  # ascending
        self._early: dict[int, Arrivals] = {}  # of rounds that have not begun here
        self._last = 0  # the last round that has begun here, or was given up
        self._cut: set[tuple[int, Slot]] = set()  # rounds, and workers that were lost in them
        self.table = Table(0, {})
        self.runs_task: Callable[[TaskKey], None] = lambda task: None
        """Called before a task works, for the watchdog."""
        self.is_stopped = False

    def step(self) -> bool:
        """Run one small step of the oldest round that can go on; return False if no round can."""
        for number, current in list(self._rounds.items()):
            try:
                if current.step():
                    if current.is_done:
                        self._drop(number)
                    return True
            except AnchorboltError as error:
                self._give_up(number, error.message)
            except OSError as error:
                self._give_up(number, f"worker {self._slot} cannot keep blobs in a file: {error}")
        return False

    def is_old(self, slot: Slot, incarnation: int, number: int) -> bool:
        """Return whether a worker that connects under a table's number was replaced since."""
        known = self.table.members.get(slot)
        return known is not None and number <= self.table.number and known.incarnation != incarnation

    def arrive(self, frame: Frame) -> None:
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
            self._give_up(frame.round, f"worker {self._slot} cannot keep blobs in a file: {error}")

    def obey(self, frame: Frame) -> None:
        """Do what the driver says."""
        kind, number, level, _, payload = frame
        if kind is Kind.ROUND:
            self._begin(number, *unpack(payload))
        elif kind is Kind.EXPECT:
            if number in self._rounds:
                self._rounds[number].expect(level, unpack(payload))
        elif kind is Kind.ABORT:
            self._last = max(self._last, number)
            self._drop(number)
        elif kind is Kind.TABLE:
            table, members = unpack(payload)
            self.table = Table(table, {slot: Member(*member) for slot, *member in members})
        elif kind is Kind.HANDLE:
            self._answer(number, self._handled(payload))
        elif kind is Kind.COMMIT:
            phase, group, threads, text = pickle.loads(payload)  # noqa: S301 - made by the driver of this run
            plan = self._plans[phase]
            self._answer(number, run_commit_task(plan, group, round_from_text(plan, text), threads)[0].payload)
        elif kind is Kind.SPOUT:
            assert self._spouts is not None
            self._spouts.obey(*pickle.loads(payload))  # noqa: S301 - likewise
        elif kind is Kind.STOP:
            self.is_stopped = True

    def cannot_reach(self, slot: Slot, reason: str) -> None:
        """Report a lost connection. All running rounds have failed, including those that this worker has finished.

        The other worker may not have received all blobs. Later rounds use a new connection.
        """
        self._cut |= {(number, slot) for number in self._rounds}
        self._tell(Frame(Kind.LOST, self._last, payload=pack([slot, reason])))

    def close(self) -> None:
        """Drop all rounds, and close the instances."""
        for number in list(self._rounds):
            self._drop(number)
        for registry in (self.registry, *self._free, *self._abandoned):
            self._close(registry)

    def _close(self, registry: InstanceRegistry) -> None:
        for plan in self._plans:
            registry.close_run(plan.run_id)

    def _begin(self, number: int, phase: int, text: str, tasks: Sequence[Sequence[Any]]) -> None:
        plan = self._plans[phase]
        current = round_from_text(plan, text)
        registry, is_processing = self.registry, plan.wiring.phase is BatchPhase.PROCESSING
        if is_processing:  # several batches are processed at a time
            registry = self._of_phase[number] = self._free.pop() if self._free else InstanceRegistry()
        others = self._emitters, self._wake, self._spouts
        sources = [opened(SourceTask(*task), plan, current, registry, *others) for task in tasks]
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
            self._tell,
            self.runs_task,
            waits_for_sources=is_processing and plan.wiring.batch_spout in plan.wiring.tasks,
        )
        for each in [each for each in self._early if each < number]:
            self._early.pop(each).close()
        if self._rounds[number].is_done:  # no task of its phase runs here
            self._drop(number)

    def _send(self, slot: Slot, frame: Frame) -> None:
        if (frame.round, slot) not in self._cut:  # else the round has failed
            self._send_on(slot, frame)

    def _give_up(self, number: int, reason: str) -> None:
        self._tell(Frame(Kind.LOST, number, payload=pack([self._slot, reason])))
        self._drop(number)

    def _drop(self, number: int) -> None:
        self._cut -= {each for each in self._cut if each[0] == number}
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
            while len(self._abandoned) > _ABANDONED_KEPT:
                self._close(self._abandoned.pop(0))

    def _handled(self, payload: bytes) -> AnchorboltError | None:
        phase, checkpoint, tasks, text = pickle.loads(payload)  # noqa: S301 - made by the driver of this run
        plan = self._plans[phase]
        current = round_from_text(plan, text)
        for task in tasks:
            try:
                self.registry.handle(plan, checkpoint, task, current)
            except Exception as error:
                return as_failure(error, current.txid, plan.masking)
        return None

    def _answer(self, number: int, answer: object) -> None:
        self._tell(Frame(Kind.ANSWER, number, payload=pickle.dumps(answer)))
