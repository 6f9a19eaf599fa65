"""Runs the tasks of a simulated driver as Spark does, faults included."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.driver.runner import StageProgress, WorkerFigures
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.driver_spouts import DriverSpouts
from anchorbolt.engine.sources.rich_spouts import NewHost
from anchorbolt.engine.task.bolt_task import run_bolt_tasks
from anchorbolt.engine.task.commit_task import CommitGroup, run_commit_task
from anchorbolt.engine.task.executors.stateful_executor import StatefulBoltExecutor
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import Envelope, TaskReport, reports_in
from anchorbolt.engine.task.round_text import round_to_text
from anchorbolt.engine.task.spout_task import SourceRows, run_spout_task
from anchorbolt.engine.task.watchdog import LongCall
from anchorbolt.engine.workers.frames import Kind
from anchorbolt.engine.workers.sources import SourceTask, driver_tasks
from anchorbolt.engine.workers.spouts import WorkerSpouts
from anchorbolt.errors import InfrastructureLost
from anchorbolt.state_backends.key_value import KeyValueState
from tests.simulation.actors import TaskLost
from tests.simulation.hosts import SteppedHost
from tests.simulation.violation import Violation
from tests.simulation.workers import FeedTask, SimulatedFleet
from tests.simulation.world import World

_TASK_FAILURES = 4

Work = Callable[[InstanceRegistry], Iterable[Envelope]]
"""A task's attempt, in the worker that has these instances."""


class TaskRunner:
    """Runs the attempts of tasks in the workers of a driver, and brings what they send to its receivers."""

    twice = 0.01
    """How often Spark runs a task a second time."""
    slots = 2
    """How many groups of namespaces are committed by tasks of their own."""

    def __init__(self, world: World, plan: ExecutionPlan) -> None:
        self.world = world
        self._plan = plan
        self._workers = [InstanceRegistry(), InstanceRegistry()]
        self._plans = [plan, plan.commit_phase()] if plan.wiring.batch_spout else [plan]
        number = world.scenario.workers
        self._fleet = SimulatedFleet(world, self._plans, number) if number else None  # workers that stay

    def run_levels(self, plan: ExecutionPlan, rows: list[Envelope], current: Round) -> Sequence[TaskReport]:
        """Run the bolts of a plan stage by stage on what its spouts sent; return the reports."""
        for stage in plan.wiring.stages:
            inputs: defaultdict[int, list[Envelope]] = defaultdict(list)
            for row in rows:
                inputs[row.partition].append(row)
            rows = []
            waiting = list(range(len(stage)))
            while waiting:
                partition = waiting.pop(self.world.choices.pick(len(waiting)))
                self.check(current)
                rows += self._run_bolts(plan, stage[partition], current, self._delivered(inputs[partition], current))
        return reports_in(self._delivered(rows, current), current)

    def commit_state(self, current: Round, groups: Sequence[CommitGroup], threads: int) -> Sequence[TaskReport]:
        """Run the commit tasks; the workers' instances have no part in it."""
        if self._fleet is not None:
            return self._commit_in_workers(self._fleet, current, groups, threads)
        rows: list[Envelope] = []
        waiting = list(groups)
        while waiting:
            group = waiting.pop(self.world.choices.pick(len(waiting)))
            task = (f"commit of {group.task[0]}", group.task[1])
            rows += self.run_task(task, lambda _: run_commit_task(self._plan, group, current, threads))  # noqa: B023
        return reports_in(self._delivered(rows, current), current)

    def run_in_workers(
        self,
        fleet: SimulatedFleet,
        phase: int,
        current: Round,
        sources: Mapping[int, Sequence[SourceTask]],
        feed: Sequence[FeedTask] = (),
    ) -> Sequence[TaskReport]:
        """Run a round in workers that stay; return the reports."""
        payloads = fleet.run(phase, current, sources, feed, lambda: self.check(current))
        for node in fleet.nodes:
            if not node.is_busy:
                self._check_budget(node.rounds.registry)
        return reports_in([Envelope(0, 0, 0, payload) for payload in payloads], current)

    def _commit_in_workers(
        self, fleet: SimulatedFleet, current: Round, groups: Sequence[CommitGroup], threads: int
    ) -> Sequence[TaskReport]:
        phase = len(self._plans) - 1
        text = round_to_text(self._plans[phase], current)
        payloads = {slot: pickle.dumps((phase, group, threads, text)) for slot, group in enumerate(groups)}
        answers = fleet.ask(Kind.COMMIT, payloads, current.txid)
        return reports_in([Envelope(0, 0, 0, payload) for payload in answers], current)

    def check(self, current: Round) -> None:
        """Called before each bolt's task; may raise."""
        world = self.world
        if world.scenario.loses_executors and world.strikes(0.05):
            world.tries.lost(world.process, current.txid)
            while_running = world.choices.pick(2) == 1
            world.say(f"an executor is lost{' while it ran a task' if while_running else ''}")
            raise InfrastructureLost("simulated: an executor is lost", txid=current.txid, while_running=while_running)

    def loses(self, current: Round) -> None:
        """Called when a message is lost: its receiver cannot notice it, only the driver can."""

    def run_task(self, task: TaskKey, work: Work) -> list[Envelope]:
        """Run a task; return what arrives of what it sends."""
        world = self.world
        name = f"{task[0]}-{task[1]}"
        if world.strikes(self.twice):
            registry = InstanceRegistry()
            world.start_late_attempt(name, lambda: list(work(registry)))
        sent = self._attempt(name, work)
        if world.strikes(self.twice):
            world.say(f"{name} runs twice, and both outputs are used")
            again = self._attempt(name, work)
            sent = self._mixed(sent, again)
        return sent

    def _run_bolts(
        self, plan: ExecutionPlan, tasks: Sequence[TaskKey], current: Round, rows: list[Envelope]
    ) -> list[Envelope]:
        return self.run_task(tasks[0], lambda registry: run_bolt_tasks(plan, tasks, current, registry, rows))

    def _mixed(self, first: list[Envelope], second: list[Envelope]) -> list[Envelope]:
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

    def _attempt(self, name: str, work: Work) -> list[Envelope]:
        for _ in range(_TASK_FAILURES):
            worker = self.worker()
            registry = self._workers.pop(worker)
            try:
                sent = self.world.run_task(name, lambda: list(work(registry)))  # noqa: B023
                self._check_budget(registry)
            except TaskLost:
                registry = InstanceRegistry()
            else:
                return sent
            finally:
                self._workers.insert(worker, registry)
        raise RuntimeError(f"simulated: task {name} failed {_TASK_FAILURES} times")

    def _check_budget(self, registry: InstanceRegistry) -> None:
        """Check that the states of a worker together cache no more than one may. Not if the last task failed."""
        kept = [instance for run in registry.runs for instance in registry.instances(run).values()]
        states = [instance.bolt._state for instance in kept if isinstance(instance.bolt, StatefulBoltExecutor)]
        cached = sum(state.clean_entries for state in states if isinstance(state, KeyValueState))
        has_failed = any(not instance.attempt for instance in kept)
        most = self.world.scenario.cache_entries
        if cached > most and not has_failed:
            self.world.break_off(Violation(f"a worker caches {cached} entries, and may cache {most}"))

    def worker(self) -> int:
        """Choose a worker that has no task."""
        return self.world.choices.pick(len(self._workers))

    def _delivered(self, rows: list[Envelope], current: Round) -> list[Envelope]:
        """What arrives of what was sent, in the order in which it does."""
        world, choices = self.world, self.world.choices
        rows = list(rows)
        if len(rows) > 1 and world.choices.happens(0.3):
            for position in range(len(rows) - 1, 0, -1):
                other = position - choices.pick(position + 1)
                rows[position], rows[other] = rows[other], rows[position]
        if rows and world.strikes(0.005):
            lost = rows.pop(choices.pick(len(rows)))
            self.loses(current)
            world.say(f"a message to level {lost.level}, partition {lost.destination} is lost")
        if rows and world.strikes(0.005):
            twice = rows[choices.pick(len(rows))]
            world.say(f"a message to level {twice.level}, partition {twice.destination} arrives twice")
            rows.append(twice)
        return rows


class SimulatedRunner(TaskRunner):
    """See `anchorbolt.engine.driver.runner.Runner`."""

    def __init__(self, world: World, plan: ExecutionPlan) -> None:
        super().__init__(world, plan)
        self.lines: Sequence[str] = ()  # of the current batch
        new_host: NewHost = partial(SteppedHost, world)
        self._hosted: WorkerSpouts | None = None
        if world.scenario.hosts_spouts:
            assert self._fleet is not None
            self._hosted = WorkerSpouts(self._fleet)  # type: ignore[arg-type]
            new_host = self._hosted.new_host
        self.clock = world.clock
        has_spouts = world.broker is not None or world.scenario.is_timed
        self.spouts = DriverSpouts(plan, world.clock, new_host, world.clock) if has_spouts else None
        self.processing = None
        self.sources = () if self.spouts is None else self.spouts.sources

    def idle(self) -> None:
        """Let what happens in workers happen between two waves."""
        if self._hosted is not None and self._fleet is not None:
            self._fleet.idle()

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        self.world.tries.begun(self.world.process, current)
        self.world.invariants.begun(current)
        if self._fleet is not None:
            intakes: Mapping[TaskKey, int] = {}
            if self._hosted is not None and self.spouts is not None and self.spouts.rich is not None:
                self.spouts.rich.forget_lost()
                intakes = self._hosted.intakes()
            sources = driver_tasks(self._plan, self.spouts, self._fleet.slots, intakes)
            feed = [lambda: self._run_lines(current)] if "lines" in self._plan.graph.spouts else []
            return self.run_in_workers(self._fleet, 0, current, sources, feed)
        return self.run_levels(self._plan, self._run_spouts(current), current)

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        pass

    def read_files(self, files: Any, columns: bytes) -> Any:
        raise AssertionError("a ParquetSink reads no files")

    def progress(self) -> StageProgress:
        return StageProgress()

    def long_calls(self) -> Sequence[LongCall]:
        return ()

    def workers(self) -> Sequence[WorkerFigures]:
        return ()

    def close_instances(self) -> None:
        pass

    def _run_spouts(self, current: Round) -> list[Envelope]:
        rows: list[Envelope] = []
        if "lines" in self._plan.graph.spouts:
            rows += self._run_lines(current)
        rich = None if self.spouts is None else self.spouts.rich
        for task in () if rich is None else self._plan.wiring.rich_spout_tasks:
            rows += self.run_task(task, lambda _: rich.run_task(task, current))  # type: ignore[union-attr]  # noqa: B023
        return rows

    def _run_lines(self, current: Round) -> Iterator[Envelope]:
        lines = [SourceRows("default", len(self.lines), [list(self.lines)])]
        return run_spout_task(self._plan, "lines", 0, current, lines)


def _place(row: Envelope) -> tuple[int, int]:
    return row.level, row.destination
