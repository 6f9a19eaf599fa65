"""A snapshot of a topology, whether it runs or has ended. All answers are made from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anchorbolt.checkpoint.current_wave import CurrentWave
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.checkpoint.times import BoltTimes
from anchorbolt.engine.driver.runner import WorkerFigures
from anchorbolt.engine.task.messages import ReportedError
from anchorbolt.observe.figures.state_sizes import MeasuredSizes
from anchorbolt.observe.figures.tasks import Edge, Figure
from anchorbolt.observe.figures.windows import ALL_TIME, WINDOWS
from anchorbolt.observe.history.records import Graph, GraphComponent, Letter, Record
from anchorbolt.tracking.settlements import TaskMessages
from anchorbolt.ui.answers import Failure, Message, Now, Quantiles, Recovery

ALL_WINDOWS = (*WINDOWS, ALL_TIME)

Amounts = Mapping[Figure, float]


def execute_latency_ms(amounts: Amounts) -> float | None:
    """Return the mean time of one execute; 0 without a tuple, and None if the time is unknown."""
    if Figure.EXECUTE_MS not in amounts:
        return None
    executed = amounts[Figure.EXECUTED]
    return amounts[Figure.EXECUTE_MS] / executed if executed else 0.0


@dataclass(frozen=True)
class OneTask:
    """One task's figures in a window."""

    index: int
    amounts: Amounts
    capacity: float
    messages: TaskMessages | None = None  # of a rich spout's task


@dataclass(frozen=True)
class ComponentFigures:
    """The figures of a component's tasks in a window."""

    amounts: Amounts  # from a history, only EXECUTED and EMITTED
    capacity: float | None = None  # the highest of the tasks, as in Storm; None for a history
    tasks: Sequence[OneTask] = ()  # empty for a history


_NO_FIGURES = ComponentFigures({})


@dataclass(frozen=True)
class Latency:
    """The sum of some times."""

    total_ms: float = 0.0
    count: int = 0

    @property
    def mean_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0.0


@dataclass(frozen=True)
class WindowFigures:
    """The topology's figures in a window."""

    seconds: float  # that the window covers
    components: Mapping[str, ComponentFigures]
    transferred: Mapping[Edge, float]  # tuples; empty for a history
    messages: Mapping[str, Mapping[str, float]]  # by spout, or by "" for all: `acked`, `failed`, `dead_letters`
    waves: Mapping[str, float]  # `waves`, `rounds_failed`, `losses`, `bytes_shuffled`, `wave_ms`
    store_ms: Mapping[str, Quantiles] = field(default_factory=dict)  # by operation
    phases_ms: Mapping[str, Quantiles] = field(default_factory=dict)  # by phase of a wave
    complete_ms: Mapping[str, Latency] = field(default_factory=dict)  # by rich spout: from an emit to its ack

    def component(self, name: str) -> ComponentFigures:
        """Return the figures of a component; empty ones for a component without any."""
        return self.components.get(name, _NO_FIGURES)

    def transferred_from(self, name: str) -> int | None:
        """Return the number of tuples that bolts received from a component, a tuple counted at each bolt.

        None for a history.
        """
        if not self.transferred:
            return None
        return int(sum(tuples for edge, tuples in self.transferred.items() if edge.source == name))


@dataclass(frozen=True)
class Observation:
    """A topology at one moment."""

    at: float  # seconds since 1970
    topology: str
    status: str  # STARTING, RUNNING, PAUSED, STOPPED, FINISHED, FAILED, or UNKNOWN for a history without an end
    is_live: bool  # whether this process runs it
    uptime_s: float
    generation: int
    txid: int
    graph: Graph
    records: Sequence[Record]  # of the history, oldest first
    window: Callable[[str], WindowFigures]  # for each of `ALL_WINDOWS`
    now: Now = field(default_factory=Now)
    wave: CurrentWave | None = None  # the wave that runs now; None between two waves
    state: Callable[[], MeasuredSizes | None] = lambda: None  # the sizes of states; None for a history
    failure: Failure | None = None
    failed_records: Sequence[Record] = ()  # the latest, oldest first
    failed_messages: Sequence[Message] = ()
    timed_out: Mapping[tuple[str, TaskKey], int] = field(default_factory=dict)  # messages, by spout and last holder
    reported_errors: Mapping[str, ReportedError] = field(default_factory=dict)  # the latest one of each component
    letters: Sequence[Letter] = ()  # the latest dead letters, oldest first
    dead_letters: int = 0  # all that are known
    configuration: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)  # versions, the state's store, the checkpoint location
    recovery: Recovery | None = None
    times: Mapping[str, BoltTimes] = field(default_factory=dict)  # by bolt; empty for a history
    workers: Sequence[WorkerFigures] = ()  # empty without `topology.workers`
    is_tracked: bool = False  # whether its tuples are tracked, so that bolts ack them
    message_timeout_s: int | None = None  # None if unknown
    max_checkpoint_age_s: float = 300.0

    def component(self, name: str) -> GraphComponent | None:
        """Return the component of the graph with this id, or None."""
        return next((each for each in self.graph.components if each.id == name), None)
