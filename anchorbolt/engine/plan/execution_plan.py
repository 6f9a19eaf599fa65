"""The execution plan: which task runs in which stage and partition. Fixed for a run, pickled to every worker. Pure."""

import copy
import secrets
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import count, islice
from typing import Any, NamedTuple, cast

import cloudpickle

from anchorbolt.bolts.base import BaseBasicBolt, BaseStatefulBolt, Bolt
from anchorbolt.bolts.sink import DataFrameSink
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.config.settings import DEAD_LETTER, Settings
from anchorbolt.errors import AnchorboltError, ConfigError
from anchorbolt.files import Folder, Locations, WorkerLocations
from anchorbolt.serialization.schema import Schema
from anchorbolt.spouts.rich import BaseRichSpout
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout
from anchorbolt.spouts.transactional import BatchSpout, CommitterTransactionalSpout
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.provider_factory import codecs_from
from anchorbolt.state_backends.rules import task_namespace
from anchorbolt.state_backends.state import State
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.streams.groupings import GlobalStreamId, Grouping
from anchorbolt.topology.graph import Topology
from anchorbolt.tracking.stored_trees import TREE_HEADER
from anchorbolt.transactional.batches.hand_off import HandOffs, Unpickler

_TABLES = {"task_ids", "tasks", "rich_spout_tasks", "levels", "places", "namespaces", "state_positions"}


class BatchPhase(Enum):
    """What a plan of a transactional topology is for: one of the two jobs of a batch."""

    PROCESSING = "processing"
    COMMIT = "commit"


class Edge(NamedTuple):
    """A stream, and a bolt that takes it."""

    component: str  # id of the bolt
    stream_id: GlobalStreamId
    grouping: Grouping

    @property
    def direct(self) -> bool:
        return self.grouping.name == "direct"


class ExecutionPlan:
    """Levels, partitions, task ids and edges of a topology, and the run's settings, codecs and provider.

    Level 0 holds the spouts. All bolts of a level run in one stage; each of their tasks is a partition. The driver's
    level follows the last one. Task ids count from 1 over the bolts, then over the rich spouts, in the topology's order
    of components. The tasks of spouts that read with Spark have no ids: their number is known once a batch is read.
    """

    def __init__(
        self,
        graph: Topology,
        conf: Mapping[str, Any],  # what the bolts' `prepare` gets
        settings: Settings,
        provider: StateProvider,
        run_id: str = "",
        ackers: int = 1,  # 0 if tuple trees are not tracked
        former_ackers: int = 0,  # of the run before: each has a task, so that its open trees can move
        locations: Locations | None = None,  # None for those that this process can open
        shared_by_machines: bool = False,  # whether tasks run on other machines than the driver's
    ) -> None:
        self.graph = graph  # only on the driver
        self.topology = graph.name
        self.run_id = run_id or uuid.uuid4().hex
        # Functions stay on the driver: they may hold a connection.
        self.conf = {key: value for key, value in conf.items() if key != DEAD_LETTER or isinstance(value, str)}
        self.settings = settings
        self.provider = provider
        self.key_codec, self.value_codec = codecs_from(settings.provider)
        self.locations: Locations = WorkerLocations() if locations is None else locations
        self.shared_by_machines = shared_by_machines
        self.checkpoint_location = self.locations.qualified(settings.checkpoint_location_of(graph.name))
        self.prefix = settings.namespace_prefix_of(graph.name)
        bolts, rich_spouts = graph.bolts.values(), graph.rich_spouts.values()
        for sink in self.sinks.values():
            sink.locations = self.locations
        self._pickled = {spec.id: cloudpickle.dumps(spec.bolt) for spec in bolts}
        batch_spout = graph.batch_spout
        self.batch_spout = "" if batch_spout is None else batch_spout.id  # of a transactional topology
        self.phase = None if batch_spout is None else BatchPhase.PROCESSING
        self.late_bolts = graph.late_bolts
        self._hand_off_key = secrets.token_bytes(32)
        self.streams = {name: dict(spec.streams) for name, spec in graph.components.items()}
        numbers = {spec.id: spec.parallelism for spec in bolts} | {
            spec.id: spec.parallelism or 1 for spec in rich_spouts
        }
        if batch_spout is not None and not isinstance(batch_spout.spout, SparkTransactionalSpout):
            self._pickled[batch_spout.id] = cloudpickle.dumps(batch_spout.spout)
            numbers[batch_spout.id] = batch_spout.parallelism or 1
        self.is_tracked = bool(rich_spouts) and ackers > 0
        # If all bolts are basic, no tree stays open behind its wave: the tasks themselves report which trees failed.
        can_stay_open = any(not isinstance(spec.bolt, BaseBasicBolt | DataFrameSink) for spec in bolts)
        is_needed = can_stay_open or settings.acker_executors is not None or former_ackers
        self.ackers = ackers if rich_spouts and is_needed else 0
        if self.ackers:
            numbers[ACKER_ID] = max(self.ackers, former_ackers)
        self.keeps_dead_letters = settings.dead_letter is not None  # of tuples that fail for good
        self.replays_letters = isinstance(settings.dead_letter, str)  # a function keeps none
        self.has_other_spouts = len(graph.rich_spouts) < len(graph.spouts)
        self._rich_spouts = tuple(graph.rich_spouts)
        # By bolt: the seconds between its tick tuples. Sinks get none.
        ticks = {spec.id: spec.tick_secs or settings.tick_secs for spec in bolts if spec.id not in self.sinks}
        self.ticks = {bolt: seconds for bolt, seconds in ticks.items() if seconds is not None}
        # The receiving bolts, by component and stream.
        self.edges: dict[str, dict[str, list[Edge]]] = {component: {} for component in (*graph.components, ACKER_ID)}
        for spec in bolts:
            for source, grouping in spec.inputs:
                self.edges[source.component].setdefault(source.stream, []).append(Edge(spec.id, source, grouping))
        # By bolt: the fields by which an input is grouped.
        self.key_fields: dict[str, dict[tuple[str, str], tuple[str, ...]]] = {
            spec.id: {source: grouping.fields for source, grouping in spec.inputs if grouping.fields} for spec in bolts
        }
        self.stateful_bolts = tuple(spec.id for spec in bolts if spec.is_stateful)
        self.stateful = (*self.stateful_bolts, *([ACKER_ID] if self.ackers else ()))  # all that keep state
        self._numbers = numbers
        self._levels: Sequence[Sequence[str]] = (*graph.levels[1:], *([(ACKER_ID,)] if self.ackers else ()))
        self._make_tables()

    def _make_tables(self) -> None:
        """Set what follows from the number of tasks of each component, and has an entry for each task."""
        ids = count(1)
        self.task_ids = {component: tuple(islice(ids, number)) for component, number in self._numbers.items()}
        self.tasks: dict[str, list[TaskKey]] = {
            component: [(component, index) for index in range(len(ids))] for component, ids in self.task_ids.items()
        }
        self.rich_spout_tasks = [task for component in self._rich_spouts for task in self.tasks[component]]
        self.levels = [[task for component in level for task in self.tasks[component]] for level in self._levels]
        # By task: its level, and its partition there.
        self.places = {
            task: (number, partition)
            for number, level in enumerate(self.levels, start=1)
            for partition, task in enumerate(level)
        }
        self.namespaces = {self.namespace(task): task for component in self.stateful for task in self.tasks[component]}
        self.state_positions = {task: position for position, task in enumerate(self.namespaces.values())}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the tables: Spark hands the pickled plan to each task, and must not hand it all others' entries."""
        return {name: value for name, value in vars(self).items() if name not in _TABLES}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_tables()

    def commit_phase(self) -> "ExecutionPlan":
        """Return the plan for the commit phase of a transactional topology: of its late bolts, in a job of their own.

        Tasks of the spout are on the first level if they take part in the commit.
        """
        plan, late = copy.copy(self), self.late_bolts
        plan.phase, plan.run_id = BatchPhase.COMMIT, f"{self.run_id}-commit"
        levels = [tuple(component for component in level if component in late) for level in self._levels]
        levels = [level for level in levels if level]
        if self.batch_spout and isinstance(self.graph.spouts[self.batch_spout].spout, CommitterTransactionalSpout):
            levels[:1] = [(self.batch_spout, *(levels[0] if levels else ()))]
        plan._levels = levels
        plan._make_tables()
        return plan

    @property
    def excludes_failed(self) -> bool:
        """Whether a round with failed tuple trees is repeated without them, so that state holds nothing of them."""
        policy = self.settings.fail_policy
        return bool(self.stateful_bolts) if policy is None else policy == "exclude"

    @property
    def sinks(self) -> dict[str, DataFrameSink]:
        """The sinks by id, as the job made them: they publish on the driver."""
        return {name: spec.bolt for name, spec in self.graph.bolts.items() if isinstance(spec.bolt, DataFrameSink)}

    @property
    def spouts_of_trees(self) -> dict[int, str]:
        """The rich spouts by the ids of their tasks; an empty name for one without stable message ids."""
        spouts = {name: spec.spout for name, spec in self.graph.rich_spouts.items()}
        stable = {name for name, spout in spouts.items() if cast(BaseRichSpout, spout).stable_message_ids}
        return {self.task_id(task): task[0] if task[0] in stable else "" for task in self.rich_spout_tasks}

    @property
    def driver_level(self) -> int:
        return len(self.levels) + 1

    def behind(self, component: str) -> list[str]:
        """Return the bolts of this plan that get tuples of a component, or of one behind it; no ackers."""
        found: dict[str, None] = {}
        waiting = [component]
        while waiting:
            for edges in self.edges[waiting.pop()].values():
                waiting += [edge.component for edge in edges if edge.component not in found]
                found.update((edge.component, None) for edge in edges)
        return [bolt for bolt in found if (bolt, 0) in self.places]

    def next_partition(self, level: int, target_level: int, destination: int) -> int:
        """Return the partition of the next stage for a blob that is sent from `level` to `target_level`.

        A later stage passes on, unopened, a blob that is for a level behind it.
        """
        if level + 1 == target_level or level + 1 > len(self.levels):
            return destination
        return destination % len(self.levels[level])

    def namespace(self, task: TaskKey) -> str:
        return task_namespace(self.prefix, *task)

    def new_state(self, task: TaskKey) -> State | None:
        """Return a new state of the user's own class for a task, or None if the task has a `KeyValueState`.

        Raises `ConfigError` if the user's provider raises or returns something else.
        """
        provider = self.provider
        if type(provider).new_state is StateProvider.new_state or task[0] == ACKER_ID:
            return None
        namespace = self.namespace(task)
        made_by = f"{type(provider).__module__}.{type(provider).__qualname__}.new_state"
        try:
            state: object = provider.new_state(namespace, self.context(task))
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

    def parallelism(self, component: str) -> int:
        """Return the number of tasks of a component that keeps state; of ackers, those that keep open trees."""
        return self.ackers if component == ACKER_ID else len(self.tasks[component])

    def task_id(self, task: TaskKey) -> int:
        """Return the id of a task of a bolt or a rich spout."""
        return self.task_ids[task[0]][task[1]]

    def header(self, namespace: str) -> str:
        """Return the format header of a namespace of this topology."""
        if self.namespaces[namespace][0] == ACKER_ID:
            return TREE_HEADER
        return EntryEncoding("", self.key_codec, self.value_codec).header

    def schema(self, component: str) -> Schema:
        """Return the schema of a stateful bolt's values, on the driver."""
        bolt = self.graph.bolts[component].bolt
        assert isinstance(bolt, BaseStatefulBolt)
        return Schema(bolt.state_schema_version, bolt.upcast)

    def context(self, task: TaskKey) -> TopologyContext:
        """Return the context of a task. Without an id, a task has the index of its partition."""
        component, index = task
        return TopologyContext(
            topology=self.topology,
            this_component_id=component,
            this_task_id=self.task_id(task) if task in self.tasks.get(component, ()) else index,
            this_task_index=index,
            component_tasks=self.task_ids,
            component_fields={
                name: {stream: declaration.fields for stream, declaration in streams.items()}
                for name, streams in self.streams.items()
            },
        )

    def pickled(self, *without: str) -> bytes:
        """Return the plan, `without` some attributes. Workers can unpickle it without the job's `__main__`."""
        plan = copy.copy(self)
        plan.settings = replace(self.settings, dead_letter=None)  # it may be a function that stays on the driver
        plan.locations = self.locations.for_workers(self.places_of_tasks)
        for name in ("graph", *without):
            delattr(plan, name)
        data: bytes = cloudpickle.dumps(plan)
        return data

    def unpickle_bolt(self, component: str) -> Bolt:
        bolt: Bolt = Unpickler(self._pickled[component]).load()
        if isinstance(bolt, DataFrameSink):
            bolt.locations = self.locations
        return bolt

    def open_location(self) -> Folder:
        """Open the checkpoint location, on the driver or in a task."""
        return self.locations.open(self.checkpoint_location)

    def hand_offs(self) -> HandOffs:
        """Return the hand-offs of this run's batches, in a task."""
        return HandOffs(self.open_location(), self._hand_off_key)

    @property
    def places_of_tasks(self) -> list[str]:
        """The locations that tasks read or write, qualified; none if all files are the driver's."""
        directories = [self.locations.qualified(place) for sink in self.sinks.values() for place in sink.directories()]
        return [self.checkpoint_location, *directories] if self.sinks or self.late_bolts else []

    def unpickle_spout(self) -> BatchSpout:
        """Return a copy of a transactional topology's spout."""
        spout: BatchSpout = Unpickler(self._pickled[self.batch_spout]).load()
        return spout

    def copy_spout(self, component: str) -> BaseRichSpout:
        """Return a copy of a rich spout for a task, on the driver. Its class is the job's own, not a copy of it."""
        spout = self.graph.spouts[component].spout
        assert isinstance(spout, BaseRichSpout)
        try:
            return copy.deepcopy(spout)
        except Exception:  # of what only cloudpickle can copy, such as an attribute that is a module
            copied: BaseRichSpout = Unpickler(cloudpickle.dumps(spout)).load()
            return copied
