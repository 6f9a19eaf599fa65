"""The local engine's sources of waves: feeder spouts, or stream spouts that a local Spark reads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from anchorbolt.checkpoint.ports import Batch, Round
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine.driver.reports import summarise
from anchorbolt.engine.submit.handle import WaveListener, Waves
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.task.spout_task import run_spout_task
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.spouts.stream import StreamSpout
from anchorbolt.util.locations import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S = 0.05


class LocalSource(Waves, Protocol):
    def rows(self, current: Round) -> Iterable[Envelope]:
        """Return the blobs of all spouts for the current wave. Called in each of its rounds."""

    def spark_session(self) -> SparkSession:
        """Return a Spark session, for sinks that need DataFrames."""


def open_source(plan: ExecutionPlan, folder: Folder) -> LocalSource:
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
        for component, spout in self._spouts.items():
            batch = self._batches[component]
            columns = list(map(list, zip(*batch, strict=True))) or [[] for _ in spout.fields]
            yield from run_spout_task(self._plan, component, 0, current, [(len(batch), columns)])

    def spark_session(self) -> SparkSession:
        from anchorbolt.engine.spark.session import build_session

        return build_session(self._plan.topology)
