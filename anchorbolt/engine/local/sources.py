"""The local engine's sources of waves: feeder spouts, or stream spouts that a local Spark reads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from anchorbolt.checkpoint.location import query_id_at
from anchorbolt.checkpoint.ports import Batch, Round
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine.driver.reports import summarise
from anchorbolt.engine.submit.handle import WaveListener
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.submit.submission import Submission
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.task.spout_task import run_spout_task
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.spouts.stream import StreamSpout
from anchorbolt.topology.graph import Topology
from anchorbolt.util.locations import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S = 0.05


class LocalSource(Protocol):
    def run(self, driver: CheckpointSpout, add: WaveListener, stop: threading.Event, *, until_empty: bool) -> None:
        """Run waves until the source is empty or `stop` is set. Raises the error of a wave that failed."""

    def query_id(self) -> str:
        """Return the id of the streaming query at the checkpoint location, or an empty string."""

    def rows(self, current: Round) -> Iterable[Envelope]:
        """Return the blobs of all spouts for the current wave. Called in each of its rounds."""

    def spark_session(self) -> SparkSession:
        """Return a Spark session, for sinks that need DataFrames."""


def open_source(topology: Topology, submission: Submission, folder: Folder) -> LocalSource:
    spouts: dict[str, Any] = {component: spec.spout for component, spec in topology.spouts.items()}
    if all(isinstance(spout, FeederSpout) for spout in spouts.values()):
        return _FeederSource(submission.plan, spouts)
    if all(isinstance(spout, StreamSpout) for spout in spouts.values()):
        return _SparkSource(topology, submission, folder)
    raise TopologyError(
        f"the spouts {', '.join(spouts)} have different classes, or a class that LocalCluster does not run. Use "
        "FeederSpout for all of them, or StreamSpout for all of them."
    )


class _FeederSource:
    def __init__(self, plan: ExecutionPlan, spouts: dict[str, FeederSpout]) -> None:
        self._plan = plan
        self._spouts = spouts
        self._batches: dict[str, list[tuple[Any, ...]]] = {}

    def run(self, driver: CheckpointSpout, add: WaveListener, stop: threading.Event, *, until_empty: bool) -> None:
        spouts = self._spouts.values()
        self._settle(driver)
        while not stop.is_set():
            if any(spout.is_waiting() for spout in spouts):
                number = driver.record.batch_id + 1
                self._batches = {component: spout.take(number) for component, spout in self._spouts.items()}
                try:
                    report = summarise(driver.run_wave(Batch("", number)))
                finally:
                    self._settle(driver)
                add(report)
            elif until_empty:
                return
            else:
                spout = next(iter(spouts))
                with spout.arrived:
                    spout.arrived.wait(_POLL_S)

    def query_id(self) -> str:
        return ""

    def _settle(self, driver: CheckpointSpout) -> None:
        for spout in self._spouts.values():
            spout.settle(driver.record.batch_id)

    def rows(self, current: Round) -> Iterator[Envelope]:
        for component, spout in self._spouts.items():
            batch = self._batches[component]
            columns = list(map(list, zip(*batch, strict=True))) or [[] for _ in spout.fields]
            yield from run_spout_task(self._plan, component, 0, current, [(len(batch), columns)])

    def spark_session(self) -> SparkSession:
        from anchorbolt.engine.spark.session import build_session

        return build_session(self._plan.topology)


class _SparkSource:
    """Reads stream spouts with a local Spark, which runs only their stage."""

    def __init__(self, topology: Topology, submission: Submission, folder: Folder) -> None:
        from anchorbolt.engine.spark.session import build_session, engine_session
        from anchorbolt.engine.spark.shipping import ship

        self._topology = topology
        self._submission = submission
        self._folder = folder
        spark = build_session(topology.name)
        ship(spark.sparkContext)
        self._session = engine_session(spark)
        self._frame: Any = None

    def run(self, driver: CheckpointSpout, add: WaveListener, stop: threading.Event, *, until_empty: bool) -> None:
        from anchorbolt.engine.spark.query import WaveQuery
        from anchorbolt.engine.spark.runner import source_rows

        plan = self._submission.plan
        frame = source_rows(self._session, self._topology, plan, plan.pickled_without_provider())
        waves = WaveQuery(self._submission, self._folder, self._session, driver, self._begin_batch, add)
        waves.start(frame, until_empty=until_empty)
        ended = threading.Event()

        def stop_when_asked() -> None:
            while not ended.is_set():
                if stop.wait(_POLL_S):
                    waves.stop()
                    return

        threading.Thread(target=stop_when_asked, name="anchorbolt-stop", daemon=True).start()
        failure = waves.wait()
        ended.set()
        if failure is not None:
            raise failure

    def query_id(self) -> str:
        return query_id_at(self._folder)

    def rows(self, current: Round) -> Iterator[Envelope]:
        from anchorbolt.engine.spark.runner import collect_rows

        return collect_rows(self._session, self._frame, current)

    def spark_session(self) -> SparkSession:
        return self._session

    def _begin_batch(self, frame: Any) -> None:
        self._frame = frame
