"""Lines of a stream spout, and the driver that runs their batches."""

from __future__ import annotations

from collections.abc import Sequence

from anchorbolt.checkpoint.ports import Batch, Round
from anchorbolt.engine.submit.handle import checkpoint_spout
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.task.spout_task import SourceRows, run_spout_task
from tests.simulation.folder import SimulatedFolder
from tests.simulation.invariants import Violation
from tests.simulation.lines.invariants import LineInvariants
from tests.simulation.lines.topology import Expected, simulated_topology
from tests.simulation.runner import CHECKPOINT, SimulatedRunner, SimulatedSettings
from tests.simulation.world import World

_WORDS = ("a", "b", "c", "d", "e", "f")
_QUERY = "query-1"
_TOPOLOGY = simulated_topology()
_SETTINGS = SimulatedSettings()


class Lines:
    """See `tests.simulation.world.Scenario`."""

    may_regress = True

    def __init__(self, world: World) -> None:
        choices = world.choices
        self._world = world
        self._batches = [
            [" ".join(_WORDS[choices.pick(6)] for _ in range(1 + choices.pick(3))) for _ in range(1 + choices.pick(3))]
            for _ in range(2 + choices.pick(3))
        ]
        self._query_id = ""
        self._acknowledged = 0
        self.invariants = LineInvariants(world, Expected(self._batches))

    @property
    def is_done(self) -> bool:
        return self._acknowledged == len(self._batches)

    def drive(self, name: str) -> None:
        """Recover, then run what the source has not been told to be done with."""
        world = self._world
        world.step("starts")
        plan = ExecutionPlan(_TOPOLOGY, {}, _SETTINGS, world.store, name)
        runner = _LineRunner(world, plan)
        spout = checkpoint_spout(plan, SimulatedFolder(world, CHECKPOINT), runner)
        spout.recover(self._query_id)
        self._query_id = _QUERY
        while not self.is_done:
            number = self._acknowledged
            spout.bind_query(_QUERY)
            batch = Batch(_QUERY, number, f"offsets of {number}")
            if not spout.is_committed(batch):
                runner.lines = self._batches[number]
                spout.run_wave(batch)
            self._acknowledge(number)
        spout.check_not_overtaken()

    def _acknowledge(self, batch: int) -> None:
        """A driver tells the source that a batch is done."""
        self._world.step(f"acknowledges batch {batch}")
        try:
            self.invariants.acknowledged(batch)
        except Violation as violation:
            self._world.break_off(violation)
        self._acknowledged = max(self._acknowledged, batch + 1)


class _LineRunner(SimulatedRunner):
    def __init__(self, world: World, plan: ExecutionPlan) -> None:
        super().__init__(world, plan)
        self.lines: Sequence[str] = ()

    def run_spouts(self, current: Round) -> list[Envelope]:
        rows = SourceRows("default", len(self.lines), [list(self.lines)])
        return list(run_spout_task(self.plan, "lines", 0, current, [rows]))
