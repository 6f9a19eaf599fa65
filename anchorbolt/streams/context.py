"""The context that the engine passes to a component's `prepare`."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class TopologyContext:
    """A task's own identity, and the topology around it. Task ids count from 1 over all bolts of the topology.

    Attributes:
        topology: Name of the topology.
        this_component_id: Id of the component that this task belongs to.
        this_task_id: Id of this task.
        this_task_index: Index of this task within its component, from 0.
        component_tasks: Task ids of each bolt, ordered by task index.
        component_fields: Declared fields, by component and stream.
    """

    topology: str
    this_component_id: str
    this_task_id: int
    this_task_index: int
    component_tasks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    component_fields: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def get_component_tasks(self, component: str) -> tuple[int, ...]:
        """Return the task ids of a bolt, ordered by task index. Raises KeyError for an unknown bolt."""
        return self.component_tasks[component]

    def get_component_output_fields(self, component: str, stream: str = "default") -> tuple[str, ...]:
        """Return the declared fields of a component's stream. Raises KeyError for an unknown stream."""
        return self.component_fields[component][stream]
