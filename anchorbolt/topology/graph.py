"""The immutable graph of a topology. Holds what was declared and what follows from it; checks and runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from anchorbolt.bolts.base import BaseStatefulBolt, Bolt
from anchorbolt.checkpoint.decision_log import CHECKPOINT_SPOUT_ID
from anchorbolt.spouts.base import Spout
from anchorbolt.streams.declaration import CHECKPOINT_STREAM, StreamDeclaration
from anchorbolt.streams.groupings import GlobalStreamId, Grouping


class BoltWrapper(Enum):
    """What a bolt of a stateful topology runs in, so that checkpoint tuples pass through it in step with its data."""

    STATEFUL_BOLT_EXECUTOR = "StatefulBoltExecutor"
    CHECKPOINT_TUPLE_FORWARDER = "CheckpointTupleForwarder"


class Input(NamedTuple):
    """One stream that a bolt takes.

    Attributes:
        source: The stream.
        grouping: How its tuples are shared out over the bolt's tasks.
    """

    source: GlobalStreamId
    grouping: Grouping


@dataclass(frozen=True)
class SpoutSpec:
    """A spout of a topology.

    Attributes:
        id: Its id.
        spout: The job author's object; stays on the driver, so it need not be picklable.
        parallelism: Number of its tasks; None leaves it to the spout. For a stream spout it is the upper bound.
        streams: What it declared, by stream.
    """

    id: str
    spout: Spout
    parallelism: int | None
    streams: Mapping[str, StreamDeclaration]

    def __post_init__(self) -> None:
        object.__setattr__(self, "streams", MappingProxyType(dict(self.streams)))


@dataclass(frozen=True)
class BoltSpec:
    """A bolt of a topology.

    Attributes:
        id: Its id.
        bolt: The job author's object, to be pickled for its tasks.
        parallelism: Number of its tasks.
        inputs: The streams that it takes, in the order of their declaration, each stream once.
        streams: What it declared, by stream.
        wrapper: What it runs in; None in a topology without a stateful bolt.
    """

    id: str
    bolt: Bolt
    parallelism: int
    inputs: tuple[Input, ...]
    streams: Mapping[str, StreamDeclaration]
    wrapper: BoltWrapper | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "streams", MappingProxyType(dict(self.streams)))

    @property
    def is_stateful(self) -> bool:
        """Whether the bolt has checkpointed state."""
        return isinstance(self.bolt, BaseStatefulBolt)

    @property
    def sources(self) -> tuple[str, ...]:
        """Ids of the components that it takes streams from, each once."""
        return tuple(dict.fromkeys(each.source.component for each in self.inputs))


_CHECKPOINT_STREAMS: Mapping[str, StreamDeclaration] = MappingProxyType(
    {CHECKPOINT_STREAM: StreamDeclaration(("txid", "action"))}
)


@dataclass(frozen=True)
class CheckpointSpoutSpec:
    """The checkpoint spout, which the framework adds to a stateful topology. It runs on the driver.

    Its stream reaches every spout's task, and follows the data from there.
    """

    id: str = CHECKPOINT_SPOUT_ID
    streams: Mapping[str, StreamDeclaration] = field(default_factory=lambda: _CHECKPOINT_STREAMS)


Component = SpoutSpec | BoltSpec | CheckpointSpoutSpec


@dataclass(frozen=True)
class Topology:
    """A checked graph of spouts and bolts, made by `TopologyBuilder.create_topology`.

    Attributes:
        name: Its name.
        components: All components by id, in topological order and, where that leaves it open, in the order of their
            declaration. In a stateful topology the first one is the checkpoint spout.
    """

    name: str
    components: Mapping[str, Component]

    def __post_init__(self) -> None:
        object.__setattr__(self, "components", MappingProxyType(dict(self.components)))

    @cached_property
    def spouts(self) -> Mapping[str, SpoutSpec]:
        """The job's spouts by id; not the checkpoint spout."""
        found = {spec.id: spec for spec in self.components.values() if isinstance(spec, SpoutSpec)}
        return MappingProxyType(found)

    @cached_property
    def bolts(self) -> Mapping[str, BoltSpec]:
        """The bolts by id."""
        found = {spec.id: spec for spec in self.components.values() if isinstance(spec, BoltSpec)}
        return MappingProxyType(found)

    @property
    def is_stateful(self) -> bool:
        """Whether a bolt of it has state."""
        return any(spec.is_stateful for spec in self.bolts.values())

    @cached_property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Ids by level, that is, by the longest path from a spout. Level 0 are the job's spouts."""
        level_of = dict.fromkeys(self.spouts, 0)
        for spec in self.bolts.values():
            level_of[spec.id] = 1 + max(level_of[source] for source in spec.sources)
        return tuple(
            tuple(id for id, level in level_of.items() if level == number)
            for number in range(1 + max(level_of.values()))
        )

    def describe(self) -> str:
        """Return a text for people: a line per component, level by level, with what it takes and emits."""
        return "\n".join(_description(self))


def _description(topology: Topology) -> Iterator[str]:
    yield f"topology {topology.name}, {'stateful' if topology.is_stateful else 'without state'}"
    for spec in topology.components.values():
        if isinstance(spec, CheckpointSpoutSpec):
            yield f"  driver: {spec.id} (CheckpointSpout) emits {_streams(spec.streams)} to all spouts' tasks"
    for number, level in enumerate(topology.levels):
        yield f"  level {number}"
        for id in level:
            spec = topology.components[id]
            if isinstance(spec, BoltSpec):
                yield f"    {_bolt(spec)}"
            elif isinstance(spec, SpoutSpec):
                most = "" if spec.parallelism is None else f" x{spec.parallelism}"
                yield f"    {id}{most} ({type(spec.spout).__name__}) emits {_streams(spec.streams)}"


def _bolt(spec: BoltSpec) -> str:
    wrapped = f" in {spec.wrapper.value}" if spec.wrapper else ""
    taken = ", ".join(
        f"{each.source.stream} of {each.source.component} by {each.grouping}" for each in spec.inputs
    )
    emitted = f", emits {_streams(spec.streams)}" if spec.streams else ""
    return f"{spec.id} x{spec.parallelism} ({type(spec.bolt).__name__}{wrapped}) takes {taken}{emitted}"


def _streams(streams: Mapping[str, StreamDeclaration]) -> str:
    return ", ".join(
        f"{name}({', '.join(declaration.fields)})" + (" direct" if declaration.direct else "")
        for name, declaration in streams.items()
    )
