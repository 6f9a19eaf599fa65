"""The runner of `LocalCluster`: runs rounds in this process, one task at a time."""

from __future__ import annotations

import random
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.driver.pump import driver_spouts, waves_of
from anchorbolt.engine.driver.runner import StageProgress
from anchorbolt.engine.local.levels import run_levels
from anchorbolt.engine.local.workers import Workers
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spouts.driver_spouts import Clock
from anchorbolt.engine.task.commit_task import CommitGroup
from anchorbolt.engine.task.messages import Envelope, TaskReport
from anchorbolt.engine.task.watchdog import LongCall, long_calls
from anchorbolt.files import Folder
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.spouts.rich import BaseRichSpout
from anchorbolt.spouts.stream import StreamSpout

if TYPE_CHECKING:
    from anchorbolt.engine.spark.runner import LocalStreams


class TemporaryDirectory:
    """A directory that is deleted with the last reference to this object: a cluster's, or a run's."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="anchorbolt-local-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class LocalRunner:
    """The port `anchorbolt.engine.driver.runner.Runner` in this process."""

    slots = 0  # it runs no tasks in other processes

    def __init__(self, plan: ExecutionPlan, source: LocalSource, seed: int, directory: TemporaryDirectory) -> None:
        self._plan = plan
        self._source = source
        self._order = random.Random(seed)
        self._directory = directory  # exists as long as the run
        self._workers = Workers(seed)
        self.spouts = source.spouts

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        return run_levels(self._plan, self._source.rows(current), current, self._workers, self._order)

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        for task in tasks:
            self._workers.handle(self._plan, checkpoint, task, current)

    def commit_state(self, current: Round, groups: Sequence[CommitGroup], threads: int) -> Sequence[TaskReport]:
        raise AssertionError("the driver's process commits by itself")

    def read_files(self, files: Mapping[bytes, Sequence[str]], columns: bytes) -> Any:
        return read_files(self._plan.topology, files, columns)

    def progress(self) -> StageProgress:
        return StageProgress()

    def long_calls(self) -> Sequence[LongCall]:
        return long_calls(self._plan.topology)

    def close_instances(self) -> None:
        self._workers.close_run(self._plan.run_id)


class LocalSource:
    """The spouts of a run, and the waves that they cause."""

    def __init__(self, plan: ExecutionPlan, folder: Folder, clock: Clock) -> None:
        self._plan = plan
        self.spouts = driver_spouts(plan, "LocalCluster", (BaseRichSpout, StreamSpout, FeederSpout), clock)
        self._streams: LocalStreams | None = None
        if plan.graph.stream_spouts:
            from anchorbolt.engine.spark.runner import LocalStreams

            self._streams = LocalStreams(plan, folder, self.spouts)
        self.waves = waves_of(plan, self._streams, self.spouts)

    def rows(self, current: Round) -> Iterator[Envelope]:
        """Yield the blobs of all spouts for the current wave. Called in each of its rounds."""
        if self._streams is not None:
            yield from self._streams.rows(current)
        if self.spouts is not None:
            yield from self.spouts.run_tasks(current)


def read_files(topology: str, files: Mapping[bytes, Sequence[str]], columns: bytes) -> Any:
    """Read Parquet files: except for stream spouts, the only thing here that needs Spark."""
    from anchorbolt.engine.spark.session import build_session
    from anchorbolt.engine.spark.sink_files import read_sink_files

    return read_sink_files(build_session(topology), files, columns)
