"""Groupings: how the tuples of a stream are distributed over the tasks of a bolt. `routing` implements them.

To add a grouping: write its router in `routing`, enter the router in `routing.ROUTERS` under the grouping's name, and
add the method NAME_grouping to `topology.declarer.BoltDeclarer`; its docstring describes the grouping.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from anchorbolt.streams.context import TopologyContext


class GlobalStreamId(NamedTuple):
    """A stream of the topology: the id of the component that emits it, and the stream's name there."""

    component: str
    stream: str = "default"


class CustomStreamGrouping(ABC):
    """Base class for a custom grouping, which chooses the receiving tasks of each tuple.

    The object is pickled with the topology and unpickled in each task that emits the stream. So its attributes must
    be picklable; create anything else in `prepare`.
    """

    @abstractmethod
    def prepare(self, context: TopologyContext, stream: GlobalStreamId, target_tasks: Sequence[int]) -> None:
        """Called once in each emitting task, before its first `choose_tasks`.

        Args:
            context: The emitting task's context.
            stream: The stream to distribute.
            target_tasks: Ids of the receiving bolt's tasks, ordered by task index.
        """

    @abstractmethod
    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        """Return the ids of the tasks, from `target_tasks`, that get a tuple; an empty list drops the tuple.

        Called once for each tuple, in the order of emission. Must return the same tasks if the same tuples are emitted
        again: the engine may compute a wave twice.

        Args:
            task_id: Id of the emitting task.
            values: The tuple's values.
        """


@dataclass(frozen=True)
class Grouping:
    """How a bolt receives a stream. `str` gives its name and fields, as in `fields(word)`."""

    name: str  # the method of `BoltDeclarer`, without `_grouping`
    fields: tuple[str, ...] = ()  # of fields and partial_key: the declared fields that choose the task
    custom: CustomStreamGrouping | None = None  # of custom: the object that chooses the tasks

    def __str__(self) -> str:
        arguments = ", ".join(self.fields) if self.custom is None else type(self.custom).__name__
        return f"{self.name}({arguments})" if arguments else self.name
