"""The runner of `LocalCluster`: runs rounds in this process, one task at a time."""

from __future__ import annotations

import random
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.driver.runner import StageProgress
from anchorbolt.engine.local.levels import run_levels
from anchorbolt.engine.local.workers import Workers
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.driver_spouts import Clock, DriverSpouts, driver_spouts
from anchorbolt.engine.sources.source import Source
from anchorbolt.engine.task.commit_task import CommitGroup
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.engine.task.watchdog import LongCall, long_calls
from anchorbolt.files import Folder
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.spouts.rich import BaseRichSpout
from anchorbolt.spouts.stream import StreamSpout


class TemporaryDirectory:
    """A directory that is deleted with the last reference to this object: a cluster's, or a run's."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="anchorbolt-local-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class LocalRunner:
    """The port `anchorbolt.engine.driver.runner.Runner` in this process."""

    slots = 0  # it runs no tasks in other processes

    def __init__(
        self, plan: ExecutionPlan, folder: Folder, clock: Clock, seed: int, directory: TemporaryDirectory
    ) -> None:
        self._plan = plan
        self._seed = seed
        self._directory = directory  # exists as long as the run
        self._workers = Workers(seed)
        self.spouts: DriverSpouts | None = None
        self.sources: list[Source] = []
        self.processing = None
        if plan.wiring.batch_spout:
            from anchorbolt.engine.local.processing import LocalProcessing

            self._plan = plan.commit_phase()
            self.processing = LocalProcessing(plan, seed, self._order)
            return
        self.spouts = driver_spouts(plan, "LocalCluster", (BaseRichSpout, StreamSpout, FeederSpout), clock)
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
        """Read Parquet files: except for stream spouts, the only thing here that needs Spark."""
        from anchorbolt.engine.spark.session import build_session
        from anchorbolt.engine.spark.sink_files import read_sink_files

        return read_sink_files(build_session(self._plan.topology), files, columns)

    def progress(self) -> StageProgress:
        return StageProgress()

    def long_calls(self) -> Sequence[LongCall]:
        return long_calls(self._plan.topology)

    def close_instances(self) -> None:
        if self.processing is not None:
            self.processing.close()
        self._workers.close_run(self._plan.run_id)

    def _order(self, current: Round) -> random.Random:
        return random.Random(f"{self._seed}/{current.fence.seq}")
