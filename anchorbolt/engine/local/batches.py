"""Runs the two phases of a transactional topology's batches in this process."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.driver.batches.background import Background, Cancellation
from anchorbolt.engine.driver.batches.pipeline import Pipeline
from anchorbolt.engine.driver.batches.waves import BatchSource
from anchorbolt.engine.driver.runner import StageProgress
from anchorbolt.engine.local.levels import run_levels
from anchorbolt.engine.local.workers import Workers
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.commit_task import CommitGroup
from anchorbolt.engine.task.emitter_task import run_emitter_task
from anchorbolt.engine.task.messages import Envelope, TaskReport
from anchorbolt.engine.task.watchdog import LongCall, long_calls
from anchorbolt.errors import WaveFailed
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout

if TYPE_CHECKING:
    from anchorbolt.engine.spark.batches.ranges import LocalRanges


class LocalBatchRunner:
    """Runs processing phases on threads, each with workers of its own, and commit phases on the wave's thread.

    The order of the tasks within a phase follows from the seed; how the phases of several batches overlap does not.
    """

    spouts: None = None
    slots = 0  # it runs no tasks in other processes

    def __init__(
        self,
        plan: ExecutionPlan,
        seed: int,
        read_files: Callable[[Mapping[bytes, Sequence[str]], bytes], Any],
        directory: object,
    ) -> None:
        """Create it; `directory` exists as long as the run."""
        self._plan = plan
        self._commit_plan = plan.commit_phase()
        self._seed = seed
        self._directory = directory
        self.read_files = read_files
        self._workers = Workers(seed)  # of the commit phase
        self._lock = threading.Lock()
        self._is_closed = False
        self._free: list[Workers] = []  # of processing phases that have ended
        self._background = Background(self._process)
        self._batches = BatchSource(plan, self._background.start)
        self.sources = (self._batches,)
        self._ranges: LocalRanges | None = None
        if isinstance(plan.graph.spouts[plan.batch_spout].spout, SparkTransactionalSpout):
            from anchorbolt.engine.spark.batches.ranges import LocalRanges

            self._ranges = LocalRanges(plan)

    def use(self, pipeline: Pipeline) -> None:
        """Take the run's pipeline, which the emitters ask."""
        self._pipeline = self._batches.pipeline = pipeline
        if self._ranges is not None:
            pipeline.session = self._ranges.session

    def run_round(self, current: Round) -> list[TaskReport]:
        return run_levels(self._commit_plan, (), current, self._workers, self._order(current))

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        for task in tasks:
            self._workers.handle(self._commit_plan, checkpoint, task, current)

    def commit_state(self, current: Round, groups: Sequence[CommitGroup], threads: int) -> Sequence[TaskReport]:
        raise AssertionError("the driver's process commits by itself")

    def progress(self) -> StageProgress:
        return StageProgress()

    def long_calls(self) -> Sequence[LongCall]:
        return long_calls(self._plan.topology)

    def close_instances(self) -> None:
        self._background.close()
        with self._lock:
            self._is_closed = True
        self._workers.close_run(self._commit_plan.run_id)
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
            for task in self._plan.tasks.get(self._plan.batch_spout, ()):
                check()
                rows.extend(run_emitter_task(self._plan, task, current, workers.choose(task), self._pipeline))
            return run_levels(self._plan, rows, current, workers, self._order(current), check)
        finally:
            with self._lock:
                is_kept = not self._is_closed
                if is_kept:
                    self._free.append(workers)
            if not is_kept:  # the run has ended without waiting for this phase, which was given up
                workers.close_run(self._plan.run_id)

    def _order(self, current: Round) -> random.Random:
        return random.Random(f"{self._seed}/{current.fence.seq}")
