"""The wiring of a run: the stage and partition of each task, and the receivers of its tuples. Pure."""

import copy
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import count, islice
from typing import Any, NamedTuple

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.spouts.transactional import CommitterTransactionalSpout, kind_of
from anchorbolt.state_backends.rules import task_namespace
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import ACKER_ID, GlobalStreamId, Grouping
from anchorbolt.topology.graph import Topology

_TABLES = {
    *("task_ids", "tasks", "rich_spout_tasks", "levels", "places", "stages", "homes", "namespaces", "state_positions")
}


class BatchPhase(Enum):
    """The phase that a transactional topology's wiring is for: one of the two jobs of a batch."""

    PROCESSING = "processing"
    COMMIT = "commit"


class Edge(NamedTuple):
    """A stream, and a bolt that subscribes to it."""

    component: str  # id of the bolt
    stream_id: GlobalStreamId
    grouping: Grouping
    takes_columns: bool = False  # whether the bolt takes whole columns of Arrow
    chained: bool = False  # whether each task of the bolt is fed by the emitting task with its index

    @property
    def direct(self) -> bool:
        return self.grouping.name == "direct"


class Wiring:
    """Levels, partitions, task ids, edges and streams of a topology, fixed for a run.

    Level 0 holds the spouts. The driver's level follows the last level of bolts. Task ids count from 1 over the bolts,
    then over the rich spouts, in the topology's order of components. The tasks of spouts that read with Spark have no
    ids: their number is unknown until a batch is read.

    Stages, which count from 1, are the levels without chained bolts; spouts are on stage 0. A partition of a stage runs
    a task and the tasks that are chained to it, in topological order.
    """

    def __init__(self, graph: Topology, prefix: str, *, ackers: int = 0, acker_tasks: int = 0) -> None:
        """Wire a topology.

        Args:
            graph: The topology.
            prefix: The prefix of its tasks' namespaces.
            ackers: The number of acker tasks that keep open trees; 0 if the acker tracks no trees.
            acker_tasks: The number of all acker tasks, also those of the last run, so that its open trees can move.
        """
        self.topology = graph.name
        self.prefix = prefix
        self.ackers = ackers
        bolts, batch_spout = graph.bolts.values(), graph.batch_spout
        self.batch_spout = "" if batch_spout is None else batch_spout.id  # of a transactional topology
        self.phase = None if batch_spout is None else BatchPhase.PROCESSING
        self.late_bolts = graph.late_bolts
        self.has_other_spouts = len(graph.rich_spouts) < len(graph.spouts)
        self.streams = {name: dict(spec.streams) for name, spec in graph.components.items()}
        # The receiving bolts, by component and stream.
        self.edges: dict[str, dict[str, list[Edge]]] = {component: {} for component in (*graph.components, ACKER_ID)}
        for spec in bolts:
            for source, grouping in spec.inputs:
                self.edges[source.component].setdefault(source.stream, []).append(
                    Edge(spec.id, source, grouping, spec.takes_columns, spec.id in graph.chained)
                )
        # By bolt and input: the fields by which the input is grouped; empty for a grouping without fields.
        self.key_fields: dict[str, dict[tuple[str, str], tuple[str, ...]]] = {
            spec.id: {source: grouping.fields for source, grouping in spec.inputs} for spec in bolts
        }
        self.stateful_bolts = tuple(spec.id for spec in bolts if spec.is_stateful)
        self.stateful = (*self.stateful_bolts, *([ACKER_ID] if ackers else ()))  # all that keep state
        self._rich_spouts = tuple(graph.rich_spouts)
        self._commits_spout = batch_spout is not None and isinstance(batch_spout.spout, CommitterTransactionalSpout)
        self._numbers = {spec.id: spec.parallelism for spec in bolts} | {
            spec.id: spec.parallelism or 1 for spec in graph.rich_spouts.values()
        }
        if batch_spout is not None:
            kind = kind_of(batch_spout.spout)
            if kind is not None and kind.emitter is not None:
                self._numbers[batch_spout.id] = batch_spout.parallelism or 1
        if ackers:
            self._numbers[ACKER_ID] = max(ackers, acker_tasks)
        self._chained = dict(graph.chained)
        self._levels: Sequence[Sequence[str]] = (*graph.levels[1:], *([(ACKER_ID,)] if ackers else ()))
        self._make_tables()

    def _make_tables(self) -> None:
        """Make the tables that have an entry for each task, from the number of tasks of each component."""
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
        self.stages: list[list[list[TaskKey]]] = []
        self.homes: dict[TaskKey, tuple[int, int]] = {}  # by task: its stage, and its partition there
        for level in self.levels:
            partitions: list[list[TaskKey]] = []
            for component, index in level:
                if component in self._chained:
                    stage, partition = home = self.homes[self._chained[component], index]
                    self.stages[stage - 1][partition].append((component, index))
                else:
                    home = len(self.stages) + 1, len(partitions)
                    partitions.append([(component, index)])
                self.homes[component, index] = home
            if partitions:
                self.stages.append(partitions)
        self.namespaces = {self.namespace(task): task for component in self.stateful for task in self.tasks[component]}
        self.state_positions = {task: position for position, task in enumerate(self.namespaces.values())}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the tables: Spark sends the pickled plan to each task, and the tables grow with the tasks."""
        return {name: value for name, value in vars(self).items() if name not in _TABLES}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_tables()

    def commit_phase(self) -> "Wiring":
        """Return the wiring of the commit phase of a transactional topology: its late bolts, in a separate job.

        Tasks of the spout are on the first level if they take part in the commit.
        """
        wiring, late = copy.copy(self), self.late_bolts
        wiring.phase = BatchPhase.COMMIT
        levels = [tuple(component for component in level if component in late) for level in self._levels]
        levels = [level for level in levels if level]
        if self._commits_spout:
            levels[:1] = [(self.batch_spout, *(levels[0] if levels else ()))]
        wiring._levels = levels
        wiring._make_tables()
        return wiring

    @property
    def driver_level(self) -> int:
        return len(self.levels) + 1

    def behind(self, task: TaskKey) -> list[TaskKey]:
        """Return the tasks downstream of a task, without ackers."""
        found = {task[0]: [task]}
        for component, streams in self.edges.items():  # in topological order
            for edge in (edge for edges in streams.values() for edge in edges if component in found):
                tasks = self.tasks[edge.component]
                found[edge.component] = [tasks[index] for _, index in found[component]] if edge.chained else tasks
        return [each for bolt in found if bolt != task[0] for each in found[bolt] if each in self.places]

    def next_partition(self, home: tuple[int, int], level: int, destination: int) -> int:
        """Return the partition of the next stage for a blob that a task sends or passes on.

        A stage passes on a blob for a later stage, without decoding it.

        Args:
            home: The sending task's stage and partition.
            level: The level of the receiving task, or the driver's.
            destination: Its place in the level.
        """
        stage, partition = len(self.stages) + 1, destination
        if level < self.driver_level:
            stage, partition = target = self.homes[self.levels[level - 1][destination]]
            assert stage > home[0] or target == home, "a blob is for a partition that it cannot reach"
        return partition if stage <= home[0] + 1 else partition % len(self.stages[home[0]])

    def namespace(self, task: TaskKey) -> str:
        return task_namespace(self.prefix, *task)

    def parallelism(self, component: str) -> int:
        """Return the number of tasks of a stateful component; for ackers, the tasks that keep open trees."""
        return self.ackers if component == ACKER_ID else len(self.tasks[component])

    def task_id(self, task: TaskKey) -> int:
        """Return the id of a task of a bolt or a rich spout."""
        return self.task_ids[task[0]][task[1]]

    def context(self, task: TaskKey) -> TopologyContext:
        """Return the context of a task. A task without an id gets its partition's index as the id."""
        component, index = task
        return TopologyContext(
            topology=self.topology,
            this_component_id=component,
            this_task_id=self.task_id(task) if task in self.tasks.get(component, ()) else index,
            this_task_index=index,
            component_tasks=self.task_ids,
            component_fields=self.fields,
            grouping_fields=self.key_fields.get(component, {}),
        )

    @property
    def fields(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """The fields of each stream, by component and stream."""
        return {
            name: {stream: declaration.fields for stream, declaration in streams.items()}
            for name, streams in self.streams.items()
        }
