"""Groupings: how a bolt asks for a stream to be shared out over its tasks.

Only says what is wanted. Never moves a tuple: that is `routing`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from anchorbolt.streams.context import TopologyContext


class GlobalStreamId(NamedTuple):
    """A stream, named over the whole topology.

    Attributes:
        component: Id of the component that emits it.
        stream: Name of the stream within that component.
    """

    component: str
    stream: str = "default"


class CustomStreamGrouping(ABC):
    """What a job author extends to choose the receiving tasks of each tuple.

    It is pickled with the topology and unpickled in each task that emits the stream, so what it holds must be
    picklable; what cannot be, is made in `prepare`.
    """

    @abstractmethod
    def prepare(self, context: TopologyContext, stream: GlobalStreamId, target_tasks: Sequence[int]) -> None:
        """Called once in each emitting task, before its first `choose_tasks`.

        Args:
            context: The emitting task's context.
            stream: The stream to share out.
            target_tasks: Ids of the receiving bolt's tasks, in the order of their indexes.
        """

    @abstractmethod
    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        """Return the ids of the tasks that get a tuple: any number of `target_tasks`, none drops it.

        Called once for each tuple, in the order of emission. Must give the same answer when the same tuples are
        emitted again: a wave may be computed twice.

        Args:
            task_id: Id of the emitting task.
            values: The tuple's values.
        """


@dataclass(frozen=True)
class Grouping:
    """Base of all groupings; `str` gives its name and fields, as in `fields(word)`."""

    def __str__(self) -> str:
        return _NAMES[type(self)]


@dataclass(frozen=True)
class ShuffleGrouping(Grouping):
    """Tuples in turn to each task, so that all get equally many."""


@dataclass(frozen=True)
class FieldsGrouping(Grouping):
    """Tuples with equal values of the fields to the same task, chosen by `stable_hash`.

    Attributes:
        fields: At least one declared field of the stream.
    """

    fields: tuple[str, ...]

    def __str__(self) -> str:
        return f"fields({', '.join(self.fields)})"


@dataclass(frozen=True)
class PartialKeyGrouping(Grouping):
    """Each key to one of two tasks, the one that the emitting task has sent less to: for skewed keys.

    Attributes:
        fields: At least one declared field of the stream.
    """

    fields: tuple[str, ...]

    def __str__(self) -> str:
        return f"partial_key({', '.join(self.fields)})"


@dataclass(frozen=True)
class AllGrouping(Grouping):
    """Every tuple to every task."""


@dataclass(frozen=True)
class GlobalGrouping(Grouping):
    """Every tuple to the bolt's first task."""


@dataclass(frozen=True)
class NoneGrouping(Grouping):
    """The job does not care: the same as shuffle."""


@dataclass(frozen=True)
class LocalOrShuffleGrouping(Grouping):
    """Tuples to a task of the same process where there is one, which is never: the same as shuffle.

    Between two levels lies Spark's shuffle, so nothing is local. Taken for the sake of topologies from Storm.
    """


@dataclass(frozen=True)
class DirectGrouping(Grouping):
    """The emitter names the receiving task of each tuple, by `emit_direct` on a stream declared direct."""


@dataclass(frozen=True)
class CustomGrouping(Grouping):
    """A job author's own grouping.

    Attributes:
        implementation: Chooses the tasks.
    """

    implementation: CustomStreamGrouping

    def __str__(self) -> str:
        return f"custom({type(self.implementation).__name__})"


_NAMES: dict[type[Grouping], str] = {
    ShuffleGrouping: "shuffle",
    AllGrouping: "all",
    GlobalGrouping: "global",
    NoneGrouping: "none",
    LocalOrShuffleGrouping: "local_or_shuffle",
    DirectGrouping: "direct",
}
