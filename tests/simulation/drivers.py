"""A driver of a simulation: the real checkpoint spout, wave loop and spouts, over tasks that run as on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anchorbolt.checkpoint.coordinator import CheckpointCoordinator, CommittedWave
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.ports import Batch
from anchorbolt.config.settings import Settings
from anchorbolt.engine import WaveReport
from anchorbolt.engine.driver.loop import WaveLoop
from anchorbolt.engine.driver.parts_of_run import checkpoints_and_sources
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.open_trees import check_spouts_left_out
from anchorbolt.engine.sources.rich_spouts import RichSpouts
from anchorbolt.engine.sources.source import Source
from anchorbolt.run.preparation import former_ackers
from tests.simulation.broker import Broker
from tests.simulation.folder import SimulatedFolder, SimulatedLocations
from tests.simulation.reliable_topology import BROKER, MAX_RETRIES, SPOUTS, TIMEOUT_SECS
from tests.simulation.runner import SimulatedRunner
from tests.simulation.scenarios import CACHE_ENTRIES
from tests.simulation.topology import simulated_topology
from tests.simulation.tries import MAX_BATCH_RETRIES
from tests.simulation.world import World

CHECKPOINT = "sim://checkpoint"
_QUERY = "query-1"


class _Settings(Settings):
    def __post_init__(self) -> None:
        """Check nothing: a simulated driver does not wait, so its timeout is 0."""


def settings_of(*, cache_entries: int = CACHE_ENTRIES, **more: Any) -> Settings:
    return _Settings(
        checkpoint_location=CHECKPOINT,
        max_batch_retries=MAX_BATCH_RETRIES,
        buffer_tuples=3,
        cache_entries=cache_entries,
        pending_entries=2,
        **more,
    )


_SETTINGS = settings_of(message_timeout_secs=0)


def drive(world: World, name: str) -> None:
    """Run a driver: recover, then run what the sources have not been told to be done with."""
    world.step("starts")
    plan = _plan(world, run_id(world, name))
    runner = SimulatedRunner(world, plan)
    spouts = runner.spouts
    spout, own = checkpoints_and_sources(plan, SimulatedFolder(world, CHECKPOINT), runner)
    spout.recover(world.query_id)
    check_spouts_left_out(plan, spout.record)
    if plan.graph.stream_spouts or spouts is None:
        world.query_id = _QUERY
    sources = [_Query(world, runner, own), *own] if spouts is None or plan.graph.stream_spouts else own
    run_loop(SteppedLoop(world, sources, None if spouts is None else spouts.rich, runner.idle), spout)
    if world.broker is not None:  # another driver, which has ended meanwhile, may have left out another one
        here = {component for component, _ in plan.wiring.rich_spout_tasks}
        world.broker.left_out = next((name for name in SPOUTS[: world.scenario.spouts] if name not in here), "")


def run_id(world: World, name: str) -> str:
    """Return the id of a driver's run. Workers that stay need one as in reality, for the names of attempts."""
    return f"{int(name.removeprefix('driver ')):014x}{0:018x}" if world.scenario.workers else name


def _plan(world: World, name: str) -> ExecutionPlan:
    scenario, broker = world.scenario, world.broker
    if broker is None:
        topology = simulated_topology(scenario)
        settings = _SETTINGS
        if scenario.is_timed:
            timers = scenario.timers_per_wave
            settings = replace(settings, timers_per_wave=timers, cache_entries=scenario.cache_entries)
        return ExecutionPlan(topology, {}, settings, world.store, name, locations=SimulatedLocations(world))
    settings = settings_of(
        timers_per_wave=max(1, scenario.timers_per_wave),
        cache_entries=scenario.cache_entries,
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


class SteppedLoop(WaveLoop):
    """See `WaveLoop`. Where that waits, another actor runs."""

    def __init__(
        self,
        world: World,
        sources: Sequence[Source],
        rich: RichSpouts | None = None,
        idle: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(sources)
        self._between = idle
        self._world = world
        self._rich = rich

    def wait(self) -> None:
        self._world.wait("has nothing to do")
        self._between()
        if self._rich is not None:
            is_settled = self._rich.is_settled
            self._world.pass_time(1 if is_settled else (5, 1, 20, 40)[self._world.choices.pick(4)])


def run_loop(
    loop: WaveLoop, spout: CheckpointCoordinator, add: Callable[[WaveReport, CommittedWave], None] = lambda *_: None
) -> None:
    """Run waves until the sources are empty. Raises the error that ends the run."""
    loop.open(spout, add, until_empty=True)
    failure = loop.run()
    if failure is not None:
        raise failure


class _Query(Source):
    """A streaming query: the batches of the world. In between, the driver's own sources have waves of their own."""

    def __init__(self, world: World, runner: SimulatedRunner, others: Sequence[Source]) -> None:
        self._world = world
        self._runner = runner
        self._others = others
        self._number: int | None = None  # of the batch of the current wave

    def open(self, checkpoints: CheckpointCoordinator, wake: Callable[[], None], *, until_empty: bool) -> None:
        self._checkpoints = checkpoints

    @property
    def is_empty(self) -> bool:
        return self._world.acknowledged >= len(self._world.batches)

    def poll(self) -> bool:
        while not self.is_empty:
            if any(other.poll() for other in self._others) and self._world.choices.pick(2):
                return False
            self._checkpoints.bind_query(_QUERY)
            if not self._checkpoints.is_committed(self._batch(self._world.acknowledged)):
                self._number = self._world.acknowledged
                return True
            self._world.acknowledge(self._world.acknowledged)
        return False

    def next(self, record: DecisionRecord, batch: Batch | None) -> Batch | None:
        if self._number is None:
            return batch
        self._runner.lines = self._world.batches[self._number]
        return self._batch(self._number)

    def settle(self, wave: CommittedWave, report: WaveReport) -> WaveReport:
        if self._number is not None:
            self._world.acknowledge(self._number)
        return report

    def end_wave(self, txid: int) -> None:
        self._runner.lines, self._number = (), None

    def _batch(self, number: int) -> Batch:
        return Batch(_QUERY, number, f"offsets of {number}")
