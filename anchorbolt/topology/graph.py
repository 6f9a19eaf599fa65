"""The immutable graph of a topology: the declared components, and their levels."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from anchorbolt.bolts.arrow import BaseArrowBolt
from anchorbolt.bolts.base import BaseStatefulBolt, Bolt
from anchorbolt.bolts.sink import DataFrameSink, takes_columns
from anchorbolt.spouts.base import BaseRichSpout, Spout, StreamSpout
from anchorbolt.spouts.transactional import BatchSpout, CommitterTransactionalSpout
from anchorbolt.streams.declaration import ACKER_ID, CHECKPOINT_SPOUT_ID, GlobalStreamId, Grouping, StreamDeclaration
from anchorbolt.topology.time import NO_TIME, TimeSpec

_LOCAL = {"none", "local_or_shuffle"}
"""Groupings that may keep a tuple in the process of its emitter."""


class Input(NamedTuple):
    """A stream that a bolt receives, and how its tuples are distributed over the bolt's tasks."""

    source: GlobalStreamId
    grouping: Grouping


@dataclass(frozen=True)
class SpoutSpec:
    """A spout and its declaration. Spouts that read with Spark stay on the driver; others are copied for each task."""

    id: str
    spout: Spout
    parallelism: int | None  # upper bound on the number of tasks; None leaves the number to the spout
    streams: Mapping[str, StreamDeclaration]


@dataclass(frozen=True)
class BoltSpec:
    """A bolt and its declaration. The object is pickled for each task."""

    id: str
    bolt: Bolt
    parallelism: int
    inputs: tuple[Input, ...]  # in the order of their declaration, each stream once
    streams: Mapping[str, StreamDeclaration]
    tick_secs: float | None = None  # time between its tick tuples; None means the topology's setting
    is_committer: bool = False  # in a transactional topology: its batch is finished in the commit phase
    time: TimeSpec = NO_TIME  # its TTL, timers and event time
    given_type: str = ""  # the name of its author's class, if the engine calls another bolt in its place

    @property
    def type_name(self) -> str:
        """The name of its author's class."""
        return self.given_type or type(self.bolt).__name__

    @property
    def is_sink(self) -> bool:
        return isinstance(self.bolt, DataFrameSink)

    @property
    def is_stateful(self) -> bool:
        return isinstance(self.bolt, BaseStatefulBolt)

    @property
    def takes_columns(self) -> bool:
        """Whether the bolt takes whole columns of Arrow."""
        return isinstance(self.bolt, BaseArrowBolt) or takes_columns(self.bolt)

    @property
    def executor(self) -> str:
        """Name of the class that runs the bolt in its tasks, and handles the checkpoint tuples."""
        if self.is_stateful:
            return "StatefulBoltExecutor"
        return "SinkExecutor" if self.is_sink else "CheckpointTupleForwarder"

    @property
    def sources(self) -> tuple[str, ...]:
        """Ids of the components whose streams the bolt receives, each once."""
        return tuple(dict.fromkeys(each.source.component for each in self.inputs))


Component = SpoutSpec | BoltSpec


@dataclass(frozen=True)
class Topology:
    """A checked graph of spouts and bolts, made by `TopologyBuilder` or `TransactionalTopologyBuilder`.

    Attributes:
        name: Its name.
        components: All spouts and bolts by id, in topological order; components without an order between them are in
            the order of their declaration.
    """

    name: str
    components: Mapping[str, Component]

    @cached_property
    def spouts(self) -> Mapping[str, SpoutSpec]:
        """The spouts by id."""
        return MappingProxyType({id: spec for id, spec in self.components.items() if isinstance(spec, SpoutSpec)})

    @cached_property
    def rich_spouts(self) -> Mapping[str, SpoutSpec]:
        """The spouts that emit tuple by tuple, by id."""
        return MappingProxyType({id: spec for id, spec in self.spouts.items() if isinstance(spec.spout, BaseRichSpout)})

    @cached_property
    def stream_spouts(self) -> Mapping[str, SpoutSpec]:
        """The stream spouts by id."""
        return MappingProxyType({id: spec for id, spec in self.spouts.items() if isinstance(spec.spout, StreamSpout)})

    @cached_property
    def bolts(self) -> Mapping[str, BoltSpec]:
        """The bolts by id."""
        return MappingProxyType({id: spec for id, spec in self.components.items() if isinstance(spec, BoltSpec)})

    @cached_property
    def batch_spout(self) -> SpoutSpec | None:
        """The only spout of a transactional topology; None in an ordinary topology."""
        return next((spec for spec in self.spouts.values() if isinstance(spec.spout, BatchSpout)), None)

    @cached_property
    def late_bolts(self) -> frozenset[str]:
        """The bolts of a transactional topology that finish a batch in its commit phase.

        These are the committers, the stateful bolts, the sinks, and all bolts below one of them.
        """
        late: set[str] = set()
        if self.batch_spout is not None:
            for spec in self.bolts.values():  # in topological order
                if spec.is_committer or spec.is_stateful or spec.is_sink or late.intersection(spec.sources):
                    late.add(spec.id)
        return frozenset(late)

    @cached_property
    def chained(self) -> Mapping[str, str]:
        """The chained bolts, each with the bolt whose tasks feed its tasks: task 0 feeds task 0, and so on.

        A chained bolt takes all its input from one other bolt, by none or local-or-shuffle grouping, and has as many
        tasks. In a transactional topology both finish a batch in the same phase.
        """
        found = {}
        for spec in self.bolts.values():
            upstream = self.bolts.get(spec.sources[0]) if len(spec.sources) == 1 else None
            if (
                upstream is not None
                and upstream.parallelism == spec.parallelism
                and {each.grouping.name for each in spec.inputs} <= _LOCAL
                and (upstream.id in self.late_bolts) == (spec.id in self.late_bolts)
            ):
                found[spec.id] = upstream.id
        return MappingProxyType(found)

    @property
    def is_stateful(self) -> bool:
        """Whether the topology has a stateful bolt."""
        return any(spec.is_stateful for spec in self.bolts.values())

    @cached_property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Component ids by level. A level is the length of the longest path from a spout; spouts are on level 0."""
        level_of = dict.fromkeys(self.spouts, 0)
        for spec in self.bolts.values():
            level_of[spec.id] = 1 + max(level_of[source] for source in spec.sources)
        return tuple(
            tuple(id for id, level in level_of.items() if level == number)
            for number in range(1 + max(level_of.values()))
        )

    def describe(self) -> str:
        """Return a text with one line per component, level by level: its class, its inputs and its streams.

        It says to which bolt a bolt is chained. For a transactional topology it names the committers, and the other
        bolts that finish in the commit phase.
        """
        state = "stateful" if self.is_stateful else "without state"
        if self.batch_spout is None:
            lines = [
                f"topology {self.name}, {state}",
                f"  driver: {CHECKPOINT_SPOUT_ID} sends PREPARE to all tasks, COMMIT and ROLLBACK to bolts with a hook",
            ]
        else:
            lines = [
                f"topology {self.name}, transactional, {state}",
                f"  driver: the coordinator of {self.batch_spout.id} begins the batches, which commit in their order",
            ]
        for number, level in enumerate(self.levels):
            lines += [f"  level {number}", *(f"    {self._described(self.components[id])}" for id in level)]
        if self.rich_spouts:
            lines += [
                f"  level {len(self.levels)}",
                f"    {ACKER_ID}, one for each executor or topology.acker.executors, finds what is acked; none if all "
                "bolts are basic",
            ]
        return "\n".join(lines)

    def _described(self, spec: Component) -> str:
        emitted = ", ".join(
            f"{name}({', '.join(declaration.fields)})" + (" direct" if declaration.direct else "")
            for name, declaration in spec.streams.items()
        )
        emits = f" emits {emitted}" if emitted else ""
        if isinstance(spec, SpoutSpec):
            tasks = "" if spec.parallelism is None else f" x{spec.parallelism}"
            phase = ", committer" if isinstance(spec.spout, CommitterTransactionalSpout) else ""
            return f"{spec.id}{tasks} ({type(spec.spout).__name__}{phase}){emits}"
        taken = ", ".join(f"{each.source.stream} of {each.source.component} by {each.grouping}" for each in spec.inputs)
        if self.batch_spout is None:
            executed = f" in {spec.executor}"
        elif spec.is_committer:
            executed = ", committer"
        else:
            executed = ", finishes in the commit phase" if spec.id in self.late_bolts else ""
        chained = f", chained to {self.chained[spec.id]}" if spec.id in self.chained else ""
        bolt = f"{spec.id} x{spec.parallelism} ({spec.type_name}{executed}{chained})"
        return f"{bolt} takes {taken}" + (f",{emits}" if emits else "")
