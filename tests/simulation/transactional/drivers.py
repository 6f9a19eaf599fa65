"""A driver of a transactional topology: the real checkpoint spout, pipeline and waves, over simulated tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

from anchorbolt.checkpoint import decision_log
from anchorbolt.engine.driver.parts_of_run import checkpoints_and_sources
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task import emitter_task
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.workers import sources
from anchorbolt.engine.workers.worker_round import InlineSource
from anchorbolt.transactional.batches import pipeline
from tests.simulation.drivers import CHECKPOINT, SteppedLoop, run_id, run_loop, settings_of
from tests.simulation.folder import SimulatedFolder, SimulatedLocations
from tests.simulation.transactional.locks import simulated_threading
from tests.simulation.transactional.spouts import WORLD
from tests.simulation.transactional.tasks import BatchTasks, has_failed
from tests.simulation.transactional.topology import batch_topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.transactional.world import BatchWorld


def drive_batches(world: BatchWorld, name: str) -> None:
    """Run a driver: recover, then run batches until the source has no more."""
    world.step("starts")
    scenario = world.batch_scenario
    topology = batch_topology(scenario.kind, scenario.shape, scenario.emitters, chains=world.scenario.chains)
    settings = settings_of(message_timeout_secs=0, max_spout_pending=world.new_pending(), dead_letter=world.dead_letter)
    plan = ExecutionPlan(
        topology, {WORLD: world}, settings, world.store, run_id(world, name), locations=SimulatedLocations(world)
    )
    tasks = BatchTasks(world, plan)
    spout, own = checkpoints_and_sources(plan, SimulatedFolder(world, CHECKPOINT), tasks)
    spout.recover()
    run_loop(SteppedLoop(world, own), spout, tasks.committed)


class _AtOnce:
    """See `anchorbolt.engine.task.emitter_task.Produced`, without a thread."""

    def __init__(self, produce: Callable[[Callable[[Any], None]], None], most: int) -> None:
        self._produce = produce

    def __iter__(self) -> Iterator[Any]:
        items: list[Any] = []
        try:
            self._produce(items.append)
        except Exception:
            yield from items
            raise
        yield from items


class _EmitterOfWorker(InlineSource):
    """See `anchorbolt.engine.workers.sources.ThreadSource`, without a thread."""

    def __init__(self, world: BatchWorld, begin: Callable[[], Iterator[Envelope]], wake: Callable[[], None]) -> None:
        super().__init__(begin())
        self._world = world
        self._plan, _, self._round, *_ = begin.args  # type: ignore[attr-defined]

    def take(self) -> Envelope | None:
        envelope = super().take()
        if envelope is not None and not self._world.is_late and has_failed(self._plan, [envelope]):
            self._world.checks.spoil(self._round)
        return envelope


@contextmanager
def batches_in_one_thread(world: BatchWorld, ids: Any) -> Iterator[None]:
    """Have the code of transactional topologies use the world's order and files, and `ids` in place of `uuid`."""
    threading = simulated_threading(world)
    with (
        mock.patch.object(pipeline, "threading", threading),
        mock.patch.object(decision_log, "threading", threading),
        mock.patch.object(emitter_task, "uuid", ids),
        mock.patch.object(emitter_task, "Produced", _AtOnce),
        mock.patch.object(sources, "ThreadSource", partial(_EmitterOfWorker, world)),
    ):
        yield
