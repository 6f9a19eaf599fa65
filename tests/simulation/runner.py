"""A driver of a simulation: the real checkpoint spout, over tasks that run as on Spark, faults included."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from anchorbolt.checkpoint.ports import Batch, Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.config.settings import Settings
from anchorbolt.engine.spouts.driver_spouts import DriverSpouts
from anchorbolt.engine.submit.handle import checkpoint_spout
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.bolt_task import run_bolt_task
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import Envelope, TaskReport, reports_in
from anchorbolt.engine.task.spout_task import SourceRows, run_spout_task
from tests.simulation.folder import SimulatedFolder
from tests.simulation.topology import simulated_topology
from tests.simulation.world import TaskLost, World

_CHECKPOINT = "sim://checkpoint"
_QUERY = "query-1"
_TOPOLOGY = simulated_topology()


class _Settings(Settings):
    def __post_init__(self) -> None:
        """Check nothing: a simulated driver does not wait, so its timeout is 0."""


_SETTINGS = _Settings(
    checkpoint_location=_CHECKPOINT,
    message_timeout_secs=0,
    max_batch_retries=2,
    buffer_tuples=3,
    cache_entries=4,
    pending_entries=2,
)
_TASK_FAILURES = 4


def drive(world: World, name: str) -> None:
    """Run a driver: recover, then run what the source has not been told to be done with."""
    world.step("starts")
    plan = ExecutionPlan(_TOPOLOGY, {}, _SETTINGS, world.store, name)
    runner = _Runner(world, plan)
    spout = checkpoint_spout(plan, SimulatedFolder(world, _CHECKPOINT), runner)
    spout.recover(world.query_id)
    world.query_id = _QUERY
    while world.acknowledged < len(world.batches):
        number = world.acknowledged
        spout.bind_query(_QUERY)
        batch = Batch(_QUERY, number, f"offsets of {number}")
        if not spout.is_committed(batch):
            runner.lines = world.batches[number]
            spout.run_wave(batch)
        world.acknowledge(number)
    spout.check_not_overtaken()


class _Runner:
    """See `anchorbolt.engine.driver.rounds.Runner`."""

    def __init__(self, world: World, plan: ExecutionPlan) -> None:
        self._world = world
        self._plan = plan
        self._workers = [InstanceRegistry(), InstanceRegistry()]
        self.lines: Sequence[str] = ()
        self.spouts: DriverSpouts | None = None

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        plan, choices = self._plan, self._world.choices
        rows = list(
            run_spout_task(plan, "lines", 0, current, [SourceRows("default", len(self.lines), [list(self.lines)])])
        )
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
        world, plan = self._world, self._plan
        name = f"{task[0]}-{task[1]}"
        if world.strikes(0.01):
            registry = InstanceRegistry()
            world.start_late_attempt(name, lambda: list(run_bolt_task(plan, task, current, registry, rows)))
        sent = self._attempt(name, task, current, rows)
        if world.strikes(0.01):
            world.say(f"{name} runs twice, and both outputs are used")
            again = self._attempt(name, task, current, rows)
            sent = self._mixed(sent, again)
        return sent

    def _mixed(self, first: list[Envelope], second: list[Envelope]) -> list[Envelope]:
        """For each receiver the output of one attempt, of the other, of both, or now of one and now of the other."""
        rows = []
        for place in sorted({*map(_place, first), *map(_place, second)}):
            one, other = ([row for row in sent if _place(row) == place] for sent in (first, second))
            chosen = self._world.choices.pick(4)
            if chosen == 3:
                rows += one[::2] + other[1::2]
            else:
                rows += (one, other, one + other)[chosen]
        return rows

    def _attempt(self, name: str, task: TaskKey, current: Round, rows: list[Envelope]) -> list[Envelope]:
        for _ in range(_TASK_FAILURES):
            worker = self._world.choices.pick(len(self._workers))
            registry = self._workers[worker]
            try:
                return self._world.run_task(
                    name,
                    lambda: list(run_bolt_task(self._plan, task, current, registry, rows)),  # noqa: B023
                )
            except TaskLost:
                self._workers[worker] = InstanceRegistry()
        raise RuntimeError(f"simulated: task {name} failed {_TASK_FAILURES} times")

    def _delivered(self, rows: list[Envelope]) -> list[Envelope]:
        """What arrives of what was sent, in the order in which it does."""
        world, choices = self._world, self._world.choices
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
