"""The interface of the sides of the comparison, and the figures that Spark's progress reports give."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.workloads import Workload

__all__ = ["BatchFigures", "Contestant", "ContestantKind", "Counts", "Place", "figures_of"]

Counts = Mapping[Any, int]
"""How often each word occurs."""


@dataclass(frozen=True)
class Place:
    """Where a contestant works.

    Attributes:
        text: Directory of the files to count.
        directory: Directory to keep everything in; no other contestant's has the same path.
        redis_port: Port of the Redis of this run, on this machine.
    """

    text: Path
    directory: Path
    redis_port: int


@dataclass(frozen=True)
class BatchFigures:
    """One micro-batch.

    Attributes:
        batch_id: The side's number of it.
        lines: Lines read.
        trigger_ms: From trigger to commit, in ms: Spark's `triggerExecution`, or the time since the last commit.
        parts_ms: Spark's own durations by name (`addBatch`, `walCommit`, …), in ms; empty if Spark ran no query.
        phases_ms: The phases of the wave's report, in ms; empty for the peers.
    """

    batch_id: int
    lines: int
    trigger_ms: float
    parts_ms: Mapping[str, float]
    phases_ms: Mapping[str, float] = field(default_factory=dict)


class Contestant(Protocol):
    """One side: counts the words of a directory's files, keeps the counts in durable state."""

    name: str

    def run(self) -> list[BatchFigures]:
        """Start the query where it stopped, run it until the source is empty; return the last batches in order."""

    def counts(self) -> Counts:
        """Return the committed state."""


class ContestantKind(Protocol):
    """The class of a side's contestants."""

    name: str
    works_on: frozenset[str]
    """The names of the workloads that the side runs."""

    def __call__(self, spark: SparkSession | None, workload: Workload, place: Place) -> Contestant:
        """Make the contestant for a workload.

        Args:
            spark: What `session` returned.
            workload: The workload.
            place: Where it works.
        """

    def session(self, master: str) -> SparkSession | None:
        """Build the session, with every setting that helps this side; None without Spark. Called once in a process."""


def figures_of(query: StreamingQuery) -> list[BatchFigures]:
    """Return the figures of the batches that Spark still has reports of, leaving out batches without data."""
    return [
        BatchFigures(
            progress.batchId,
            progress.numInputRows,
            float(progress.durationMs["triggerExecution"]),
            {part: float(ms) for part, ms in progress.durationMs.items() if part != "triggerExecution"},
        )
        for progress in query.recentProgress
        if progress.numInputRows
    ]
