"""The world of one simulation: its store, files and source, the faults that strike, and the order of all steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import greenlet

from anchorbolt import errors
from anchorbolt.faults.points import FaultPoint, PointReached
from anchorbolt.state_backends.contract import Fence
from tests.simulation.actors import Actor, Crash
from tests.simulation.choices import Choices
from tests.simulation.invariants import CHECKPOINT_NAMESPACE, Invariants, Violation
from tests.simulation.store import SimulatedProvider, Snapshot

T = TypeVar("T")

_MOVES = {"rollback", "commit", "seal"}
_MOST_DRIVERS = 30
_MOST_STEPS = 20_000
_POINTS = {
    FaultPoint.TASK_EXECUTED,
    FaultPoint.TASK_PREPARED,
    FaultPoint.ROUND_ENDED,
    FaultPoint.WAVE_ENDED,
    FaultPoint.RECOVERED,
}


class TaskLost(BaseException):
    """The worker that ran a task has died; its driver lives on and runs the task again."""


class Scenario(Protocol):
    """A topology, its source, and what they have to come to."""

    may_regress: bool  # whether the store may be restored to what it was before

    @property
    def invariants(self) -> Invariants:
        """What must hold."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left for a driver to do."""

    def drive(self, name: str) -> None:
        """Run a driver of this name."""


class World:
    """Everything that outlives a process, and the scheduler of all processes."""

    def __init__(self, choices: Choices, scenario: Callable[[World], Scenario], *, traced: bool = False) -> None:
        """Make a world for a scenario."""
        self.choices = choices
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self._scheduler = greenlet.getcurrent()
        self.store = SimulatedProvider(self)
        self.files: dict[str, bytes] = {}
        self.scenario = scenario(self)
        self.invariants = self.scenario.invariants
        self.regressed = False
        self.trace: list[str] | None = [] if traced else None
        self.working: list[str] = []
        self._faults_left = choices.pick(8)
        self._drivers = 0
        self._steps = 0
        self._snapshots: list[Snapshot] = []
        self._violation: BaseException | None = None
        self._halted = False
        self._looked_again = False
        self._tasks: set[Actor] = set()

    def run(self) -> None:
        """Run until the scenario is done and nobody runs any more; raises `Violation`."""
        actor: Actor | None = None
        try:
            while not self._halted:
                if not self._driver_lives() and not self.scenario.is_done:
                    self._start_driver()
                if not self.actors:
                    if not self.regressed or self._looked_again:
                        break
                    # What the store lost behind the last driver's back, the next one sees.
                    self._looked_again = True
                    self._faults_left = 0
                    self._start_driver()
                actor = self._next(actor)
                self._turn(actor)
                if self._violation is not None:
                    raise self._violation
                if actor.dead:
                    self._ended(actor)
                self._outside()
        finally:
            self._end_all()
        if not self._halted:
            self.invariants.at_the_end()

    @property
    def is_unwinding(self) -> bool:
        """Whether no process is running here, or the running one has been killed."""
        return self.current is None or self.current.is_killed

    def say(self, text: str) -> None:
        """Add a line to the trace."""
        if self.trace is not None:
            who = "world" if self.current is None else self.current.name
            self.trace.append(f"{who:>10}: {text}")

    def strikes(self, probability: float) -> bool:
        """Decide whether a fault strikes, as long as there are any left."""
        if self._faults_left and self.choices.happens(probability):
            self._faults_left -= 1
            return True
        return False

    def step(self, what: str, risk: float = 0.004) -> None:
        """A step of the process at hand: it may be killed here, and others may run before it goes on."""
        actor = self.current
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
        self._scheduler.switch()
        if actor.is_killed:
            raise Crash

    def call_store(self, namespace: str, name: str, call: Callable[[], T], fence: Fence | None, told: Any) -> T:
        """Carry out a call of the store, or lose it, or its reply, or repeat it."""
        what = f"{namespace.partition(':')[2]} {name} {'' if fence is None else tuple(fence)} {told}"
        self.step(what)
        # A rollback or a commit that arrives once more, later, is what rounds have fences of their own for.
        fault = 1 + self.choices.pick(5) if self.strikes(0.02 if name in _MOVES else 0.006) else 0
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
            self.actors.append(Actor("network", lambda: self._arrive_late(namespace, name, call, fence, what)))
        return result

    def at(self, place: PointReached) -> None:
        """An observer, see `anchorbolt.faults.points`."""
        if place.point in _POINTS:
            self.step(f"{place.point.value} {place.component} {place.task_index if place.component else ''}")

    def run_task(self, name: str, work: Callable[[], T]) -> T:
        """Run a task's attempt within the driver at hand; raises `TaskLost` where its worker dies."""
        self.working.append(name)
        actor = self._running
        self._tasks.add(actor)
        try:
            return work()
        finally:
            self.working.pop()
            self._tasks.discard(actor)

    def start_late_attempt(self, name: str, work: Callable[[], Any]) -> None:
        """Have another attempt of a task run by itself, whenever; nobody listens to it."""
        self.say(f"{name} runs twice, the second one by itself")
        self.actors.append(Actor(f"late {name}", work))

    def break_off(self, violation: BaseException) -> None:
        """End the simulation: an invariant does not hold."""
        self._violation = self._violation or violation
        actor = self.current
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
            self.say(f"the worker of {self.working[-1]} dies {what}")
            raise TaskLost
        self.say(f"is killed {what}")
        actor.is_killed = True
        raise Crash

    def _driver_lives(self) -> bool:
        return any(actor.name.startswith("driver") for actor in self.actors)

    def _start_driver(self) -> None:
        self._drivers += 1
        if self._drivers > _MOST_DRIVERS:
            raise Violation(f"no progress after {_MOST_DRIVERS} drivers")
        name = f"driver {self._drivers}"
        self.actors.append(Actor(name, lambda: self.scenario.drive(name)))

    @property
    def _running(self) -> Actor:
        assert self.current is not None
        return self.current

    def _turn(self, actor: Actor) -> None:
        """Let an actor run up to its next step, or to its end."""
        self.current = actor
        try:
            actor.switch()
        finally:
            self.current = None
        if actor.dead:
            self.actors.remove(actor)

    def _next(self, last: Actor | None) -> Actor:
        actors = self.actors
        if last not in actors:
            return actors[self.choices.pick(len(actors))]
        if len(actors) > 1 and self.choices.happens(0.15):
            return actors[self.choices.pick(len(actors))]
        assert last is not None
        return last

    def _ended(self, actor: Actor) -> None:
        failure = actor.failure
        if failure is None:
            return
        self.say(f"{actor.name} ended: {type(failure).__name__}: {failure}")
        if not isinstance(failure, errors.AnchorboltError):
            raise Violation(f"{actor.name} ended with {failure!r}") from failure
        if isinstance(failure, errors.StateRegressed):
            if not self.regressed:
                raise Violation(f"{actor.name} halted, and the store had not regressed") from failure
            self._halted = True
        elif isinstance(failure, errors.Fenced):
            if not self.regressed and self.store.contents[CHECKPOINT_NAMESPACE].metadata.fence.generation < 2:
                raise Violation(f"{actor.name} was fenced, and there is no newer driver") from failure
        elif not isinstance(failure, errors.StateUnavailable) and not self._is_excused(failure):
            raise Violation(f"{actor.name} ended with {failure!r}") from failure
        elif isinstance(failure, errors.WaveFailed) and not self.actors and not self.regressed:
            self.invariants.nothing_staged()

    def _is_excused(self, failure: errors.AnchorboltError) -> bool:
        """A driver may give up a wave that faults struck too often, and one of two may come too early or too late."""
        if isinstance(failure, errors.QueryChanged):
            return self._drivers > 1 and "is a new one" in failure.message
        return isinstance(failure, errors.WaveFailed) or (self.regressed and isinstance(failure, errors.StaleAttempt))

    def _outside(self) -> None:
        """What happens to no process in particular."""
        if self.strikes(0.002):
            self._start_driver()
        if not self._faults_left or not self.scenario.may_regress:
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

    def _end_all(self) -> None:
        for actor in list(self.actors):
            actor.is_killed = True
            if actor:  # it has begun
                actor.throw(Crash)
