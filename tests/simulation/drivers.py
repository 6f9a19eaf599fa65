"""A driver of a simulation: the real checkpoint spout and the real spouts, over tasks that run as on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from anchorbolt.checkpoint.ports import Batch
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.config.settings import Settings
from anchorbolt.engine.driver.spout_of_run import checkpoint_spout
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spouts.driver_spouts import DriverSpouts
from anchorbolt.engine.spouts.open_trees import check_spouts_left_out
from anchorbolt.engine.spouts.rich_spouts import RichSpouts
from anchorbolt.run.preparation import former_ackers
from tests.simulation.broker import Broker
from tests.simulation.folder import SimulatedFolder, SimulatedLocations
from tests.simulation.hosts import SteppedHost
from tests.simulation.reliable_topology import BROKER, MAX_RETRIES, SPOUTS, TIMEOUT_SECS
from tests.simulation.runner import CACHE_ENTRIES, SimulatedRunner
from tests.simulation.topology import simulated_topology
from tests.simulation.tries import MAX_BATCH_RETRIES
from tests.simulation.world import World

CHECKPOINT = "sim://checkpoint"
_QUERY = "query-1"
_CLOSE_S = 1.0


class _Settings(Settings):
    def __post_init__(self) -> None:
        """Check nothing: a simulated driver does not wait, so its timeout is 0."""


def settings_of(**more: Any) -> Settings:
    return _Settings(
        checkpoint_location=CHECKPOINT,
        max_batch_retries=MAX_BATCH_RETRIES,
        buffer_tuples=3,
        cache_entries=CACHE_ENTRIES,
        pending_entries=2,
        **more,
    )


_SETTINGS = settings_of(message_timeout_secs=0)


def drive(world: World, name: str) -> None:
    """Run a driver: recover, then run what the sources have not been told to be done with."""
    world.step("starts")
    plan = _plan(world, name)
    spouts = None
    if world.broker is not None:
        spouts = DriverSpouts(plan, world.clock, partial(SteppedHost, world))
    runner = SimulatedRunner(world, plan, spouts)
    spout = checkpoint_spout(plan, SimulatedFolder(world, CHECKPOINT), runner)
    spout.recover(world.query_id)
    check_spouts_left_out(plan, spout.record)
    if plan.graph.stream_spouts or spouts is None:
        world.query_id = _QUERY
    driver = _Driver(world, spout, runner)
    if spouts is None or spouts.rich is None:
        driver.run_batches()
    else:
        driver.run_mixed(spouts, spouts.rich)
    if world.broker is not None:  # another driver, which has ended meanwhile, may have left out another one
        here = {component for component, _ in plan.rich_spout_tasks}
        world.broker.left_out = next((name for name in SPOUTS[: world.scenario.spouts] if name not in here), "")


def _plan(world: World, name: str) -> ExecutionPlan:
    scenario, broker = world.scenario, world.broker
    if broker is None:
        topology = simulated_topology(scenario)
        return ExecutionPlan(topology, {}, _SETTINGS, world.store, name, locations=SimulatedLocations(world))
    settings = settings_of(
        message_timeout_secs=TIMEOUT_SECS,
        max_spout_pending=scenario.max_pending,
        fail_policy="exclude" if scenario.excludes else "commit",
        dead_letter=broker.write_letters if scenario.keeps_letters else None,
        max_tuple_retries=MAX_RETRIES,
        backpressure=False,  # it compares times
        intake_tuples=3,
    )
    topology = simulated_topology(
        scenario,
        _spouts(world, broker),
        parts_tasks=1 + (world.choices.by_seed(3) + world.drivers) % 3,
        has_audit=world.choices.by_seed(2) * world.drivers % 2 == 1,
    )
    former = former_ackers(topology, world.store, settings)
    conf: Mapping[str, Any] = {BROKER: broker}
    ackers = 1 + world.choices.pick(3)
    return ExecutionPlan(topology, conf, settings, world.store, name, ackers, former, SimulatedLocations(world))


def _spouts(world: World, broker: Broker) -> tuple[str, ...]:
    """Return the rich spouts of a driver, in any order. It leaves one out only if a later driver has to have it."""
    spouts, broker.left_out = list(SPOUTS[: broker.scenario.spouts]), ""
    if len(spouts) > 1:
        spouts = spouts[:: (1, -1)[world.choices.pick(2)]]
        if world.choices.pick(3) == 1 and broker.waits_for(spouts[0]):
            broker.left_out = spouts.pop(0)
    return tuple(spouts)


class _Driver:
    def __init__(self, world: World, spout: CheckpointSpout, runner: SimulatedRunner) -> None:
        self._world = world
        self._spout = spout
        self._runner = runner

    def run_batches(self) -> None:
        """Run the waves of a streaming query."""
        while self._has_batch:
            self._run_batch()
        self._spout.check_not_overtaken()

    def run_mixed(self, spouts: DriverSpouts, rich: RichSpouts) -> None:
        """Run the waves of a streaming query, if there is one, and those of a pump.

        See `anchorbolt.engine.driver.pump`, whose threads and locks this does without.
        """
        try:
            spouts.open(self._spout.record)
            while self._run_next(spouts, rich):
                pass
        finally:
            rich.close(_CLOSE_S)
        self._spout.keep_acked(rich.unconfirmed())

    def _run_next(self, spouts: DriverSpouts, rich: RichSpouts) -> bool:
        world = self._world
        rich.check()
        if self._has_batch and not (spouts.is_waiting and world.choices.pick(2)):
            self._run_batch()
        elif spouts.is_waiting:
            with spouts.wave(self._spout):
                self._spout.run_wave(spouts.next_batch(self._spout.record))
        elif spouts.is_idle:
            self._spout.check_not_overtaken()
            return False
        else:
            world.wait("has nothing to do")
            world.pass_time(1 if rich.is_settled else (5, 1, 20, 40)[world.choices.pick(4)])
        return True

    @property
    def _has_batch(self) -> bool:
        return self._world.acknowledged < len(self._world.batches)

    def _run_batch(self) -> None:
        world, spouts = self._world, self._runner.spouts
        number = world.acknowledged
        self._spout.bind_query(_QUERY)
        batch = Batch(_QUERY, number, f"offsets of {number}")
        if not self._spout.is_committed(batch):
            self._runner.lines = world.batches[number]
            if spouts is None:
                self._spout.run_wave(batch)
            else:
                with spouts.wave(self._spout):
                    self._spout.run_wave(batch)
            self._runner.lines = ()
        world.acknowledge(number)
