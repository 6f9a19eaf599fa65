"""The layout of a topology over stages and tasks: fixed for a run, and pickled to every worker. Pure."""

import copy
import io
import pickle
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import cloudpickle

from anchorbolt.bolts.base import BaseStatefulBolt, Bolt
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.config.settings import TaskSettings
from anchorbolt.errors import AnchorboltError, ConfigError
from anchorbolt.serialization import Codec, MsgpackCodec
from anchorbolt.serialization.schema import Schema
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.rules import task_namespace
from anchorbolt.state_backends.state import State
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import StreamDeclaration
from anchorbolt.streams.groupings import DirectGrouping, GlobalStreamId, Grouping, KeyGrouping
from anchorbolt.topology.graph import Topology


@dataclass(frozen=True)
class EngineSettings(TaskSettings):
    """The settings that the tasks of a run need, with codecs and places made from the configuration."""

    checkpoint_location: str
    first_buffer_tuples: int = 512  # room that a buffer starts with; it grows to `buffer_tuples`
    key_codec: Codec = field(default_factory=MsgpackCodec)
    value_codec: Codec = field(default_factory=MsgpackCodec)
    namespace_prefix: str = ""


@dataclass(frozen=True)
class Edge:
    """A stream, and a bolt that takes it."""

    component: str  # id of the bolt
    stream_id: GlobalStreamId
    grouping: Grouping

    @property
    def direct(self) -> bool:
        return isinstance(self.grouping, DirectGrouping)


class ExecutionPlan:
    """Levels, partitions, task ids and edges of a topology.

    Level 0 holds the spouts. All bolts of a level run in one stage; each of their tasks is a partition. The driver's
    level follows the last one. Task ids count from 1 over the bolts, in the topology's order of components.
    """

    def __init__(
        self,
        topology: Topology,
        run_id: str,
        conf: Mapping[str, Any],
        settings: EngineSettings,
        provider: StateProvider,
    ) -> None:
        self.topology = topology.name
        self.run_id = run_id
        self.conf = dict(conf)
        self.settings = settings
        self.provider = provider
        self.is_stateful = topology.is_stateful
        bolts = list(topology.bolts.values())
        self.spouts = tuple(topology.spouts)
        self.bolts = tuple(topology.bolts)
        self.stateful_bolts = tuple(spec.id for spec in bolts if spec.is_stateful)
        self.state_schema_versions = {
            spec.id: spec.bolt.state_schema_version for spec in bolts if isinstance(spec.bolt, BaseStatefulBolt)
        }
        self._pickled = {spec.id: cloudpickle.dumps(spec.bolt) for spec in bolts}
        self._streams = {name: dict(spec.streams) for name, spec in topology.spouts.items()}
        self._streams |= {name: dict(spec.streams) for name, spec in topology.bolts.items()}
        self._task_ids: dict[str, tuple[int, ...]] = {}
        next_id = 1
        for spec in bolts:
            self._task_ids[spec.id] = tuple(range(next_id, next_id + spec.parallelism))
            next_id += spec.parallelism
        self._edges: dict[str, dict[str, list[Edge]]] = {component: defaultdict(list) for component in self._streams}
        self._upstream: dict[str, tuple[TaskKey, ...]] = {}
        self._key_fields: dict[str, dict[tuple[str, str], tuple[str, ...]]] = {}
        for spec in bolts:
            sources: dict[str, None] = {}
            keys: dict[tuple[str, str], tuple[str, ...]] = {}
            for stream_id, grouping in spec.inputs:
                self._edges[stream_id.component][stream_id.stream].append(Edge(spec.id, stream_id, grouping))
                sources[stream_id.component] = None
                if isinstance(grouping, KeyGrouping):
                    keys[stream_id.component, stream_id.stream] = grouping.fields
            self._key_fields[spec.id] = keys
            self._upstream[spec.id] = tuple(
                (source, index) for source in sources for index in range(len(self._task_ids.get(source, ())))
            )
        self._edges = {component: dict(streams) for component, streams in self._edges.items()}
        self.levels: tuple[tuple[TaskKey, ...], ...] = tuple(
            tuple((component, index) for component in level for index in range(len(self._task_ids[component])))
            for level in topology.levels[1:]
        )
        self._places = {
            task: (number, partition)
            for number, level in enumerate(self.levels, start=1)
            for partition, task in enumerate(level)
        }

    @property
    def driver_level(self) -> int:
        return len(self.levels) + 1

    def width(self, level: int) -> int:
        return len(self.levels[level - 1])

    def place(self, component: str, index: int) -> tuple[int, int]:
        """Return the level and partition of a bolt's task."""
        return self._places[component, index]

    def next_partition(self, level: int, target_level: int, destination: int) -> int:
        """Return the partition of the next stage for a blob that is sent from `level` to `target_level`.

        A later stage passes on, unopened, a blob that is for a level behind it.
        """
        if level + 1 == target_level or level + 1 > len(self.levels):
            return destination
        return destination % self.width(level + 1)

    def task_ids(self, component: str) -> tuple[int, ...]:
        return self._task_ids[component]

    def parallelism(self, component: str) -> int:
        return len(self._task_ids[component])

    def edges(self, component: str) -> Mapping[str, list[Edge]]:
        """Return the receiving bolts of a component, by stream."""
        return self._edges[component]

    def streams(self, component: str) -> Mapping[str, StreamDeclaration]:
        return self._streams[component]

    def fields(self, component: str, stream: str) -> tuple[str, ...]:
        return self._streams[component][stream].fields

    def spout_stream(self, component: str) -> tuple[str, tuple[str, ...]]:
        """Return the only stream of a spout, and its fields."""
        [(stream, declaration)] = self._streams[component].items()
        return stream, declaration.fields

    def upstream_tasks(self, component: str) -> tuple[TaskKey, ...]:
        """Return the bolt tasks that send to a bolt. The tasks of spouts are known only once a batch is read."""
        return self._upstream[component]

    def sources(self, component: str) -> set[str]:
        return {
            source
            for source, streams in self._edges.items()
            for edges in streams.values()
            if any(edge.component == component for edge in edges)
        }

    def key_fields(self, component: str) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """Return the fields by which a bolt's input is grouped, by source component and stream."""
        return self._key_fields[component]

    def namespace(self, component: str, index: int) -> str:
        return task_namespace(self.settings.namespace_prefix, component, index)

    def namespaces(self) -> dict[str, TaskKey]:
        return {
            self.namespace(component, index): (component, index)
            for component in self.stateful_bolts
            for index in range(self.parallelism(component))
        }

    def stateful_parallelism(self) -> dict[str, int]:
        return {component: self.parallelism(component) for component in self.stateful_bolts}

    def codec_header(self, namespace: str) -> str:
        """Return the format header of a namespace with the configured codecs."""
        return EntryEncoding(namespace, self.settings.key_codec, self.settings.value_codec).header

    def new_state(self, component: str, index: int) -> State | None:
        """Return a new state of the user's own class for a task, or None if the task has a `KeyValueState`.

        Raises `ConfigError` if the user's provider raises or returns something else.
        """
        provider = self.provider
        if type(provider).new_state is StateProvider.new_state:
            return None
        namespace = self.namespace(component, index)
        made_by = f"{type(provider).__module__}.{type(provider).__qualname__}.new_state"
        try:
            state: object = provider.new_state(namespace, self.context(component, index))
        except AnchorboltError:
            raise
        except Exception as error:
            raise ConfigError(
                f"{made_by} raised {type(error).__name__}: {error}, for {namespace!r}. Fix it.",
                key="topology.state.provider",
            ) from error
        if state is not None and (not isinstance(state, State) or isinstance(state, KeyValueState)):
            raise ConfigError(
                f"{made_by} returned a {type(state).__name__} for {namespace!r}. Return an object of your own class "
                "that extends State or AttemptState, or None for a KeyValueState.",
                key="topology.state.provider",
            )
        return state

    def state_schema(self, component: str) -> Schema:
        """Return the schema of a stateful bolt's values; a new instance of the bolt upcasts older ones."""
        bolt = self.unpickle_bolt(component)
        assert isinstance(bolt, BaseStatefulBolt)
        return Schema(bolt.state_schema_version, bolt.upcast)

    def context(self, component: str, index: int) -> TopologyContext:
        """Return the context of a task. The id of a spout's task is the index of its partition."""
        ids = self._task_ids.get(component)
        return TopologyContext(
            topology=self.topology,
            this_component_id=component,
            this_task_id=ids[index] if ids else index,
            this_task_index=index,
            component_tasks=self._task_ids,
            component_fields={
                name: {stream: declaration.fields for stream, declaration in streams.items()}
                for name, streams in self._streams.items()
            },
        )

    def pickled(self) -> bytes:
        """Return the pickled plan. Workers can unpickle it without the job's `__main__`."""
        data: bytes = cloudpickle.dumps(self)
        return data

    def pickled_without_provider(self) -> bytes:
        """Return the pickled plan for tasks without state. A provider that keeps state in memory cannot be pickled."""
        plan = copy.copy(self)
        del plan.provider
        return plan.pickled()

    def unpickle_bolt(self, component: str) -> Bolt:
        bolt: Bolt = _Unpickler(io.BytesIO(self._pickled[component])).load()
        return bolt


class _Unpickler(pickle.Unpickler):
    """Takes classes from loaded modules without importing these again.

    If a module submits a topology to `LocalCluster` while it is being imported, another thread unpickles its bolts. An
    import on that thread would wait for the end of the first import, and the module waits for the run.
    """

    def find_class(self, module: str, name: str) -> Any:
        loaded = sys.modules.get(module)
        return super().find_class(module, name) if loaded is None else attrgetter(name)(loaded)
