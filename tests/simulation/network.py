"""The workers of a simulated driver, and the connections between them: what `WorkerProcess` does, without sockets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.hosted_spouts import HostedSpouts
from anchorbolt.engine.workers.inbox import Space
from anchorbolt.engine.workers.rounds import Slot
from anchorbolt.engine.workers.worker_rounds import FEED, WorkerRounds
from anchorbolt.transactional.batches.flights import BatchDriver
from tests.simulation.actors import Process

if TYPE_CHECKING:
    from tests.simulation.world import World

Event = Callable[[], None]
"""Something that can happen next."""


class Wire:
    """A connection to a worker: frames arrive in order, until its end. Each side notices the end by itself."""

    def __init__(self, source: Node | None, target: Node) -> None:
        """Connect; `source` is None for a task of a spout."""
        self.slot, self.incarnation, self.table = FEED, 0, 0  # what the hello says
        if source is not None:
            self.slot, self.incarnation, self.table = source.slot, source.incarnation, source.rounds.table.number
        self.target = target
        self.frames: deque[Frame] = deque()
        self.is_admitted = False
        self.is_broken = False
        target.incoming.append(self)

    def cut(self, kept: int) -> None:
        """Break it: of the frames on their way, only the first ones arrive."""
        self.is_broken = True
        while len(self.frames) > kept:
            self.frames.pop()


class Node:
    """A worker. Its driver chooses which of its `events` happens next."""

    def __init__(
        self,
        world: World,
        nodes: Mapping[int, Node],
        plan: ExecutionPlan,
        slots: int,
        slot: Slot,
        incarnation: int,
        emitters: BatchDriver | None,
    ) -> None:
        """Start it; `nodes` are all workers by incarnation, as others connect to them."""
        self.slot, self.incarnation = slot, incarnation
        self.process = Process(world.process)
        self.is_busy = False  # within an event
        self.from_driver: deque[Frame] = deque()
        self.to_driver: deque[Frame] = deque()
        self.incoming: list[Wire] = []
        self._world, self._nodes = world, nodes
        self._out: dict[Slot, Wire] = {}
        self._is_idle = True
        self.rounds = WorkerRounds(
            plan,
            slots,
            slot,
            Space(1 << 30, ""),
            self._send,
            self._tell,
            emitters,
            self._wake,
            HostedSpouts(plan, self._tell) if world.scenario.hosts_spouts else None,
        )

    @property
    def is_dead(self) -> bool:
        return self.process.is_killed

    @property
    def name(self) -> str:
        return f"worker {self.slot}.{self.incarnation}"

    @property
    def wires(self) -> list[Wire]:
        """The connections that carry blobs from or to this worker."""
        return [*self._out.values(), *self.incoming]

    def events(self) -> list[Event]:
        """Return what can happen next to this worker."""
        if self.is_dead or self.is_busy:
            return []
        found: list[Event] = []
        if not self._is_idle:
            found.append(self._work)
        if self.from_driver:
            found.append(self._obey)
        for wire in self.incoming:
            if wire.frames or wire.is_broken:
                found.append(lambda wire=wire: self._receive(wire))  # type: ignore[misc]
        for slot, wire in self._out.items():
            if wire.is_broken:
                found.append(lambda slot=slot: self._lose(slot))  # type: ignore[misc]
        return found

    def die(self) -> None:
        """End at once: what is on its way to others still arrives."""
        self.process.is_killed = True
        if self._world.broker is not None:
            self._world.broker.end(self.process)
        for wire in self.wires:
            wire.is_broken = True

    def _tell(self, frame: Frame) -> None:
        if not self.is_dead:
            self.to_driver.append(frame)

    def _wake(self) -> None:
        self._is_idle = False

    def _work(self) -> None:
        self._is_idle = not self.rounds.step()

    def _obey(self) -> None:
        frame = self.from_driver.popleft()
        self._is_idle = False
        self._world.worker = self.process if frame.kind is Kind.SPOUT else None
        self.rounds.obey(frame)  # no step of the world if it is for a spout
        self._world.worker = None
        if frame.kind is Kind.TABLE:
            self._end_older_wires()

    def _end_older_wires(self) -> None:
        members = self.rounds.table.members
        for wire in [each for each in self.incoming if each.slot != FEED]:
            if wire.slot not in members or members[wire.slot].incarnation > wire.incarnation:
                self.incoming.remove(wire)
                wire.cut(0)
        for slot, wire in list(self._out.items()):
            if slot not in members or members[slot].incarnation > wire.target.incarnation:
                del self._out[slot]
                wire.is_broken = True

    def _receive(self, wire: Wire) -> None:
        self._is_idle = False
        if not wire.is_admitted and self.rounds.is_old(wire.slot, wire.incarnation, wire.table):
            self._world.say(f"{self.name} refuses worker {wire.slot}.{wire.incarnation}")
            self.incoming.remove(wire)
            wire.cut(0)
            return
        wire.is_admitted = True
        if wire.frames:
            self.rounds.arrive(wire.frames.popleft())
            return
        self._world.say(f"{self.name} loses the connection of {'a spout' if wire.slot == FEED else wire.slot}")
        self.incoming.remove(wire)
        self.rounds.cannot_reach(wire.slot, "simulated: a connection was lost")

    def _lose(self, slot: Slot) -> None:
        self._world.say(f"{self.name} loses the connection to {slot}")
        del self._out[slot]
        self.rounds.cannot_reach(slot, "simulated: a connection was lost")

    def _send(self, slot: Slot, frame: Frame) -> None:
        wire = self._out.get(slot)
        if wire is None:
            known = self.rounds.table.members.get(slot)
            target = None if known is None else self._nodes.get(known.incarnation)
            if target is None or target.is_dead:
                self.rounds.cannot_reach(slot, "simulated: nobody listens")
                return
            wire = self._out[slot] = Wire(self, target)
        if not wire.is_broken:
            wire.frames.append(frame)
        elif self._world.choices.pick(2):  # otherwise the system takes the bytes, and drops them later
            self._lose(slot)
