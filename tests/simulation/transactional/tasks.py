"""Runs the two phases of batches as Spark does: processing phases as threads of the driver, several at a time."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from anchorbolt.checkpoint.coordinator import CommittedWave
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine import WaveReport
from anchorbolt.engine.driver.runner import StageProgress, WorkerFigures
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.emitter_task import run_emitter_task
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import Envelope, ReportMessage, TaskReport, decode_message
from anchorbolt.engine.task.watchdog import LongCall
from anchorbolt.engine.workers.sources import emitter_tasks
from anchorbolt.errors import AnchorboltError, WaveFailed
from anchorbolt.transactional.batches.flights import BatchDriver, PartitionStart, Told
from anchorbolt.transactional.batches.hand_off import folder_of
from tests.simulation.actors import Actor
from tests.simulation.runner import TaskRunner

if TYPE_CHECKING:
    from tests.simulation.transactional.world import BatchWorld

T = TypeVar("T")


class SimulatedProcessing:
    """See `anchorbolt.engine.driver.runner.Phase`."""

    def __init__(self) -> None:
        self.is_ended = False
        self.is_cancelled = False
        self.runs_on = False  # for a while, although it was cancelled or has failed
        self._reports: Sequence[TaskReport] = ()
        self._failure: Exception | None = None

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def run(self, work: Callable[[], Sequence[TaskReport]]) -> None:
        try:
            self._reports = work()
        except Exception as error:
            self._failure = error
        self.is_ended = True

    def reports(self) -> Sequence[TaskReport]:
        if self._failure is not None:
            raise self._failure
        return self._reports

    def cancel(self) -> None:
        self.is_cancelled = True
        self.runs_on |= not self.is_ended


class AskedDriver:
    """What an emitter asks its driver over a socket: a thread of the driver answers, if it lives."""

    def __init__(self, world: BatchWorld, driver: BatchDriver) -> None:
        self._world = world
        self._driver = driver
        self._process = world.process

    def partitions(self, current: Round, task: TaskKey) -> list[PartitionStart]:
        return self._ask(f"asks for the partitions of {task}", lambda: self._driver.partitions(current, task))

    def tell(self, current: Round, task: TaskKey, told: Told) -> None:
        self._ask(f"tells the metadata of {task}", lambda: self._driver.tell(current, task, told))

    def _ask(self, what: str, call: Callable[[], T]) -> T:
        world = self._world
        world.step(what)
        fault = 1 + world.choices.pick(2) if world.strikes(0.006) else 0
        answers: list[T] = []
        refusals: list[AnchorboltError] = []

        def answer() -> None:
            try:
                answers.append(call())
            except AnchorboltError as error:
                refusals.append(error)

        if fault != 1 and not self._process.is_killed:
            world.schedule.start(Actor(f"server of {what}", answer, self._process))
        while not answers and not refusals and not fault and not self._process.is_killed:
            world.wait("waits for the driver's answer")
        if refusals:
            raise WaveFailed(refusals[0].message, txid=-1)
        if not answers or fault:
            raise WaveFailed("simulated: the driver does not answer", txid=-1)
        return answers[0]


def has_failed(plan: ExecutionPlan, rows: list[Envelope]) -> bool:
    """Return whether one of these blobs is the report of a task that has failed."""
    for row in rows:
        if row.level == plan.wiring.driver_level:
            message = decode_message(row.payload)
            assert isinstance(message, ReportMessage)
            report: TaskReport = pickle.loads(message.pickled)  # noqa: S301 - made by a task of this simulation
            if report.failure is not None:
                return True
    return False


class BatchTasks(TaskRunner):
    """See `anchorbolt.engine.driver.runner.Runner`, and `Processing`."""

    world: BatchWorld
    spouts: None = None
    clock = staticmethod(time.time)
    sources = ()
    session: None = None
    twice = 0.03

    def __init__(self, world: BatchWorld, plan: ExecutionPlan) -> None:
        super().__init__(world, plan)
        self._commit_plan = plan.commit_phase()
        self._phases: list[tuple[Round, SimulatedProcessing]] = []  # that run
        self._started: dict[str, tuple[int, SimulatedProcessing]] = {}  # all, by the name of their folder
        self._shuffled: list[list[Envelope]] = []  # what the emitters of the last phases have sent

    @property
    def processing(self) -> BatchTasks:
        return self

    def serve(self, driver: BatchDriver) -> None:
        self._driver = AskedDriver(self.world, driver)
        if self._fleet is not None:
            self._fleet.emitters = self._driver
            self._fleet.may_sleep = not self.world.batch_scenario.has_outside

    def start(self, current: Round, notify: Callable[[], None]) -> SimulatedProcessing:
        """Begin a processing phase in a thread of the driver."""
        processing = SimulatedProcessing()

        def work() -> None:
            processing.run(lambda: self._process(current))
            if self._fleet is not None and processing.has_failed:
                processing.runs_on = True  # in workers that do not know it yet
            self._phases = [each for each in self._phases if each[1] is not processing]
            notify()

        self._phases.append((current, processing))
        folder = folder_of(current.fence).rpartition("/")[2]
        if folder in self._started:
            self.world.checks.broken(f"batches {self._started[folder][0]} and {current.txid} have one fence")
        self._started[folder] = current.txid, processing
        self.world.start_thread(f"batch {current.txid}", work)
        return processing

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        self.world.checks.commits(current)
        self._damage_hand_offs(current)
        if self._fleet is None:
            reports = self.run_levels(self._commit_plan, [], current)
        else:
            reports = self.run_in_workers(self._fleet, 1, current, {})
        self.world.checks.failed(reports)
        return reports

    def committed(self, report: WaveReport, wave: CommittedWave) -> None:
        """Check, when a batch has committed, that only batches in flight have hand-offs."""
        world = self.world
        if world.has_late_attempts:  # which may write whenever they run
            return
        for path in world.files:
            folder = path.partition("/hand-offs/")[2].partition("/")[0]
            txid, processing = self._started.get(folder, (report.txid + 1, None))
            if processing is None or processing.runs_on:
                continue
            if processing.is_cancelled or txid <= report.txid:
                world.checks.broken(f"batch {report.txid} has committed, and the hand-off {path} is still there")

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        pass

    def read_files(self, files: Any, columns: bytes) -> Any:
        raise AssertionError("there is no sink")

    def progress(self) -> StageProgress:
        return StageProgress()

    def long_calls(self) -> Sequence[LongCall]:
        return ()

    def workers(self) -> Sequence[WorkerFigures]:
        return ()

    def close_instances(self) -> None:
        pass

    def worker(self) -> int:
        if not self._workers:
            self._workers.append(InstanceRegistry())
        return super().worker()

    def check(self, current: Round) -> None:
        """Spark cancels a phase that was given up, but perhaps only after some more tasks."""
        is_cancelled = any(processing.is_cancelled for each, processing in self._phases if each is current)
        if is_cancelled and not self.world.choices.happens(0.3):
            self.world.say(f"batch {current.txid} was given up")
            raise WaveFailed(f"batch {current.txid} was given up", txid=current.txid)

    def loses(self, current: Round) -> None:
        if current.batch is not None:  # not a commit of state, whose messages are only reports
            self.world.checks.spoil(current)

    def _process(self, current: Round) -> Sequence[TaskReport]:
        world, plan = self.world, self._plan
        world.step(f"begins the processing phase of batch {current.txid}")
        while world.batch_scenario.is_slow and world.choices.happens(0.6):
            world.wait("is slow")
        if self._fleet is not None:
            reports = self.run_in_workers(self._fleet, 0, current, emitter_tasks(plan, self._fleet.slots))
            world.checks.failed(reports)
            return reports
        rows: list[Envelope] = []
        waiting = list(plan.wiring.tasks[plan.wiring.batch_spout])
        while waiting:
            task = waiting.pop(world.choices.pick(len(waiting)))
            self.check(current)
            rows += self.run_task(task, self._emission(task, current))
        if self._shuffled and world.strikes(0.005):
            rows = self._shuffled[world.choices.pick(len(self._shuffled))]
            world.say("Spark uses what the emitters of an earlier phase have sent")
            world.checks.spoil(current)
        self._shuffled = [*self._shuffled[-2:], rows]
        reports = self.run_levels(plan, rows, current)
        world.checks.failed(reports)
        return reports

    def _emission(self, task: TaskKey, current: Round) -> Callable[[InstanceRegistry], Any]:
        def emit(registry: InstanceRegistry) -> list[Envelope]:
            rows = list(run_emitter_task(self._plan, task, current, registry, self._driver))
            if not self.world.is_late and has_failed(self._plan, rows):
                self.world.checks.spoil(current)
            return rows

        return emit

    def _damage_hand_offs(self, current: Round) -> None:
        """Lose a file that a task has kept, or put another one in its place."""
        world = self.world
        files = sorted(name for name in world.files if "/hand-offs/" in name)
        if not files or not world.strikes(0.03):
            return
        damaged, other = (files[world.choices.pick(len(files))] for _ in range(2))
        if damaged == other:
            world.say(f"{damaged} is lost")
            del world.files[damaged]
        else:
            world.say(f"{damaged} becomes {other}")
            world.checks.is_damaged = True
            world.files[damaged] = world.files[other]
