"""Our sides: the word count topology on Spark, by its state's provider; as a job for each wave, and in workers."""

import time
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from anchorbolt.engine import WaveReport
from anchorbolt.engine.spark.session import build_session
from anchorbolt.run.spark_cluster import SparkCluster, SparkRunHandle
from anchorbolt.topology.graph import Topology
from benchmarks.contestant import BatchFigures, Counts, Place, figures_of
from benchmarks.word_count_topology import count_in, word_count, word_count_of_files
from benchmarks.workloads import EVERY, HUGE, LARGE, TASKS, Output, Workload

__all__ = [
    "BlocksOnRedis",
    "BlocksOnSqlite",
    "FilesBefore",
    "FilesOnRedis",
    "FilesOnSqlite",
    "FilesWithoutSink",
    "JobsBefore",
    "JobsOnRedis",
    "JobsOnSqlite",
    "WorkersOnRedis",
    "WorkersOnSqlite",
]

_PHASES = ("source_ms", "compute_ms", "prepare_ms", "decide_ms", "commit_ms")


class JobsOnSqlite:
    """Anchorbolt as a contestant: row mode, a Spark job for each wave."""

    name = "Anchorbolt jobs, SQLite"
    works_on = EVERY
    workers = 0
    provider = "sqlite"

    def __init__(self, spark: SparkSession, workload: Workload, place: Place) -> None:
        """See `ContestantKind`."""
        self._spark = spark
        self._topology = self.topology(workload, place.text, place.directory / "out")
        configs = {
            "sqlite": {"directory": str(place.directory / "state")},
            "redis": {"jedisPoolConfig": {"host": "127.0.0.1", "port": place.redis_port}},
        }
        self._conf = {
            "topology.state.provider": self.provider,
            "topology.state.provider.config": configs[self.provider],
            # All sides, and all workloads, have the same Redis.
            "topology.state.namespace.prefix": f"{workload.name}-{place.directory.name}",
            "topology.checkpoint.location": str(place.directory / "checkpoint"),
            "topology.workers": self.workers,
        }
        self._handle: SparkRunHandle | None = None

    @staticmethod
    def topology(workload: Workload, text: Path, out: Path) -> Topology:
        return word_count(workload, text, out)

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

    def counts(self) -> Counts:
        assert self._handle is not None
        return {word: count_in(value) for word, value in self._handle.state("count").items()}


class WorkersOnSqlite(JobsOnSqlite):
    """Anchorbolt in two workers that stay; Spark reads the files."""

    name = "Anchorbolt workers, SQLite"
    workers = TASKS


class FilesOnSqlite(WorkersOnSqlite):
    """Anchorbolt in two workers that stay, which read the files themselves: a transactional topology."""

    name = "Anchorbolt files, SQLite"
    first_bolt = "split"

    @staticmethod
    def topology(workload: Workload, text: Path, out: Path) -> Topology:
        return word_count_of_files(workload, text, out)

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
            lines = report.tuples_in.get(self.first_bolt, 0)
            if lines:
                figures.append(BatchFigures(report.batch_id, lines, (at - began) * 1000, {}, _phases(report)))
            began = at
        return figures


class JobsOnRedis(JobsOnSqlite):
    name = "Anchorbolt jobs, Redis"
    works_on = LARGE
    provider = "redis"


class WorkersOnRedis(WorkersOnSqlite):
    name = "Anchorbolt workers, Redis"
    works_on = LARGE
    provider = "redis"


class FilesOnRedis(FilesOnSqlite):
    name = "Anchorbolt files, Redis"
    works_on = EVERY | HUGE
    provider = "redis"


class BlocksOnSqlite(FilesOnSqlite):
    """Vectorised bolts in two workers that stay, which read the files themselves."""

    name = "Anchorbolt vectorised, SQLite"
    works_on = LARGE | HUGE

    @staticmethod
    def topology(workload: Workload, text: Path, out: Path) -> Topology:
        from benchmarks.vectorised_topology import vectorised_word_count_of_files  # not for the code of earlier commits

        return vectorised_word_count_of_files(workload, text, out)


class BlocksOnRedis(BlocksOnSqlite):
    name = "Anchorbolt vectorised, Redis"
    provider = "redis"


class FilesWithoutSink(FilesOnRedis):
    """Beside the sides with a Parquet sink: what the sink costs."""

    name = "Anchorbolt files, Redis, no sink"
    works_on = frozenset({"1m-parquet"})

    @staticmethod
    def topology(workload: Workload, text: Path, out: Path) -> Topology:
        return word_count_of_files(replace(workload, output=Output.NONE), text, out)


class JobsBefore(JobsOnSqlite):
    """With the code of an earlier commit, as `FilesBefore`."""

    name = "Anchorbolt jobs, SQLite, before"
    works_on = LARGE


class FilesBefore(FilesOnSqlite):
    name = "Anchorbolt files, SQLite, before"
    works_on = LARGE


def _phases(report: WaveReport) -> dict[str, float]:
    return {name: getattr(report, name) for name in _PHASES}
