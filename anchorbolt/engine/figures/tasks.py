"""The figures of tasks and of the streams between them, summed over windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.figures.windows import Numbers, Windows
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.messages import TaskReport


class Figure(IntEnum):
    """What is counted of a task: a column of the table."""

    EXECUTED = 0  # tuples; of a spout: what it read
    EMITTED = 1  # tuples
    FAILED = 2  # tuples that failed, and that the bolt reported
    ERRORS = 3  # reported ones, with those of failed tuples
    EXECUTE_MS = 4
    SOURCE_MS = 5
    PREPARE_MS = 6
    BYTES_OUT = 7
    KEYS_READ = 8
    KEYS_CACHED = 9
    KEYS_STAGED = 10
    BYTES_STAGED = 11


class Edge(NamedTuple):
    """A stream from a component to a bolt."""

    source: str
    stream: str
    target: str


@dataclass(frozen=True)
class TaskFigures:
    """What one task did in a window."""

    task: TaskKey
    numbers: Numbers  # by `Figure`
    seconds: float  # that the window covers

    def __getitem__(self, figure: Figure) -> float:
        return float(self.numbers[figure])

    @property
    def execute_latency_ms(self) -> float:
        """The mean time of one execute, as Storm shows it, with the reads of its state; 0 without a tuple."""
        executed = self[Figure.EXECUTED]
        return self[Figure.EXECUTE_MS] / executed if executed else 0.0

    @property
    def capacity(self) -> float:
        """Storm's capacity: executed * execute latency / window, so 1.0 for a task that does nothing else."""
        return self[Figure.EXECUTE_MS] / (self.seconds * 1000)


class TaskTables:
    """The figures of all tasks. Not thread-safe.

    The partitions of a stream spout are one task, with index 0: their number is known only once a batch is read.
    """

    def __init__(self, plan: ExecutionPlan, now: float) -> None:
        tasks = [task for component in plan.tasks for task in plan.tasks[component]]
        tasks += [(component, 0) for component in plan.graph.components if component not in plan.tasks]
        self._rows: Mapping[TaskKey, int] = {task: row for row, task in enumerate(tasks)}
        self._edges: Mapping[Edge, int] = {
            edge: row
            for row, edge in enumerate(
                Edge(source, stream, each.component)
                for source, streams in plan.edges.items()
                for stream, edges in streams.items()
                for each in edges
            )
        }
        self._tasks = Windows((len(self._rows), len(Figure)), now)
        self._transferred = Windows((len(self._edges),), now)

    def add(self, reports: Iterable[TaskReport], now: float) -> None:
        """Add the reports of a committed wave."""
        rows, numbers, transferred = list[int](), list[Sequence[float]](), np.zeros(len(self._edges))
        for report in reports:
            row = self._rows.get(report.task, self._rows.get((report.component, 0)))
            if row is None:  # a task that replays dead letters of a component that is gone
                continue
            rows.append(row)
            numbers.append(_numbers_of(report))
            for (source, stream), tuples in report.tuples_from.items():
                edge = self._edges.get(Edge(source, stream, report.component))
                if edge is not None:
                    transferred[edge] += tuples
        table = np.zeros((len(self._rows), len(Figure)))
        if rows:
            np.add.at(table, rows, np.array(numbers, dtype=float))
        self._tasks.add(table, now)
        self._transferred.add(transferred, now)

    def tasks(self, window: str, now: float) -> list[TaskFigures]:
        """Return the figures of all tasks. Raises KeyError for an unknown window."""
        sums, seconds = self._tasks.sums(window, now)
        return [TaskFigures(task, sums[row].copy(), seconds) for task, row in self._rows.items()]

    def transferred(self, window: str, now: float) -> dict[Edge, float]:
        """Return the tuples that each stream carried. Raises KeyError for an unknown window."""
        sums, _ = self._transferred.sums(window, now)
        return {edge: float(sums[row]) for edge, row in self._edges.items()}


def _numbers_of(report: TaskReport) -> Sequence[float]:
    """Return the numbers in the order of `Figure`."""
    counters = report.outcome.counters
    return (
        report.tuples_in,
        report.tuples_out,
        report.failures_reported,
        report.errors_reported,
        report.execute_ms,
        report.source_ms,
        report.prepare_ms,
        report.bytes_out,
        counters.keys_read,
        counters.keys_cached,
        counters.keys_staged,
        counters.bytes_staged,
    )
