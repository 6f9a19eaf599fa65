"""`LocalCluster`: runs topologies in this process, one task at a time, in an order that a seed decides.

It is meant for unit tests, like Storm's `LocalCluster`. Tasks run the same code as on Spark, and tuples are encoded
between tasks, so that a job behaves the same on both engines.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.driver.pump import driver_spouts, waves_of
from anchorbolt.engine.local.batches import LocalBatchRunner
from anchorbolt.engine.local.levels import run_levels
from anchorbolt.engine.local.workers import Workers
from anchorbolt.engine.spouts.driver_spouts import Clock
from anchorbolt.engine.submit.handle import RunHandle, WaveListener
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.submit.preparation import prepare_plan
from anchorbolt.engine.submit.start import RunStart
from anchorbolt.engine.task.commit_task import CommitGroup
from anchorbolt.engine.task.messages import Envelope, TaskReport
from anchorbolt.files import Folder, join
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.spouts.rich import BaseRichSpout
from anchorbolt.spouts.stream import StreamSpout
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.topology.graph import Topology

if TYPE_CHECKING:
    from anchorbolt.engine.spark.runner import LocalStreams


class LocalCluster:
    """Runs topologies in this process, deterministically.

    By default this object keeps the state in memory: a topology that you submit to it again continues with its state.
    The default checkpoint location is a temporary directory, which exists as long as this object.
    """

    def __init__(self, *, seed: int = 0, clock: Clock = time.monotonic) -> None:
        """Create a cluster.

        Args:
            seed: Decides the order in which tasks run and blobs arrive, and which instance of a bolt runs a task's
                next wave: as on Spark, a task has an instance in each of two workers.
            clock: Returns the seconds by which tuple trees time out, tick tuples are due and the ages of messages
                are measured. A test passes a `ManualClock`.
        """
        self._seed = seed
        self._clock = clock
        self._memory = MemoryStateProvider()
        self._directory = _TemporaryDirectory()

    def submit(
        self,
        topology: Topology,
        conf: Mapping[str, Any] | None = None,
        *,
        until_empty: bool = True,
        on_wave: WaveListener | None = None,
        start: RunStart | None = None,
    ) -> RunHandle:
        """Recover from an earlier run of the topology, start it on a new thread, and return its handle.

        Args:
            topology: The topology.
            conf: Configuration; see `docs/configuration.md`.
            until_empty: Process the data that the sources have now, and end; with rich spouts, when they emit no more
                and no message is pending. Otherwise run until `stop`.
            on_wave: Called after each committed wave.
            start: Internal: what shows the start.

        Raises:
            AnchorboltError: The topology or configuration is wrong, or recovery was refused.
        """
        location = join(self._directory.path, topology.name)
        plan = prepare_plan(topology, conf, memory=self._memory, location=location)
        folder, kept = plan.open_location(), plan.settings.checkpoint_location is not None
        handle = partial(RunHandle, plan, folder, until_empty=until_empty, keeps_history=kept, start=start)
        if plan.batch_spout:
            batches = LocalBatchRunner(plan, self._seed, partial(_read_files, topology.name), self._directory)
            return handle(runner=batches, waves=batches.waves, listener=on_wave)
        source = _Source(plan, folder, self._clock)
        runner = _LocalRunner(plan, source, self._seed, self._directory)
        return handle(runner=runner, waves=source.waves, listener=on_wave)


class _TemporaryDirectory:
    """A directory that is deleted with the last reference to this object: a cluster's, or a run's."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="anchorbolt-local-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class _LocalRunner:
    """The port `anchorbolt.engine.driver.rounds.Runner` in this process."""

    slots = 0  # it runs no tasks in other processes

    def __init__(self, plan: ExecutionPlan, source: _Source, seed: int, directory: _TemporaryDirectory) -> None:
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
        return _read_files(self._plan.topology, files, columns)

    def close_instances(self) -> None:
        self._workers.close_run(self._plan.run_id)


class _Source:
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


def _read_files(topology: str, files: Mapping[bytes, Sequence[str]], columns: bytes) -> Any:
    """Read Parquet files: except for stream spouts, the only thing here that needs Spark."""
    from anchorbolt.engine.spark.session import build_session
    from anchorbolt.engine.spark.sink_files import read_sink_files

    return read_sink_files(build_session(topology), files, columns)
