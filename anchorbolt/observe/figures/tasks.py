"""The figures of tasks, summed over windows, and the metrics of components."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.metrics.distribution import Distribution
from anchorbolt.observe.figures.windows import Numbers, Windows


class Declared(IntEnum):
    """Figures that are columns of one table. Each is declared once, and is added up over waves and windows."""

    source: Any  # attribute or function of a report
    metric: str  # name in Prometheus without `anchorbolt_`; empty for none
    text: str  # the metric's help text
    unit: float  # in units of the metric

    def __new__(cls, source: Any, metric: str = "", text: str = "", unit: float = 1.0) -> Declared:
        member = int.__new__(cls, len(cls.__members__))
        member._value_ = len(cls.__members__)
        member.source, member.metric, member.text, member.unit = source, metric, text, unit
        return member


class Figure(Declared):
    """A figure of a task; its source is an attribute of a `TaskReport`."""

    EXECUTED = "tuples_in", "executed_tuples", "Tuples that the task executed; of a spout, what it read."
    EMITTED = "tuples_out", "emitted_tuples", "Tuples that the task emitted."
    ACKED = "tuples_acked", "acked_tuples", "Tuples that the task acked, in a topology that tracks its tuples."
    # Without tracking, only tuples that the bolt reported as failed.
    FAILED = "tuples_failed", "failed_tuples", "Tuples that failed in the task."
    ERRORS = "errors_reported", "reported_errors", "Errors that the task reported, those of failed tuples included."
    EXECUTE_MS = (
        "execute_ms",
        "execute_seconds",
        "Time in which the task executed tuples, read its state, and sent what it emitted.",
        0.001,
    )
    SOURCE_MS = ("source_ms",)
    BUSY_MS = "busy_ms", "busy_seconds", "Time in which the task of a bolt worked, and did not wait.", 0.001
    DECODE_MS = "decode_ms", "decode_seconds", "Time in which the task decoded what it received.", 0.001
    ENCODE_MS = "encode_ms", "encode_seconds", "Time in which the task grouped and encoded what it sent.", 0.001
    READ_MS = "outcome.counters.read_ms", "state_read_seconds", "Time in which the task read from the store.", 0.001
    PREPARE_MS = "prepare_ms", "prepare_seconds", "Time in which the task staged its state or outbox.", 0.001
    STAGE_MS = "stage_ms", "stage_seconds", "Time in which the store staged updates of the task.", 0.001
    SEAL_MS = "seal_ms", "seal_seconds", "Time in which the store sealed what the task had staged.", 0.001
    BYTES_OUT = "bytes_out", "sent_bytes", "Bytes of the blobs that the task sent."
    KEYS_READ = "outcome.counters.keys_read", "state_read_keys", "Keys that the task read from the store."
    KEYS_CACHED = (
        "outcome.counters.keys_cached",
        "state_cached_keys",
        "Keys that the task was to prefetch and had in its cache.",
    )
    KEYS_STAGED = "outcome.counters.keys_staged", "state_staged_keys", "Updates that the task staged."
    BYTES_STAGED = ("outcome.counters.bytes_staged", "state_staged_bytes", "Bytes of the updates that the task staged.")
    KEYS_SWEPT = "outcome.keys_swept", "state_swept_keys", "Expired entries that the task deleted from the store."
    TIMERS_FIRED = "outcome.timers_fired", "fired_timers", "Timers that have fired in the task."


# One getter of all is several times as fast as a getter of each.
_NUMBERS: Callable[[TaskReport], tuple[float, ...]] = attrgetter(*(figure.source for figure in Figure))


class Edge(NamedTuple):
    """A stream from a component to a bolt."""

    source: str
    stream: str
    target: str


@dataclass(frozen=True)
class TaskFigures:
    """One task's figures in a window."""

    task: TaskKey
    numbers: Numbers  # by `Figure`
    seconds: float  # covered by the window

    def __getitem__(self, figure: Figure) -> float:
        return float(self.numbers[figure])

    @property
    def execute_latency_ms(self) -> float:
        """The mean time of one execute, as Storm shows it, with the reads of its state; 0 without a tuple."""
        executed = self[Figure.EXECUTED]
        return self[Figure.EXECUTE_MS] / executed if executed else 0.0

    @property
    def capacity(self) -> float:
        """The share of the window in which the task worked, so 1.0 for a task that never waits.

        Storm's counts only the time of executes.
        """
        return self[Figure.BUSY_MS] / (self.seconds * 1000)


class TaskTables:
    """The figures of all tasks. Not thread-safe.

    A stream spout counts as one task with index 0: its number of partitions is known only once a batch is read.
    """

    def __init__(self, plan: ExecutionPlan, now: float) -> None:
        tasks = [task for component in plan.wiring.tasks for task in plan.wiring.tasks[component]]
        tasks += [(component, 0) for component in plan.graph.components if component not in plan.wiring.tasks]
        self._rows: Mapping[TaskKey, int] = {task: row for row, task in enumerate(tasks)}
        self._edges: Mapping[Edge, int] = {
            edge: row
            for row, edge in enumerate(
                Edge(source, stream, each.component)
                for source, streams in plan.wiring.edges.items()
                for stream, edges in streams.items()
                for each in edges
            )
        }
        self._tasks = Windows((len(self._rows), len(Figure)), now)
        self._transferred = Windows((len(self._edges),), now)

    def add(self, reports: Iterable[TaskReport], now: float, left_out: Mapping[TaskKey, int] | None = None) -> None:
        """Add a committed wave's reports. `left_out`: tuples that failed in the wave's repeated rounds, by task."""
        rows, numbers = list[int](), list[float]()
        received: defaultdict[tuple[str, str, str], int] = defaultdict(int)  # a plain tuple: an `Edge` is slow to make
        for report in reports:
            component, _ = report.task
            row = self._rows.get(report.task)
            if row is None:
                row = self._rows.get((component, 0))
            if row is None:  # a task that replays dead letters of a component that is gone
                continue
            rows.append(row)
            numbers += _NUMBERS(report)
            for (source, stream), tuples in report.tuples_from.items():
                received[source, stream, component] += tuples
        table = np.zeros((len(self._rows), len(Figure)))
        np.add.at(table, rows, np.fromiter(numbers, float, len(numbers)).reshape(-1, len(Figure)))
        for task, failed in (left_out or {}).items():
            if task in self._rows:
                table[self._rows[task], Figure.FAILED] += failed
        transferred = np.zeros(len(self._edges))
        for names, tuples in received.items():
            edge = self._edges.get(Edge(*names))
            if edge is not None:
                transferred[edge] = tuples
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


class Registered(NamedTuple):
    """A metric of a task."""

    task: TaskKey
    kind: str  # counter, gauge, histogram or timer
    name: str


@dataclass(frozen=True)
class RegisteredMetrics:
    """Their values: the sum of a counter, the latest value of a gauge. Not thread-safe.

    A component registers at most 100 names, so the size is bounded by the number of tasks.
    """

    numbers: dict[Registered, float]
    distributions: dict[Registered, Distribution]

    def add(self, reports: Iterable[TaskReport]) -> None:
        """Add the reports of a committed wave."""
        for report in reports:
            for name, (kind, value) in report.metrics.items():
                metric = Registered(report.task, kind, name)
                if isinstance(value, Distribution):
                    self.distributions.setdefault(metric, Distribution()).merge(value)
                elif kind == "gauge":
                    self.numbers[metric] = value
                else:
                    self.numbers[metric] = self.numbers.get(metric, 0) + value

    def copy(self) -> RegisteredMetrics:
        """Return a copy that later waves do not change."""
        copies = {
            metric: Distribution(dict(each.buckets), each.zeros, each.total)
            for metric, each in self.distributions.items()
        }
        return RegisteredMetrics(dict(self.numbers), copies)
