"""`LocalCluster`: runs topologies in this process, one task at a time, in an order that a seed decides.

It is meant for unit tests, like Storm's `LocalCluster`. Tasks run the same code as on Spark, and tuples are encoded
between tasks, so that a job behaves the same on both engines.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.checkpoint.ports import Batch, Round, TaskKey
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.driver.rounds import summarise
from anchorbolt.engine.submit.handle import RunHandle, WaveListener, prepare_plan
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.bolt_task import run_bolt_task
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import Envelope, TaskReport, decode_message, reports_in
from anchorbolt.engine.task.spout_task import run_spout_task
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.spouts.stream import StreamSpout
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.topology.graph import Topology
from anchorbolt.util.locations import Folder, join, open_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anchorbolt.engine.spark.runner import LocalStreams

_POLL_S = 0.05


class LocalCluster:
    """Runs topologies in this process, deterministically.

    By default this object keeps the state in memory: a topology that you submit to it again continues with its state.
    The default checkpoint location is a temporary directory, which exists as long as this object.
    """

    def __init__(self, *, seed: int = 0) -> None:
        """Create a cluster; `seed` decides the order in which tasks run and blobs arrive."""
        self._seed = seed
        self._memory = MemoryStateProvider()
        self._directory = _TemporaryDirectory()

    def submit(
        self,
        topology: Topology,
        conf: Mapping[str, Any] | None = None,
        *,
        until_empty: bool = True,
        on_wave: WaveListener | None = None,
    ) -> RunHandle:
        """Recover from an earlier run of the topology, start it on a new thread, and return its handle.

        Args:
            topology: The topology.
            conf: Configuration; see `docs/configuration.md`.
            until_empty: Process the data that the sources have now, and end. Otherwise run until `stop`.
            on_wave: Called after each committed wave.

        Raises:
            AnchorboltError: The topology or configuration is wrong, or recovery was refused.
        """
        location = join(self._directory.path, topology.name)
        plan = prepare_plan(topology, conf, memory=self._memory, location=location)
        folder = open_folder(plan.checkpoint_location)
        source = _open_source(plan, folder)
        runner = _LocalRunner(plan, source, random.Random(self._seed), self._directory)
        return RunHandle(plan, folder, runner, source, on_wave, until_empty=until_empty)


class _TemporaryDirectory:
    """A directory that is deleted with the last reference to this object: a cluster's, or a run's."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="anchorbolt-local-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class _LocalRunner:
    """The port `anchorbolt.engine.driver.rounds.Runner` in this process."""

    def __init__(
        self,
        plan: ExecutionPlan,
        source: _FeederSource | LocalStreams,
        order: random.Random,
        directory: _TemporaryDirectory,
    ) -> None:
        self._plan = plan
        self._source = source
        self._order = order
        self._directory = directory  # exists as long as the run
        self._registry = InstanceRegistry()

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        """Run level by level: the tasks of a level in a random order, the blobs of each sender in their own order."""
        plan = self._plan
        rows: list[Envelope] = list(self._source.rows(current))
        for level in plan.levels:
            inputs: defaultdict[int, list[Envelope]] = defaultdict(list)
            for row in rows:
                inputs[row.partition].append(row)
            rows = []
            partitions = list(range(len(level)))
            self._order.shuffle(partitions)
            for partition in partitions:
                arriving = _interleaved(inputs[partition], self._order)
                rows.extend(run_bolt_task(plan, level[partition], current, self._registry, arriving))
        return reports_in(rows, current)

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        for task in tasks:
            self._registry.handle(self._plan, checkpoint, task, current)

    def read_files(self, locations: Sequence[str]) -> Any:
        """Read Parquet files: except for stream spouts, the only thing here that needs Spark."""
        return self._source.spark_session().read.parquet(*locations)

    def close_instances(self) -> None:
        self._registry.close_run(self._plan.run_id)


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


def _open_source(plan: ExecutionPlan, folder: Folder) -> _FeederSource | LocalStreams:
    spouts: dict[str, Any] = {component: spec.spout for component, spec in plan.graph.spouts.items()}
    if all(isinstance(spout, FeederSpout) for spout in spouts.values()):
        return _FeederSource(plan, spouts)
    if all(isinstance(spout, StreamSpout) for spout in spouts.values()):
        from anchorbolt.engine.spark.runner import LocalStreams

        return LocalStreams(plan, folder)
    raise TopologyError(
        f"the spouts {', '.join(spouts)} have different classes, or a class that LocalCluster does not run. Use "
        "FeederSpout for all of them, or StreamSpout for all of them."
    )


class _FeederSource:
    def __init__(self, plan: ExecutionPlan, spouts: dict[str, FeederSpout]) -> None:
        self._plan = plan
        self._spouts = spouts
        self._batches: dict[str, list[tuple[Any, ...]]] = {}
        self._stop_requested = threading.Event()
        self._thread: int | None = None

    def query_id(self) -> str:
        return ""

    def start(self, spout: CheckpointSpout, add: WaveListener, *, until_empty: bool) -> None:
        self._spout, self._add, self._until_empty = spout, add, until_empty

    def wait(self) -> None:
        self._thread = threading.get_ident()
        first = next(iter(self._spouts.values()))
        self._settle()
        while not self._stop_requested.is_set():
            if any(spout.is_waiting() for spout in self._spouts.values()):
                self._run_wave(self._spout.record.batch_id + 1)
            elif self._until_empty:
                self._spout.check_not_overtaken()
                return
            else:
                with first.arrived:
                    first.arrived.wait(_POLL_S)

    def stop(self) -> bool:
        self._stop_requested.set()
        return self._thread != threading.get_ident()

    def _run_wave(self, number: int) -> None:
        self._batches = {component: spout.take(number) for component, spout in self._spouts.items()}
        try:
            report = summarise(self._spout.run_wave(Batch("", number)))
        finally:
            self._settle()
        self._add(report)

    def _settle(self) -> None:
        for spout in self._spouts.values():
            spout.settle(self._spout.record.batch_id)

    def rows(self, current: Round) -> Iterator[Envelope]:
        """Yield the blobs of all spouts for the current wave. Called in each of its rounds."""
        for component, spout in self._spouts.items():
            batch = self._batches[component]
            columns = list(map(list, zip(*batch, strict=True))) or [[] for _ in spout.fields]
            yield from run_spout_task(self._plan, component, 0, current, [(len(batch), columns)])

    def spark_session(self) -> SparkSession:
        from anchorbolt.engine.spark.session import build_session

        return build_session(self._plan.topology)
