"""The world of one simulation: its store, files and source, the faults that strike, and the order of all steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from anchorbolt import errors
from anchorbolt.faults.points import FaultPoint, PointReached
from anchorbolt.state_backends.contract import Fence
from tests.simulation.actors import Actor, Crash, Process, TaskLost
from tests.simulation.broker import Broker
from tests.simulation.choices import Choices
from tests.simulation.endings import halts
from tests.simulation.invariants import Invariants
from tests.simulation.scenarios import Scenario
from tests.simulation.schedule import Schedule
from tests.simulation.store import SimulatedProvider, Snapshot
from tests.simulation.topology import Expected, batches_of_lines, batches_with_times
from tests.simulation.tries import Tries
from tests.simulation.violation import Violation

T = TypeVar("T")

_MOST_DRIVERS = 30
_MOST_STEPS = 20_000


class World:
    """Everything that outlives a process, and the faults that strike processes."""

    points = frozenset(
        {
            FaultPoint.TASK_EXECUTED,
            FaultPoint.TASK_PREPARED,
            FaultPoint.ROUND_ENDED,
            FaultPoint.WAVE_ENDED,
            FaultPoint.RECOVERED,
        }
    )
    """The points that are steps, at which a process may be killed."""
    risky_calls: Mapping[str, float] = {"rollback": 0.02, "commit": 0.02, "seal": 0.02}
    """The calls of the store that faults strike more often."""

    def __init__(
        self, choices: Choices, drive: Callable[[Any, str], None], scenario: Scenario, *, traced: bool = False
    ) -> None:
        """Make a world."""
        self.choices = choices
        self.schedule = Schedule(choices)
        self.store = SimulatedProvider(self)
        self.files: dict[str, bytes] = {}
        self.scenario = scenario
        self.store.commit_carries_updates = scenario.commits_in_tasks
        self.batches: list[list[str]] = []
        if self.scenario.has_stream:
            self.batches = batches_with_times(choices) if self.scenario.is_timed else batches_of_lines(choices)
        self.broker = Broker(self, self.scenario) if self.scenario.is_reliable else None
        self.invariants: Invariants = Invariants(
            self, Expected(self.batches), None if self.broker is None else self.broker.reliability
        )
        self.tries = Tries(may_repeat=self.scenario.is_reliable)
        self.now = 0.0  # the seconds on everybody's clock
        self.query_id = ""
        self.acknowledged = 0
        self.regressed = False
        self.trace: list[str] | None = [] if traced else None
        self._drive = drive
        self.faults_left = choices.pick(8)
        self.drivers = 0
        self._steps = 0
        self._snapshots: list[Snapshot] = []
        self._violation: BaseException | None = None
        self._halted = False
        self._looked_again = False
        self.has_ended_well = False  # the last driver
        self._late_from: int | None = None  # the last driver before the clock stands still, if anything has time
        self.worker: Process | None = None  # that starts threads, on the greenlet of its driver
        self._tasks: dict[Actor, str] = {}  # what an actor that runs a task's attempt runs

    def run(self) -> None:
        """Run until every batch is acknowledged and nobody runs any more; raises `Violation`."""
        actor: Actor | None = None
        try:
            while not self._halted:
                if not self.driver_lives() and not self.is_done:
                    self.start_driver()
                if not self.schedule.actors:
                    if not self.regressed or self._looked_again:
                        break
                    # What the store lost behind the last driver's back, the next one sees.
                    self._looked_again = True
                    self.faults_left = 0
                    self.start_driver()
                actor = self.schedule.next(actor)
                self.schedule.turn(actor)
                if self._violation is not None:
                    raise self._violation
                if actor.dead:
                    self._ended(actor)
                self.outside()
        finally:
            self.schedule.end(list(self.schedule.actors))
        if not self._halted:
            self.invariants.at_the_end()

    @property
    def is_done(self) -> bool:
        """Whether no driver is needed any more."""
        if self.acknowledged < len(self.batches):
            return False
        if self.scenario.is_timed and not self.has_ended_well:
            return False
        return self.broker is None or (self.broker.is_done and self.has_ended_well)

    @property
    def process(self) -> Process:
        """The process that runs."""
        return self.worker or self._running.process

    @property
    def is_unwinding(self) -> bool:
        """Whether no process is running here, or the running one has been killed."""
        return self.schedule.current is None or self.schedule.current.is_killed

    def say(self, text: str) -> None:
        """Add a line to the trace."""
        if self.trace is not None:
            who = "world" if self.schedule.current is None else self.schedule.current.name
            self.trace.append(f"{who:>10}: {text}")

    def strikes(self, probability: float) -> bool:
        """Decide whether a fault strikes, as long as there are any left."""
        if self.faults_left and self.choices.happens(probability):
            self.faults_left -= 1
            return True
        return False

    def step(self, what: str, risk: float = 0.004) -> None:
        """A step of the process at hand: it may be killed here, and others may run before it goes on."""
        actor = self.schedule.current
        if actor is None:
            return
        if actor.is_killed:
            raise Crash
        self._steps += 1
        if self._steps > _MOST_STEPS:
            self.break_off(Violation(f"no progress within {_MOST_STEPS} steps"))
        if self.strikes(risk):
            self._kill(actor, f"before: {what}")
        self.say(what)
        self.schedule.give_way()
        if actor.is_killed:
            raise Crash

    def wait(self, what: str) -> None:
        """A step of an actor that can only go on when another one has run."""
        if self.schedule.current is not None:
            self.schedule.current.is_waiting = True
        self.step(what)

    def clock(self) -> float:
        return self.now

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.say(f"it is {self.now} s")

    def start_thread(self, name: str, work: Callable[[], Any]) -> None:
        """Start a thread of the process at hand."""
        self.schedule.start(Actor(f"{name} of {self._running.name}", work, self.process))

    def call_store(self, namespace: str, name: str, call: Callable[[], T], fence: Fence | None, told: Any) -> T:
        """Carry out a call of the store, or lose it, or its reply, or repeat it."""
        what = f"{namespace.partition(':')[2]} {name} {'' if fence is None else tuple(fence)} {told}"
        self.step(what)
        # A rollback or a commit that arrives once more, later, is what rounds have fences of their own for.
        fault = 1 + self.choices.pick(5) if self.strikes(self.risky_calls.get(name, 0.006)) else 0
        if fault == 1:
            self.say(f"the request is lost: {what}")
            raise errors.StateUnavailable(f"simulated: no connection for {name}")
        result = self._checked(namespace, name, call, fence)
        if fault == 2:
            self.say(f"the reply is lost: {what}")
            raise errors.StateUnavailable(f"simulated: no reply to {name}")
        if fault == 3:
            self.step(f"sent again: {what}")
            result = self._checked(namespace, name, call, fence)
        elif fault == 4:
            self._kill(self._running, f"right after: {what}")
        elif fault == 5:
            self.say(f"will arrive a second time: {what}")
            self.schedule.start(Actor("network", lambda: self._arrive_late(namespace, name, call, fence, what)))
        return result

    def at(self, place: PointReached) -> None:
        """An observer, see `anchorbolt.faults.points`."""
        if place.point in self.points:
            self.step(f"{place.point.value} {place.component} {place.task_index if place.component else ''}")

    def run_task(self, name: str, work: Callable[[], T]) -> T:
        """Run a task's attempt within the driver at hand; raises `TaskLost` where its worker dies."""
        actor = self._running
        self._tasks[actor] = name
        try:
            return work()
        finally:
            del self._tasks[actor]

    def start_late_attempt(self, name: str, work: Callable[[], Any]) -> None:
        """Have another attempt of a task run by itself, whenever; nobody listens to it."""
        self.say(f"{name} runs twice, the second one by itself")
        self.schedule.start(Actor(f"late {name}", work))

    def acknowledge(self, batch: int) -> None:
        """A driver tells the source that a batch is done."""
        self.step(f"acknowledges batch {batch}")
        try:
            self.invariants.acknowledged(batch)
        except Violation as violation:
            self.break_off(violation)
        self.acknowledged = max(self.acknowledged, batch + 1)

    def break_off(self, violation: BaseException) -> None:
        """End the simulation: an invariant does not hold."""
        self._violation = self._violation or violation
        actor = self.schedule.current
        if actor is not None:
            actor.is_killed = True
            raise Crash

    def _checked(self, namespace: str, name: str, call: Callable[[], T], fence: Fence | None) -> T:
        before = self.invariants.before(namespace, fence)
        refused = True
        try:
            result = call()
            refused = False
            return result
        finally:
            try:
                self.invariants.after(namespace, name, fence, before, refused=refused)
            except Violation as violation:
                self.break_off(violation)

    def _arrive_late(self, namespace: str, name: str, call: Callable[[], Any], fence: Fence | None, what: str) -> None:
        self.step(f"arrives late: {what}")
        try:
            self._checked(namespace, name, call, fence)
        except errors.StateError as error:
            self.say(f"refused: {type(error).__name__}")

    def _kill(self, actor: Actor, what: str) -> None:
        if actor in self._tasks and self.choices.pick(2):
            self.say(f"the worker of {self._tasks[actor]} dies {what}")
            raise TaskLost
        self.say(f"is killed {what}")
        actor.is_killed = True
        raise Crash

    def driver_lives(self) -> bool:
        return any(actor.name.startswith("driver") for actor in self.schedule.actors)

    def start_driver(self) -> None:
        self.drivers += 1
        self.has_ended_well = False
        if self.drivers > _MOST_DRIVERS:
            raise Violation(f"no progress after {_MOST_DRIVERS} drivers")
        name = f"driver {self.drivers}"
        self.schedule.start(Actor(name, lambda: self._drive(self, name)))

    @property
    def _running(self) -> Actor:
        assert self.schedule.current is not None
        return self.schedule.current

    def _ended(self, actor: Actor) -> None:
        failure = actor.failure
        if actor.is_main:  # its process ends with it, and its source sees that
            if actor.name.startswith("driver"):
                self.has_ended_well = not actor.is_killed and failure is None
                if self.scenario.is_timed and self.has_ended_well:
                    self._ended_in_time(int(actor.name.removeprefix("driver ")))
            actor.is_killed = True
            self.schedule.end([each for each in self.schedule.actors if each.process.is_of(actor.process)])
            if self.broker is not None:
                self.broker.end(actor.process)
        if failure is None:
            return
        self.say(f"{actor.name} ended: {type(failure).__name__}: {failure}")
        if isinstance(failure, errors.WaveFailed):
            self.tries.given_up(actor.process)
        self._halted = halts(self, actor.name, failure)

    def _ended_in_time(self, driver: int) -> None:
        """Once a driver has no more batches, let all timers become due; another driver must fire them."""
        if self.acknowledged < len(self.batches):
            return
        if self._late_from is None:
            self._late_from = self.drivers
            self.pass_time(1000)
        if driver <= self._late_from:
            self.has_ended_well = False

    def outside(self) -> None:
        """What happens to no process in particular."""
        if self.scenario.is_timed and self.broker is None and self._late_from is None and self.choices.happens(0.01):
            self.pass_time((1, 3, 6, 20, -4)[self.choices.pick(5)])
        if self.strikes(0.002):
            self.start_driver()
        if not self.faults_left:
            return
        if self.broker is not None:
            # Rich spouts and a store that goes back in time: what their sources have been told, nobody takes back.
            if self.strikes(0.003):
                self.pass_time(60)
            return
        if self.choices.happens(0.02):
            self._snapshots.append(self.store.snapshot())
        if self._snapshots and self.strikes(0.003):
            chosen = self._snapshots[self.choices.pick(len(self._snapshots))] if self.choices.pick(4) else {}
            names: list[str | None] = [None, *sorted(self.store.contents)]
            name = names[self.choices.pick(len(names))]
            self.say(f"the store is restored from the past: {name or 'all of it'}{'' if chosen else ', empty'}")
            self.store.restore(chosen, name)
            self.regressed = True
