"""The runner of `LocalCluster`: runs rounds in this process, one task at a time."""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.driver.runner import StageProgress, WorkerFigures
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.driver_spouts import Clock, DriverSpouts, driver_spouts
from anchorbolt.engine.sources.source import Source
from anchorbolt.engine.task.bolt_task import run_bolt_tasks
from anchorbolt.engine.task.commit_task import CommitGroup
from anchorbolt.engine.task.emitter_task import run_emitter_task
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import Envelope, TaskReport, decode_message, reports_in
from anchorbolt.engine.task.watchdog import LongCall, long_calls
from anchorbolt.errors import WaveFailed
from anchorbolt.files import Folder
from anchorbolt.spouts.base import BaseRichSpout, StreamSpout
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout
from anchorbolt.transactional.batches.background import Background, Cancellation
from anchorbolt.transactional.batches.flights import BatchDriver

if TYPE_CHECKING:
    from anchorbolt.engine.spark.processing import LocalRanges

_WORKERS = 2


class Workers:
    """Chooses a worker by a seed for each task and round. Not thread-safe.

    Spark runs a task's next wave in any worker, so a bolt can lose its attributes. Here the same happens in tests.
    """

    def __init__(self, seed: int) -> None:
        self._choice = random.Random(f"workers/{seed}")  # independent of the order of tasks and blobs
        self._registries = [InstanceRegistry() for _ in range(_WORKERS)]
        self._used: dict[TaskKey, InstanceRegistry] = {}  # in the task's last round

    def choose(self, *tasks: TaskKey) -> InstanceRegistry:
        """Return the instances of the worker that runs these tasks in this round."""
        registry = self._choice.choice(self._registries)
        self._used.update(dict.fromkeys(tasks, registry))
        return registry

    def handle(self, plan: ExecutionPlan, checkpoint: CheckpointTuple, task: TaskKey, current: Round) -> None:
        """Pass COMMIT or ROLLBACK to a task's bolt in the worker that ran the task last."""
        self._used.get(task, self._registries[0]).handle(plan, checkpoint, task, current)

    def close_run(self, run_id: str) -> None:
        for registry in self._registries:
            registry.close_run(run_id)


def run_levels(
    plan: ExecutionPlan,
    rows: Iterable[Envelope],
    current: Round,
    workers: Workers,
    order: random.Random,
    check: Callable[[], None] = lambda: None,
) -> list[TaskReport]:
    """Run the partitions of each stage in a random order; the blobs of one sender keep their order.

    Args:
        plan: The plan.
        rows: The blobs that the spouts send.
        current: The round.
        workers: The workers that run the tasks.
        order: Chooses the order.
        check: Called before each partition; may raise.
    """
    waiting = list(rows)
    for stage in plan.wiring.stages:
        inputs: defaultdict[int, list[Envelope]] = defaultdict(list)
        for row in waiting:
            inputs[row.partition].append(row)
        waiting = []
        partitions = list(range(len(stage)))
        order.shuffle(partitions)
        for partition in partitions:
            check()
            arriving, tasks = _interleaved(inputs[partition], order), stage[partition]
            waiting.extend(run_bolt_tasks(plan, tasks, current, workers.choose(*tasks), arriving))
    return reports_in(waiting, current)


def _interleaved(rows: list[Envelope], order: random.Random) -> Iterator[Envelope]:
    """Yield rows in a random order that keeps the order of each sender's rows."""
    senders: dict[object, list[Envelope]] = defaultdict(list)
    for row in rows:
        message = decode_message(row.payload)
        senders[row.level, row.destination, message.source].append(row)
    queues = [iter(queue) for queue in senders.values()]
    while queues:
        position = order.randrange(len(queues))
        try:
            yield next(queues[position])
        except StopIteration:
            queues.pop(position)


class TemporaryDirectory:
    """A directory that is deleted with the last reference to this object, by a cluster or a run."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="anchorbolt-local-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class LocalRunner:
    """The port `anchorbolt.engine.driver.runner.Runner` in this process."""

    slots = 0  # no tasks run in other processes

    def __init__(
        self, plan: ExecutionPlan, folder: Folder, clock: Clock, seed: int, directory: TemporaryDirectory
    ) -> None:
        """Create it. A `clock` other than `time.monotonic` is also the clock of the waves."""
        self._plan = plan
        self._seed = seed
        self.clock: Clock = time.time if clock is time.monotonic else clock
        self._directory = directory  # exists as long as the run
        self._workers = Workers(seed)
        self.spouts: DriverSpouts | None = None
        self.sources: list[Source] = []
        self.processing = None
        if plan.wiring.batch_spout:
            self._plan = plan.commit_phase()
            self.processing = LocalProcessing(plan, seed, self._order)
            return
        self.spouts = driver_spouts(
            plan, "LocalCluster", (BaseRichSpout, StreamSpout, FeederSpout), clock, wall_clock=self.clock
        )
        if plan.graph.stream_spouts:
            from anchorbolt.engine.spark.query import local_query

            self.sources.append(local_query(plan, folder))
        if self.spouts is not None:
            self.sources += self.spouts.sources

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        rows = chain.from_iterable(source.rows(current) for source in self.sources)
        return run_levels(self._plan, rows, current, self._workers, self._order(current))

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        for task in tasks:
            self._workers.handle(self._plan, checkpoint, task, current)

    def commit_state(self, current: Round, groups: Sequence[CommitGroup], threads: int) -> Sequence[TaskReport]:
        raise AssertionError("the driver's process commits by itself")

    def read_files(self, files: Mapping[bytes, Sequence[str]], columns: bytes) -> Any:
        """Read Parquet files. Besides stream spouts, only this needs Spark here."""
        from anchorbolt.engine.spark.session import build_session
        from anchorbolt.engine.spark.sink_files import read_sink_files

        return read_sink_files(build_session(self._plan.topology), files, columns)

    def progress(self) -> StageProgress:
        return StageProgress()

    def long_calls(self) -> Sequence[LongCall]:
        return long_calls(self._plan.topology)

    def workers(self) -> Sequence[WorkerFigures]:
        return ()

    def close_instances(self) -> None:
        if self.processing is not None:
            self.processing.close()
        self._workers.close_run(self._plan.run_id)

    def _order(self, current: Round) -> random.Random:
        return random.Random(f"{self._seed}/{current.fence.seq}")


class LocalProcessing:
    """The port `anchorbolt.transactional.batches.pipeline.Processing` on threads, each with its own workers.

    The seed decides the order of the tasks within a phase, but not how the phases of several batches overlap.
    """

    def __init__(self, plan: ExecutionPlan, seed: int, order: Callable[[Round], random.Random]) -> None:
        self._plan = plan
        self._seed = seed
        self._order = order
        self._lock = threading.Lock()
        self._is_closed = False
        self._free: list[Workers] = []  # of phases that have ended
        self._background = Background(self._process)
        self.start = self._background.start
        self._ranges: LocalRanges | None = None
        if isinstance(plan.graph.spouts[plan.wiring.batch_spout].spout, SparkTransactionalSpout):
            from anchorbolt.engine.spark.processing import LocalRanges

            self._ranges = LocalRanges(plan)
        self.session: Any = None if self._ranges is None else self._ranges.session

    def serve(self, driver: BatchDriver) -> None:
        self._driver = driver

    def close(self) -> None:
        self._background.close()
        with self._lock:
            self._is_closed = True
        for workers in self._free:
            workers.close_run(self._plan.run_id)

    def _process(self, current: Round, cancellation: Cancellation) -> list[TaskReport]:
        def check() -> None:
            if cancellation.is_set:
                raise WaveFailed(f"batch {current.txid} was given up", txid=current.txid)

        with self._lock:
            workers = self._free.pop() if self._free else Workers(self._seed)
        try:
            rows: list[Envelope] = []
            if self._ranges is not None:
                check()
                rows.extend(self._ranges.rows(current, cancellation))
            for task in self._plan.wiring.tasks.get(self._plan.wiring.batch_spout, ()):
                check()
                rows.extend(run_emitter_task(self._plan, task, current, workers.choose(task), self._driver))
            return run_levels(self._plan, rows, current, workers, self._order(current), check)
        finally:
            with self._lock:
                is_kept = not self._is_closed
                if is_kept:
                    self._free.append(workers)
            if not is_kept:  # the run has ended, and did not wait for this cancelled phase
                workers.close_run(self._plan.run_id)
