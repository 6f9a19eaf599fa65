"""The context that a component's `prepare` is given: who it is, and what is around it in the topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class TopologyContext:
    """Where a task stands in its topology. Task ids count from 1 over the whole topology.

    Attributes:
        topology: Name of the topology.
        this_component_id: Id of the component that this task belongs to.
        this_task_id: Id of this task.
        this_task_index: Index of this task within its component, from 0.
        component_tasks: For each bolt its task ids, in the order of their indexes.
        component_fields: For each component and stream the declared fields.
    """

    topology: str
    this_component_id: str
    this_task_id: int
    this_task_index: int
    component_tasks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    component_fields: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def get_component_tasks(self, component: str) -> tuple[int, ...]:
        """Return the task ids of a bolt, in the order of their indexes; raises KeyError for an unknown one."""
        return self.component_tasks[component]

    def get_component_output_fields(self, component: str, stream: str = "default") -> tuple[str, ...]:
        """Return the declared fields of a component's stream; raises KeyError for an unknown one."""
        return self.component_fields[component][stream]
