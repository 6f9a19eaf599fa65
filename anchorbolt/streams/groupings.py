"""Groupings: how a bolt wants the tuples of a stream distributed over its tasks. `routing` carries them out.

The methods of `topology.declarer.BoltDeclarer` say what each grouping does.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from anchorbolt.streams.context import TopologyContext


class GlobalStreamId(NamedTuple):
    """A stream of the topology: the id of the component that emits it, and the stream's name there."""

    component: str
    stream: str = "default"


class CustomStreamGrouping(ABC):
    """Base class for a grouping of your own, which chooses the receiving tasks of each tuple.

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
        """Return the ids of the tasks that get a tuple, out of `target_tasks`; an empty list drops the tuple.

        Called once for each tuple, in the order of emission. Must return the same tasks when the same tuples are
        emitted again: the engine may compute a wave twice.

        Args:
            task_id: Id of the emitting task.
            values: The tuple's values.
        """


@dataclass(frozen=True)
class Grouping:
    """Base of all groupings; `str` gives its name and fields, as in `fields(word)`."""

    name: ClassVar[str]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ShuffleGrouping(Grouping):
    name = "shuffle"


@dataclass(frozen=True)
class KeyGrouping(Grouping):
    """Base of the groupings that choose a task by the values of `fields`: one or more declared fields."""

    fields: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.fields)})"


@dataclass(frozen=True)
class FieldsGrouping(KeyGrouping):
    name = "fields"


@dataclass(frozen=True)
class PartialKeyGrouping(KeyGrouping):
    name = "partial_key"


@dataclass(frozen=True)
class AllGrouping(Grouping):
    name = "all"


@dataclass(frozen=True)
class GlobalGrouping(Grouping):
    name = "global"


@dataclass(frozen=True)
class NoneGrouping(ShuffleGrouping):
    name = "none"


@dataclass(frozen=True)
class LocalOrShuffleGrouping(ShuffleGrouping):
    name = "local_or_shuffle"


@dataclass(frozen=True)
class DirectGrouping(Grouping):
    name = "direct"


@dataclass(frozen=True)
class CustomGrouping(Grouping):
    name = "custom"
    implementation: CustomStreamGrouping

    def __str__(self) -> str:
        return f"{self.name}({type(self.implementation).__name__})"
