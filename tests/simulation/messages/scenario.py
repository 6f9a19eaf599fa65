"""Messages of a rich spout, and the driver that runs their waves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.engine.driver.pump import Pump
from anchorbolt.engine.spouts.driver_spouts import DriverSpouts
from anchorbolt.engine.spouts.flow_control import FlowControl
from anchorbolt.engine.spouts.hosted_spout import HostedSpout
from anchorbolt.engine.spouts.rich_spouts import RichSpouts
from anchorbolt.engine.submit.handle import checkpoint_spout, former_ackers
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import Envelope
from tests.simulation.folder import SimulatedFolder
from tests.simulation.invariants import Violation
from tests.simulation.messages.broker import Broker, Message
from tests.simulation.messages.invariants import MessageInvariants
from tests.simulation.messages.topology import message_topology, use_broker
from tests.simulation.runner import CHECKPOINT, SimulatedRunner, SimulatedSettings
from tests.simulation.world import World

_TOPOLOGIES = {
    (stable, spouts): message_topology(stable=stable, spouts=spouts) for stable in (True, False) for spouts in (1, 2)
}
_MOST_RETRIES = 1  # of a tuple


@dataclass(frozen=True, kw_only=True)
class _Settings(SimulatedSettings):
    backpressure: bool = False  # it measures time
    max_tuple_retries: int = _MOST_RETRIES

    @property
    def tree_timeout_secs(self) -> int:
        return 4


class SteppedSpout(HostedSpout):
    """Stands in for `SpoutHost`, whose thread makes the calls: the scenario makes them, between two waves."""

    failure = None

    def __init__(self, plan: ExecutionPlan, task: TaskKey, flow: FlowControl, on_change: Callable[[], None]) -> None:
        super().__init__(plan, task, flow)

    def start(self) -> None:
        pass

    def wait_until_open(self) -> None:
        self.open()

    def wake(self) -> None:
        pass

    def close(self, timeout_s: float) -> bool:
        if timeout_s:
            self.end()
        return True


class Messages:
    """See `tests.simulation.world.Scenario`. The clock ticks with each wave, and where nothing waits."""

    may_regress = False

    def __init__(self, world: World) -> None:
        choices = world.choices
        self._world = world
        self.stable = choices.pick(2) == 0
        self.excludes = choices.pick(2) == 0
        self._keeps_letters = choices.pick(3) == 1
        self.letters: dict[int, list[int]] = {}  # by txid: the dead messages
        self._seconds = 0
        self._is_closed = False
        self.broker = Broker(world, self)
        self.invariants = MessageInvariants(world, self)
        use_broker(lambda: (self.broker, "" if world.current is None else world.current.name))

    @property
    def is_done(self) -> bool:
        return self._is_closed and self.broker.is_done

    def check(self, check: Callable[[Message], None], message: Message) -> None:
        """Check a message while a driver runs."""
        try:
            check(message)
        except Violation as violation:
            self._world.break_off(violation)

    def drive(self, name: str) -> None:
        """Recover, then run waves until the source has nothing, and no message is pending."""
        world = self._world
        world.step("starts")
        plan = self._plan(name)
        spouts = DriverSpouts(plan, lambda: self._seconds)
        spout = checkpoint_spout(plan, SimulatedFolder(world, CHECKPOINT), _MessageRunner(world, plan, self, spouts))
        spout.recover()
        pump, rich = Pump(plan, spouts), spouts.rich
        assert rich is not None
        pump.start(spout, lambda report: None, until_empty=True)
        while spouts.is_waiting or not (spouts.is_settled and self.broker.is_done):
            if not (spouts.is_waiting and world.choices.happens(0.3)):  # the next wave is faster than their threads
                for _ in range(1 + world.choices.pick(3)):
                    self.step_spouts(rich)
            if spouts.is_waiting:
                pump._run_wave()
            self._seconds += 1
            world.step(f"it is {self._seconds}")
        rich.close(1.0)
        spout.keep_acked(rich.unconfirmed())
        spout.check_not_overtaken()
        self._is_closed = True

    def step_spouts(self, rich: RichSpouts) -> None:
        """Do what the threads of the spouts do."""
        for host in rich._hosts.values():
            if not self._world.choices.happens(0.1):
                host.step()

    def _plan(self, name: str) -> ExecutionPlan:
        choices = self._world.choices
        settings = _Settings(
            fail_policy="exclude" if self.excludes else "commit",
            dead_letter=self._keep if self._keeps_letters else None,
        )
        graph = _TOPOLOGIES[self.stable, 1 + choices.pick(2)]
        former = former_ackers(graph, self._world.store, settings)
        ackers = 1 + choices.pick(2)
        return ExecutionPlan(graph, {}, settings, self._world.store, name, ackers, former)

    def _keep(self, letters: Sequence[DeadLetter], txid: int) -> None:
        dead = sorted(letter.values[0] for letter in letters)
        self._world.step(f"keeps dead letters of txid {txid}: {dead}")
        if self.letters.setdefault(txid, dead) != dead:
            self._world.break_off(Violation(f"txid {txid} has the dead letters {self.letters[txid]}, and then {dead}"))


class _MessageRunner(SimulatedRunner):
    def __init__(self, world: World, plan: ExecutionPlan, scenario: Messages, spouts: DriverSpouts) -> None:
        super().__init__(world, plan)
        self._scenario = scenario
        self.spouts = spouts

    def run_spouts(self, current: Round) -> list[Envelope]:
        spouts = self.spouts
        assert spouts is not None
        assert spouts.rich is not None
        if self.world.choices.happens(0.5):
            self._scenario.step_spouts(spouts.rich)  # while the wave runs

        def run(_: InstanceRegistry) -> list[Envelope]:
            return list(spouts.run_tasks(current))

        sent = self.attempt("in", run)
        if self.world.strikes(0.01):
            self.world.say("the spout's tasks run twice, and both outputs are used")
            sent = self.mixed(sent, self.attempt("in", run))
        return sent
