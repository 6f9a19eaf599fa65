"""The context that the engine passes to a component's `prepare`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from anchorbolt.metrics.kinds import Counter, Gauge, Histogram, Timer
from anchorbolt.metrics.registry import MetricRegistry


@dataclass(frozen=True)
class TopologyContext:
    """A task's own identity, and the topology around it. Task ids count from 1 over all bolts of the topology.

    A component registers its metrics here, in `prepare` or `open`. A name has 1 to 100 characters of
    `A-Z a-z 0-9 _ . -`, and begins with a letter or `_`. Registering a name again returns the same metric. A component
    has at most 100 metrics. `TopologyError` is raised for an invalid name, for a name registered as another kind, and
    for the 101st metric. Measurements count when their wave commits; a failed round adds nothing. A rich spout is
    called between waves: its measurements count after each committed wave, once it has acked and failed the wave's
    messages.

    Attributes:
        topology: Name of the topology.
        this_component_id: Id of the component that this task belongs to.
        this_task_id: Id of this task.
        this_task_index: Index of this task within its component, from 0.
        component_tasks: Task ids of each bolt, ordered by task index.
        component_fields: Declared fields, by component and stream.
        grouping_fields: The fields by which each input of this component is grouped, by component and stream; empty
            for an input by another grouping.
    """

    topology: str
    this_component_id: str
    this_task_id: int
    this_task_index: int
    component_tasks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    component_fields: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    grouping_fields: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    metrics: MetricRegistry = field(default_factory=MetricRegistry, compare=False, repr=False)

    def register_counter(self, name: str) -> Counter:
        """Return a new counter: a number that only grows."""
        return self.metrics.counter(name)

    def register_gauge(self, name: str, function: Callable[[], float] | None = None) -> Gauge:
        """Return a new gauge. Its value is the result of `function` at the end of a wave, or else the last set value.

        If `function` raises, the gauge is left out of that wave, and the first exception is logged.
        """
        return self.metrics.gauge(name, function)

    def register_histogram(self, name: str) -> Histogram:
        """Return a new histogram: the distribution of the values passed to `update`."""
        return self.metrics.histogram(name)

    def register_timer(self, name: str) -> Timer:
        """Return a new timer: a histogram of times in seconds."""
        return self.metrics.timer(name)

    def get_component_tasks(self, component: str) -> tuple[int, ...]:
        """Return the task ids of a bolt, ordered by task index. Raises KeyError for an unknown bolt."""
        return self.component_tasks[component]

    def get_component_output_fields(self, component: str, stream: str = "default") -> tuple[str, ...]:
        """Return the declared fields of a component's stream. Raises KeyError for an unknown stream."""
        return self.component_fields[component][stream]
