"""Runs the tasks of a round as Spark does, faults included."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.config.settings import Settings
from anchorbolt.engine.spouts.driver_spouts import DriverSpouts
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.bolt_task import run_bolt_task
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import Envelope, TaskReport, reports_in
from tests.simulation.world import TaskLost, World

CHECKPOINT = "sim://checkpoint"
_TASK_FAILURES = 4


@dataclass(frozen=True, kw_only=True)
class SimulatedSettings(Settings):
    """Small buffers and caches, so that few tuples fill them; a driver that does not wait."""

    checkpoint_location: str | None = CHECKPOINT
    message_timeout_secs: int = 0
    max_batch_retries: int = 2
    buffer_tuples: int = 3
    cache_entries: int = 4
    pending_entries: int = 2

    def __post_init__(self) -> None:
        """Check nothing: a timeout of 0 is no valid setting."""


class SimulatedRunner:
    """See `anchorbolt.engine.driver.rounds.Runner`. An engine says how its spouts' tasks run."""

    def __init__(self, world: World, plan: ExecutionPlan) -> None:
        self.world = world
        self.plan = plan
        self._workers = [InstanceRegistry(), InstanceRegistry()]
        self.spouts: DriverSpouts | None = None

    def run_spouts(self, current: Round) -> list[Envelope]:
        """Return the blobs of all spouts' tasks."""
        raise NotImplementedError

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        plan, choices = self.plan, self.world.choices
        rows = self.run_spouts(current)
        for level in plan.levels:
            inputs: defaultdict[int, list[Envelope]] = defaultdict(list)
            for row in rows:
                inputs[row.partition].append(row)
            rows = []
            waiting = list(range(len(level)))
            while waiting:
                partition = waiting.pop(choices.pick(len(waiting)))
                rows += self._run_task(level[partition], current, self._delivered(inputs[partition]))
        return reports_in(self._delivered(rows), current)

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        pass

    def read_files(self, locations: Sequence[str]) -> Any:
        raise AssertionError("a ParquetSink reads no files")

    def close_instances(self) -> None:
        pass

    def _run_task(self, task: TaskKey, current: Round, rows: list[Envelope]) -> list[Envelope]:
        world, plan = self.world, self.plan
        name = f"{task[0]}-{task[1]}"
        if world.strikes(0.01):
            registry = InstanceRegistry()
            world.start_late_attempt(name, lambda: list(run_bolt_task(plan, task, current, registry, rows)))

        def run(registry: InstanceRegistry) -> list[Envelope]:
            return list(run_bolt_task(plan, task, current, registry, rows))

        sent = self.attempt(name, run)
        if world.strikes(0.01):
            world.say(f"{name} runs twice, and both outputs are used")
            sent = self.mixed(sent, self.attempt(name, run))
        return sent

    def mixed(self, first: list[Envelope], second: list[Envelope]) -> list[Envelope]:
        """For each receiver the output of one attempt, of the other, of both, or now of one and now of the other."""
        rows = []
        for place in sorted({*map(_place, first), *map(_place, second)}):
            one, other = ([row for row in sent if _place(row) == place] for sent in (first, second))
            chosen = self.world.choices.pick(4)
            if chosen == 3:
                rows += one[::2] + other[1::2]
            else:
                rows += (one, other, one + other)[chosen]
        return rows

    def attempt(self, name: str, run: Callable[[InstanceRegistry], list[Envelope]]) -> list[Envelope]:
        """Run a task, again if its worker dies."""
        for _ in range(_TASK_FAILURES):
            worker = self.world.choices.pick(len(self._workers))
            registry = self._workers[worker]
            try:
                return self.world.run_task(name, partial(run, registry))
            except TaskLost:
                self._workers[worker] = InstanceRegistry()
        raise RuntimeError(f"simulated: task {name} failed {_TASK_FAILURES} times")

    def _delivered(self, rows: list[Envelope]) -> list[Envelope]:
        """What arrives of what was sent, in the order in which it does."""
        world, choices = self.world, self.world.choices
        rows = list(rows)
        if len(rows) > 1 and world.choices.happens(0.3):
            for position in range(len(rows) - 1, 0, -1):
                other = position - choices.pick(position + 1)
                rows[position], rows[other] = rows[other], rows[position]
        if rows and world.strikes(0.005):
            lost = rows.pop(choices.pick(len(rows)))
            world.say(f"a message to level {lost.level}, partition {lost.destination} is lost")
        if rows and world.strikes(0.005):
            twice = rows[choices.pick(len(rows))]
            world.say(f"a message to level {twice.level}, partition {twice.destination} arrives twice")
            rows.append(twice)
        return rows


def _place(row: Envelope) -> tuple[int, int]:
    return row.level, row.destination
