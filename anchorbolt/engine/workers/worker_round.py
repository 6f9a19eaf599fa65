"""One round in a worker: runs the tasks of its slot, blob by blob. Does no I/O of its own."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.bolt_task import BoltTask
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.task.round_text import attempt_id
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.inbox import Inbox, Space
from anchorbolt.engine.workers.rounds import Placement, Slot
from anchorbolt.errors import InfrastructureLost
from anchorbolt.faults.points import at_task
from anchorbolt.serialization import pack

_KEPT = b""  # in place of a blob: the task executes what it kept for the commit phase


class TaskSource(Protocol):
    """A task of a spout in a worker."""

    @property
    def is_ended(self) -> bool:
        """Whether the task has sent all, and its report."""

    def take(self) -> Envelope | None:
        """Return the next blob, or None if none is ready."""

    def close(self) -> None:
        """Give the task up."""


class InlineSource:
    """A task that computes its blobs when they are asked for."""

    def __init__(self, envelopes: Iterator[Envelope]) -> None:
        self._envelopes = envelopes
        self.is_ended = False

    def take(self) -> Envelope | None:
        envelope = next(self._envelopes, None)
        self.is_ended = envelope is None
        return envelope

    def close(self) -> None:
        close = getattr(self._envelopes, "close", None)
        if close is not None:
            close()


class Arrivals:
    """The blobs of one round that have arrived from other processes; perhaps before the round has begun here."""

    def __init__(self, space: Space) -> None:
        self.inboxes: defaultdict[int, Inbox] = defaultdict(lambda: Inbox(space))
        self.received: Counter[int] = Counter()  # by level

    def put(self, frame: Frame) -> None:
        self.received[frame.level] += 1
        self.inboxes[frame.level].put(frame.destination, frame.payload)

    def close(self) -> None:
        for inbox in self.inboxes.values():
            inbox.close()


Send = Callable[[Slot, Frame], None]
"""Sends a frame to another worker."""

TellDriver = Callable[[Frame], None]


class WorkerRound:
    """The tasks of one worker in one round. The owner calls `step` while it returns True, and passes on the frames.

    Tasks of later levels run first, so that little waits. A task's input is complete if as many blobs have arrived as
    the driver says that others have sent.
    """

    def __init__(
        self,
        number: int,
        plan: ExecutionPlan,
        current: Round,
        placement: Placement,
        slot: Slot,
        registry: InstanceRegistry,
        sources: Sequence[TaskSource],
        arrivals: Arrivals,
        send: Send,
        tell: TellDriver,
        runs_task: Callable[[TaskKey], None],
        *,
        waits_for_sources: bool,
    ) -> None:
        """Begin the round: obtain the instances of the tasks.

        Args:
            number: The fleet's number of the round.
            plan: The plan, of the phase that the round runs.
            current: The round.
            placement: The slots of the tasks.
            slot: This worker's.
            registry: The instances of this worker for the phase.
            sources: The tasks of spouts that run here.
            arrivals: The blobs that came before.
            send: Sends a blob to another worker.
            tell: Sends a frame to the driver.
            runs_task: Called before a task works.
            waits_for_sources: Whether no bolt may see a tuple before all tasks of the spout have ended: they store the
                batch's metadata.
        """
        self.number = number
        self._plan = plan
        self._round = current
        self._placement = placement
        self._slot = slot
        self._sources = list(sources)
        self._arrivals = arrivals
        self._send = send
        self._tell = tell
        self._runs_task = runs_task
        self._is_held = waits_for_sources
        self._expected: dict[int, int] = {}  # blobs of other processes, by level
        self._sent: Counter[tuple[int, Slot]] = Counter()  # since the last frame to the driver
        self._reports: list[bytes] = []  # likewise
        self._tasks: dict[int, dict[int, TaskKey]] = {}  # by level and partition
        self._runs: dict[TaskKey, BoltTask] = {}
        self._running: dict[int, tuple[TaskKey, Iterator[Envelope]]] = {}  # by level: a task within a blob
        for position, (level, partition, task) in enumerate(placement.tasks(plan.wiring, slot)):
            self._tasks.setdefault(level, {})[partition] = task
            # The numbers of the plan's tasks in turn: see `round_text`.
            attempt = attempt_id(plan, current, position * placement.slots + slot)
            self._runs[task] = BoltTask(plan, task, current, registry, attempt)
            if current.batch is not None and current.batch.hand_offs is not None:
                self._arrivals.inboxes[level].put(partition, _KEPT)
        self._unended = sorted(self._tasks)  # levels
        self._finished = 0  # tasks of the first of them

    @property
    def is_done(self) -> bool:
        return not self._unended and not self._sources

    def receive(self, frame: Frame) -> None:
        """Take a blob of another process."""
        self._arrivals.put(frame)

    def expect(self, level: int, blobs: int) -> None:
        """Note how many blobs other processes have sent to the tasks of a level; they send no more."""
        self._expected[level] = blobs
        self._is_held = False

    def step(self) -> bool:
        """Do a small part of the work; return False if there is nothing to do now.

        Raises `InfrastructureLost` if more blobs have arrived than were sent by the attempts that have won.
        """
        if not self._is_held:
            for level in reversed(self._unended):
                if level in self._running or self._arrivals.inboxes[level]:
                    self._execute(level)
                    return True
        if self._sources:
            return self._run_source()
        if not self._unended:
            return False
        level = self._unended[0]
        expected, received = self._expected.get(level), self._arrivals.received[level]
        if expected is None or received < expected:
            return False
        if received > expected:
            raise InfrastructureLost(
                f"a worker has received {received} blobs for level {level} of txid {self._round.txid}, and {expected} "
                "were sent: Spark ran a task of a spout again",
                txid=self._round.txid,
            )
        self._finish(level)
        return True

    def close(self) -> None:
        """Drop the rest of the round. The instance of a task that has not finished is not used again."""
        for _, running in self._running.values():
            running.close()  # type: ignore[attr-defined]
        for source in self._sources:
            source.close()
        self._arrivals.close()

    def _execute(self, level: int) -> None:
        """Go on with a blob of the level, until it has sent something or is done."""
        if level not in self._running:
            partition, payload = self._arrivals.inboxes[level].take()
            task = self._tasks[level][partition]
            run = self._runs[task]
            self._running[level] = task, run.receive(payload) if payload else run.execute_kept()
        task, running = self._running[level]
        at_task(*task, self._round.txid)
        self._runs_task(task)
        envelope = next(running, None)
        if envelope is None:
            del self._running[level]
        else:
            self._out(envelope)

    def _run_source(self) -> bool:
        for source in self._sources:
            envelope = source.take()
            if envelope is not None:
                self._out(envelope)
                return True
            if source.is_ended:
                self._sources.remove(source)
                if not self._sources:
                    self._end(0, ())
                return True
        return False

    def _finish(self, level: int) -> None:
        """Finish one task of a level; after the last one, tell the driver."""
        tasks = list(self._tasks[level].values())
        task = tasks[self._finished]
        at_task(*task, self._round.txid)
        self._runs_task(task)
        for envelope in self._runs[task].finish():
            self._out(envelope)
        self._finished += 1
        if self._finished == len(tasks):
            self._finished = 0
            self._unended.pop(0)
            self._end(level, tasks)

    def _end(self, level: int, tasks: Sequence[TaskKey]) -> None:
        executed = [[*task, self._runs[task].report.tuples_in] for task in tasks]
        sent = [[each, slot, blobs] for (each, slot), blobs in self._sent.items()]
        self._tell(Frame(Kind.ENDED, self.number, level, payload=pack([sent, executed, self._reports])))
        self._sent, self._reports = Counter(), []

    def _out(self, envelope: Envelope) -> None:
        _, level, destination, payload = envelope
        if level == self._plan.wiring.driver_level:
            self._reports.append(payload)
            return
        slot = self._placement.of(level, destination)
        if slot == self._slot:
            self._arrivals.inboxes[level].put(destination, payload)
            return
        self._sent[level, slot] += 1
        self._send(slot, Frame(Kind.BLOB, self.number, level, destination, payload))
