"""Our side: the word count topology on Spark, with its state in SQLite."""

from dataclasses import replace
from pathlib import Path

from contestant import BatchFigures, figures_of
from pyspark.sql import SparkSession
from word_count_topology import word_count
from workloads import Workload

from anchorbolt.engine import WaveReport
from anchorbolt.engine.spark.session import build_session
from anchorbolt.run.spark_cluster import SparkCluster, SparkRunHandle

__all__ = ["AnchorboltSide"]

_PHASES = ("source_ms", "compute_ms", "prepare_ms", "decide_ms", "commit_ms")


class AnchorboltSide:
    """Anchorbolt as a contestant."""

    name = "Anchorbolt"

    def __init__(self, spark: SparkSession, workload: Workload, text: Path, directory: Path, parallelism: int) -> None:
        """See `ContestantKind`."""
        self._spark = spark
        self._topology = word_count(workload, text, directory / "out", parallelism)
        self._conf = {
            "topology.state.provider": "sqlite",
            "topology.state.provider.config": {"directory": str(directory / "state")},
            "topology.checkpoint.location": str(directory / "checkpoint"),
        }
        self._handle: SparkRunHandle | None = None

    @staticmethod
    def session(master: str) -> SparkSession:
        return build_session("benchmark-anchorbolt", master)

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


def _phases(report: WaveReport) -> dict[str, float]:
    return {name: getattr(report, name) for name in _PHASES}
