"""Our sides: the word count topology on Spark, with its state in SQLite; as a job for each wave, and in workers."""

import time
from dataclasses import replace
from pathlib import Path

from contestant import BatchFigures, figures_of
from pyspark.sql import SparkSession
from word_count_topology import word_count, word_count_of_files
from workloads import EVERY, Workload

from anchorbolt.engine import WaveReport
from anchorbolt.engine.spark.session import build_session
from anchorbolt.run.spark_cluster import SparkCluster, SparkRunHandle
from anchorbolt.topology.graph import Topology

__all__ = ["AnchorboltSide", "FilesSide", "WorkersSide"]

_PHASES = ("source_ms", "compute_ms", "prepare_ms", "decide_ms", "commit_ms")


class AnchorboltSide:
    """Anchorbolt as a contestant."""

    name = "Anchorbolt"
    works_on = EVERY
    workers = 0

    def __init__(self, spark: SparkSession, workload: Workload, text: Path, directory: Path, parallelism: int) -> None:
        """See `ContestantKind`."""
        self._spark = spark
        self._topology = self.topology(workload, text, directory / "out", parallelism)
        self._conf = {
            "topology.state.provider": "sqlite",
            "topology.state.provider.config": {"directory": str(directory / "state")},
            "topology.checkpoint.location": str(directory / "checkpoint"),
            "topology.workers": self.workers,
        }
        self._handle: SparkRunHandle | None = None

    @staticmethod
    def topology(workload: Workload, text: Path, out: Path, parallelism: int) -> Topology:
        return word_count(workload, text, out, parallelism)

    @classmethod
    def session(cls, master: str) -> SparkSession:
        return build_session("benchmark-anchorbolt", master, workers=cls.workers)

    def run(self) -> list[BatchFigures]:
        handle = SparkCluster(self._spark).submit(self._topology, self._conf, until_empty=True)
        handle.await_termination()
        self._handle = handle
        assert handle.query is not None
        phases = {report.batch_id: _phases(report) for report in handle.reports}
        return [replace(figures, phases_ms=phases[figures.batch_id]) for figures in figures_of(handle.query)]

    def counts(self) -> dict[str, int]:
        assert self._handle is not None
        return self._handle.state("count")


class WorkersSide(AnchorboltSide):
    """Anchorbolt in two workers that stay; Spark reads the files."""

    name = "in workers"
    workers = 2


class FilesSide(WorkersSide):
    """Anchorbolt in two workers that stay, which read the files themselves: a transactional topology."""

    name = "files in workers"

    @staticmethod
    def topology(workload: Workload, text: Path, out: Path, parallelism: int) -> Topology:
        return word_count_of_files(workload, text, out, parallelism)

    def run(self) -> list[BatchFigures]:
        """The time of a batch is that from the commit of the one before: they follow each other at once."""
        committed: list[tuple[float, WaveReport]] = []
        began = time.perf_counter()
        handle = SparkCluster(self._spark).submit(
            self._topology,
            {**self._conf, "topology.max.spout.pending": 2},
            until_empty=True,
            on_wave=lambda report: committed.append((time.perf_counter(), report)),
        )
        handle.await_termination()
        self._handle = handle
        figures = []
        for at, report in committed:
            lines = report.tuples_in.get("split", 0)
            if lines:
                figures.append(BatchFigures(report.batch_id, lines, (at - began) * 1000, {}, _phases(report)))
            began = at
        return figures


def _phases(report: WaveReport) -> dict[str, float]:
    return {name: getattr(report, name) for name in _PHASES}
