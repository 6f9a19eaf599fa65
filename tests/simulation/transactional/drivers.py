"""A driver of a transactional topology: the real checkpoint spout, pipeline and waves, over simulated tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

from anchorbolt.checkpoint import decision_log
from anchorbolt.engine.driver.parts_of_run import checkpoints_and_sources
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task import emitter_task
from anchorbolt.transactional.batches import pipeline
from tests.simulation.drivers import CHECKPOINT, SteppedLoop, run_loop, settings_of
from tests.simulation.folder import SimulatedFolder, SimulatedLocations
from tests.simulation.transactional.locks import simulated_threading
from tests.simulation.transactional.spouts import WORLD
from tests.simulation.transactional.tasks import BatchTasks
from tests.simulation.transactional.topology import batch_topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.transactional.world import BatchWorld


def drive_batches(world: BatchWorld, name: str) -> None:
    """Run a driver: recover, then run batches until the source has no more."""
    world.step("starts")
    scenario = world.batch_scenario
    topology = batch_topology(scenario.kind, scenario.shape, scenario.emitters)
    settings = settings_of(message_timeout_secs=0, max_spout_pending=world.new_pending(), dead_letter=world.dead_letter)
    plan = ExecutionPlan(topology, {WORLD: world}, settings, world.store, name, locations=SimulatedLocations(world))
    tasks = BatchTasks(world, plan)
    spout, sources = checkpoints_and_sources(plan, SimulatedFolder(world, CHECKPOINT), tasks)
    spout.recover()
    run_loop(SteppedLoop(world, sources), spout, tasks.committed)


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


@contextmanager
def batches_in_one_thread(world: BatchWorld, ids: Any) -> Iterator[None]:
    """Have the code of transactional topologies use the world's order and files, and `ids` in place of `uuid`."""
    threading = simulated_threading(world)
    with (
        mock.patch.object(pipeline, "threading", threading),
        mock.patch.object(decision_log, "threading", threading),
        mock.patch.object(emitter_task, "uuid", ids),
        mock.patch.object(emitter_task, "Produced", _AtOnce),
    ):
        yield
