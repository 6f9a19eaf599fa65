"""Runs the processing phases of a transactional topology's batches in this process, several at a time."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.local.levels import run_levels
from anchorbolt.engine.local.workers import Workers
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.emitter_task import run_emitter_task
from anchorbolt.engine.task.messages import Envelope, TaskReport
from anchorbolt.errors import WaveFailed
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout
from anchorbolt.transactional.batches.background import Background, Cancellation
from anchorbolt.transactional.batches.flights import BatchDriver

if TYPE_CHECKING:
    from anchorbolt.engine.spark.ranges import LocalRanges


class LocalProcessing:
    """The port `anchorbolt.engine.driver.runner.Processing` on threads, each with workers of its own.

    The order of the tasks within a phase follows from the seed; how the phases of several batches overlap does not.
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
            from anchorbolt.engine.spark.ranges import LocalRanges

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
            if not is_kept:  # the run has ended without waiting for this phase, which was given up
                workers.close_run(self._plan.run_id)
