"""Runs rounds in workers that stay: what `Fleet` does, in the process of a simulated driver."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.task.round_text import round_to_text
from anchorbolt.engine.workers.fleet import WorkerSpouts
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.rounds import Member, Placement, RoundProgress, Slot, Table
from anchorbolt.engine.workers.sources import SourceTask
from anchorbolt.engine.workers.worker_rounds import FEED
from anchorbolt.errors import InfrastructureLost
from anchorbolt.serialization import pack, unpack
from anchorbolt.transactional.batches.flights import BatchDriver
from tests.simulation.actors import TaskLost
from tests.simulation.network import Event, Node, Wire
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_FAULTS = 0.008
"""How often a fault strikes before an event."""
_LATE_EVENTS = 60
_IDLE_EVENTS = 8
_MEANWHILE = 0.2
_FAULTS_MEANWHILE = 0.02

FeedTask = Callable[[], Iterable[Envelope]]
"""An attempt of a spout's task that is no task of a worker."""


class _Running:
    """A round or a request that runs."""

    def __init__(self, progress: RoundProgress | None, asked: Iterable[Slot] = ()) -> None:
        self.progress = progress  # None for a request
        self.asked = set(asked)  # workers that have not answered
        self.answers: list[Any] = []
        self.failure = ""

    @property
    def is_over(self) -> bool:
        is_done = not self.asked if self.progress is None else self.progress.is_done
        return is_done or bool(self.failure)


class _Changed:
    """The lock of a fleet, and its condition."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self._fleet, self._depth = fleet, 0

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._fleet.meanwhile()

    def __exit__(self, *_: object) -> None:
        self._depth -= 1

    def wait_for(self, predicate: Callable[[], bool], timeout_s: float) -> bool:
        if timeout_s:
            self._fleet.wait_for(predicate)
        return predicate()


class SimulatedFleet:
    """The workers of one driver. Its methods may be called by several actors of the driver's process."""

    def __init__(self, world: World, plans: Sequence[ExecutionPlan], slots: int) -> None:
        self._world, self._plans, self.slots = world, plans, slots
        self._placements = [Placement(plan.wiring, slots) for plan in plans]
        self.emitters: BatchDriver | None = None
        self.may_sleep = True  # whether a lost worker may go on for a while
        self._table = Table(0, {})
        self._nodes: dict[Slot, Node] = {}
        self._incarnations: dict[int, Node] = {}
        self._running: dict[int, _Running] = {}
        self._number = 0
        self.spouts: WorkerSpouts | None = None
        self.changed = _Changed(self)
        self.has_ended = False

    @property
    def nodes(self) -> Sequence[Node]:
        return list(self._nodes.values())

    def run(
        self,
        phase: int,
        current: Round,
        sources: Mapping[Slot, Sequence[SourceTask]],
        feed: Sequence[FeedTask] = (),
        check: Callable[[], None] = lambda: None,
    ) -> list[bytes]:
        """Run a round; return the reports. `check` may raise, and is called before each event."""
        progress = RoundProgress(self._placements[phase], sources, has_feed=bool(feed))
        running = _Running(progress)
        with self.changed:
            table = self._complete_table()
            number = self._begin(running)
            text = round_to_text(self._plans[phase], current)
            for node in self.nodes:
                tasks = [list(task) for task in sources.get(node.slot, ())]
                node.from_driver.append(Frame(Kind.ROUND, number, payload=pack([phase, text, tasks])))
            self._tell_expected(number, progress.begin())
        reports: list[bytes] = []
        feeding = self._feed(phase, number, table, feed, progress, reports) if feed else None
        try:
            self._go_on(running, feeding, check)
        finally:
            del self._running[number]
            if not progress.is_done:
                for node in self.nodes:
                    node.from_driver.append(Frame(Kind.ABORT, number))
        if running.failure:
            self._world.tries.lost(self._world.process, current.txid)
            raise InfrastructureLost(f"simulated: {running.failure}", txid=current.txid)
        return [*reports, *progress.reports]

    def ask(self, kind: Kind, payloads: Mapping[Slot, bytes], txid: int) -> list[Any]:
        """Send requests to workers; return their answers."""
        with self.changed:
            self._complete_table()
            running = _Running(None, payloads)
            number = self._begin(running)
            for slot, payload in payloads.items():
                self._nodes[slot].from_driver.append(Frame(kind, number, payload=payload))
        try:
            self._go_on(running, None, lambda: None)
        finally:
            del self._running[number]
        if running.failure:
            raise InfrastructureLost(f"simulated: {running.failure}", txid=txid)
        return running.answers

    def has(self, slot: Slot) -> bool:
        return slot in self._nodes

    def tell(self, slot: Slot, frame: Frame) -> None:
        if slot in self._nodes:
            self._nodes[slot].from_driver.append(frame)

    def wait_for(self, predicate: Callable[[], bool]) -> None:
        """Let things happen until something is true."""
        while not (predicate() or self._world.is_unwinding):
            self._complete_table()
            self._happens()

    def idle(self) -> None:
        """Let some things happen."""
        with self.changed:
            self._complete_table()
        for _ in range(self._world.choices.pick(_IDLE_EVENTS)):
            self._happens()

    def meanwhile(self) -> None:
        """Let the fleet's thread do something, perhaps, before another one gets the lock."""
        choices = self._world.choices
        if self.spouts is None or self._running or not choices.happens(_MEANWHILE):
            return
        if not self._nodes or not self._world.strikes(_FAULTS_MEANWHILE):
            self._happens()
            return
        node = self.nodes[choices.pick(len(self._nodes))]
        self._world.say(f"{node.name} dies, and its driver notices")
        node.die()
        self._lose(node, f"{node.name} has ended")
        if choices.pick(2):
            self._complete_table()

    def _begin(self, running: _Running) -> int:
        self._number += 1
        self._running[self._number] = running
        return self._number

    def _complete_table(self) -> Table:
        missing = [slot for slot in range(self.slots) if slot not in self._nodes]
        for slot in missing:
            incarnation = len(self._incarnations) + 1
            node = Node(self._world, self._incarnations, self._plans[0], self.slots, slot, incarnation, self.emitters)
            table = self._table.with_member(slot, Member(incarnation, "simulated", incarnation))
            assert table is not None
            self._table, self._nodes[slot], self._incarnations[incarnation] = table, node, node
            if self.spouts is not None:
                self.spouts.came(slot)
        if missing:
            members = [[each, *self._table.members[each]] for each in sorted(self._table.members)]
            for node in self.nodes:
                node.from_driver.append(Frame(Kind.TABLE, payload=pack([self._table.number, members])))
        return self._table

    def _go_on(self, running: _Running, feeding: Iterator[None] | None, check: Callable[[], None]) -> None:
        """Let one thing after the other happen until the round or request has ended, or has failed."""
        while not running.is_over:
            check()
            if self._happens(feeding):
                feeding = None

    def _happens(self, feeding: Iterator[None] | None = None) -> bool:
        """Let one thing happen; return whether `feeding` has ended."""
        choices = self._world.choices
        with self.changed:
            events = [(node, event) for node in self.nodes for event in node.events()]
            heard = [node for node in self.nodes if node.to_driver or (node.is_dead and not node.is_busy)]
            number = len(heard) + len(events) + (feeding is not None)
            chosen = choices.pick(number)
            if self._is_struck():
                return False
            if not number:
                if self._running and not any(node.is_busy for node in self.nodes):
                    self._world.break_off(Violation("workers wait for each other for ever"))
                self._world.wait("waits for workers")
            elif chosen < len(heard):
                self._hear(heard[chosen])
            elif chosen < len(heard) + len(events):
                self._turn(*events[chosen - len(heard)])
            elif feeding is not None:
                return next(feeding, self) is self
        return False

    def _turn(self, node: Node, event: Event) -> None:
        node.is_busy = True
        try:
            self._world.run_task(node.name, event)
        except TaskLost:
            node.die()
        finally:
            node.is_busy = False

    def _is_struck(self) -> bool:
        """Let a fault strike, perhaps; return whether one has."""
        world = self._world
        idle = [node for node in self.nodes if not node.is_busy and not node.is_dead]
        if not idle or not world.strikes(_FAULTS):
            return False
        node, fault = idle[world.choices.pick(len(idle))], world.choices.pick(4)
        wires = [wire for wire in node.wires if not wire.is_broken]
        if fault == 0 or (fault == 1 and not self.may_sleep):
            world.say(f"{node.name} dies")
            node.die()
        elif fault == 1:
            world.say(f"{node.name} does not answer")
            self._lose(node, f"{node.name} has not answered")
            world.start_late_attempt(node.name, lambda: self._live_on(node))
        elif wires:
            wire = wires[world.choices.pick(len(wires))]
            world.say(f"a connection from {wire.slot} to {wire.target.name} breaks")
            wire.cut(world.choices.pick(len(wire.frames) + 1))
        return True

    def _live_on(self, node: Node) -> None:
        """Let a worker that was replaced do what it can still do."""
        for _ in range(_LATE_EVENTS):
            self._world.step(f"{node.name} goes on")
            events = node.events()
            if not events:
                break
            events[self._world.choices.pick(len(events))]()
        node.die()

    def _hear(self, node: Node) -> None:
        """Take a frame of a worker, or notice that it has ended."""
        if not node.to_driver:
            node.die()
            self._lose(node, f"{node.name} has ended")
            return
        kind, number, level, _, payload = node.to_driver.popleft()
        running = self._running.get(number)
        if kind is Kind.SPOUT and self.spouts is not None:
            self.spouts.said(node.slot, payload)
            self.spouts.do_later()
        elif kind is Kind.LOST:
            slot, reason = unpack(payload)
            for each, other in self._running.items():
                is_meant = each == number if slot == node.slot else each <= number or slot == FEED
                if other.progress is not None and is_meant:
                    other.failure = reason
        elif running is None:
            self._world.say(f"hears of a round that was given up from {node.name}")
        elif kind is Kind.ENDED and running.progress is not None:
            self._tell_expected(number, running.progress.ended(node.slot, level, *unpack(payload)))
        elif kind is Kind.ANSWER:
            running.answers.append(pickle.loads(payload))  # noqa: S301 - made in this process
            running.asked.discard(node.slot)

    def _lose(self, node: Node, reason: str) -> None:
        if self._nodes.get(node.slot) is not node:
            return
        del self._nodes[node.slot]
        self._table = self._table.without(node.slot)
        if self.spouts is not None and self._world.broker is not None:
            self._world.broker.lost(node.process)
            self.spouts.gone(node.slot)
        for running in self._running.values():
            if running.progress is not None or node.slot in running.asked:
                running.failure = reason

    def _tell_expected(self, number: int, told: Iterable[tuple[Slot, int, int]]) -> None:
        for slot, level, blobs in told:
            if slot in self._nodes:
                self._nodes[slot].from_driver.append(Frame(Kind.EXPECT, number, level, payload=pack(blobs)))

    def _feed(
        self,
        phase: int,
        number: int,
        table: Table,
        tasks: Sequence[FeedTask],
        progress: RoundProgress,
        reports: list[bytes],
    ) -> Iterator[None]:
        """Run tasks of spouts in another process, blob by blob; see `anchorbolt.engine.workers.feed.Feed`."""
        world, sent = self._world, Counter[tuple[int, Slot]]()
        wires = {slot: Wire(None, self._incarnations[each.incarnation]) for slot, each in table.members.items()}
        for task in tasks:
            is_twice = world.strikes(0.02)
            if is_twice:
                world.say("a task of a spout runs twice")
                lost = list(task())
                yield from self._push(phase, number, wires, lost[: world.choices.pick(len(lost) + 1)], [], Counter())
            yield from self._push(phase, number, wires, task(), reports, sent)
        self._tell_expected(number, progress.feed_ended(sent))

    def _push(
        self,
        phase: int,
        number: int,
        wires: Mapping[Slot, Wire],
        envelopes: Iterable[Envelope],
        reports: list[bytes],
        sent: Counter[tuple[int, Slot]],
    ) -> Iterator[None]:
        for _, level, destination, payload in envelopes:
            if level == self._plans[phase].wiring.driver_level:
                reports.append(payload)
                continue
            slot = self._placements[phase].of(level, destination)
            sent[level, slot] += 1
            if not wires[slot].is_broken:
                wires[slot].frames.append(Frame(Kind.BLOB, number, level, destination, payload))
            yield
