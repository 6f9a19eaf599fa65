"""Where the tasks of a plan run, and how blobs get there, in random topologies."""

import pickle
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.plan.wiring import Wiring
from anchorbolt.engine.task.emitter import new_router
from anchorbolt.engine.workers.rounds import Placement
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import Topology, TopologyBuilder
from anchorbolt.transactional import BaseBatchBolt, MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.jobs import BasicBolt


class Passes(BasicBolt):
    fields = ("word",)

    def execute(self, tup: Any, collector: Any) -> None:
        raise NotImplementedError


class Batch(BaseBatchBolt):
    def execute(self, tup: Any) -> None:
        raise NotImplementedError

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("tx", "word")


GROUPINGS = st.sampled_from(["none", "local_or_shuffle", "none", "local_or_shuffle", "shuffle", "all", "global"])


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    builder, sources = TopologyBuilder(), ["spout"]
    builder.set_spout("spout", FeederSpout(["word"]), draw(st.integers(1, 3)))
    for number in range(draw(st.integers(1, 7))):
        declarer = builder.set_bolt(f"bolt{number}", Passes(), draw(st.integers(1, 2)))
        for source in draw(st.lists(st.sampled_from(sources[-3:]), min_size=1, max_size=2, unique=True)):
            getattr(declarer, f"{draw(GROUPINGS)}_grouping")(source)
        sources.append(f"bolt{number}")
    return builder.create_topology("t")


@st.composite
def batch_topologies(draw: st.DrawFn) -> Topology:
    builder, sources = (
        TransactionalTopologyBuilder("t", "spout", MemoryTransactionalSpout({0: []}, ["word"], 1)),
        ["spout"],
    )
    for number in range(draw(st.integers(1, 6))):
        add = builder.set_committer_bolt if draw(st.integers(0, 3)) == 3 else builder.set_bolt
        declarer = add(f"bolt{number}", Batch(), draw(st.integers(1, 2)))
        for source in draw(st.lists(st.sampled_from(sources[-3:]), min_size=1, max_size=2, unique=True)):
            getattr(declarer, f"{draw(GROUPINGS)}_grouping")(source)
        sources.append(f"bolt{number}")
    return builder.build_topology()


WIRINGS = st.one_of(
    st.builds(lambda graph, ackers: Wiring(graph, "t", ackers=ackers), topologies(), st.integers(0, 2)),
    st.builds(lambda graph: Wiring(graph, "t"), batch_topologies()),
    st.builds(lambda graph: Wiring(graph, "t").commit_phase(), batch_topologies()),
)


def senders(wiring: Wiring) -> Iterator[TaskKey]:
    """Return all tasks that send, those of the spout included."""
    yield from dict.fromkeys([("spout", 0), *wiring.places])


def receivers(wiring: Wiring, task: TaskKey) -> set[tuple[int, int]]:
    """Return the places that blobs of a task may have to reach: its tuples, contributions, reports, and if it fails."""
    component, index = task
    plan: Any = SimpleNamespace(wiring=wiring)
    found = {(wiring.driver_level, index), *(wiring.places[each] for each in wiring.behind(task))}
    for edges in wiring.edges[component].values():
        for edge in edges:
            shares = new_router(plan, edge, wiring.context(task)).route(64, [["word"] * 64] * 2)
            tasks = [(edge.component, each) for each, share in enumerate(shares) if range(64)[share]]
            found.update(wiring.places[each] for each in tasks if each in wiring.places)
    if component != ACKER_ID:
        found.update(wiring.places[each] for each in wiring.tasks.get(ACKER_ID, []))
    return found


@given(WIRINGS)
def test_each_blob_reaches_the_partition_of_its_receiver(wiring: Wiring) -> None:
    for task in senders(wiring):
        for level, destination in receivers(wiring, task):
            is_for_driver = level == wiring.driver_level
            goal = (len(wiring.stages) + 1, destination)
            if not is_for_driver:
                goal = wiring.homes[wiring.levels[level - 1][destination]]
            at = wiring.homes.get(task, (0, 0))
            while at != goal:
                assert at[0] < goal[0]
                at = at[0] + 1, wiring.next_partition(at, level, destination)
                assert is_for_driver or at[1] < len(wiring.stages[at[0] - 1])


@given(WIRINGS)
def test_each_task_runs_in_one_partition_behind_the_task_that_feeds_it(wiring: Wiring) -> None:
    feeds = {
        edge.component: component
        for component, streams in wiring.edges.items()
        for edges in streams.values()
        for edge in edges
        if edge.chained
    }
    placed = []
    for number, stage in enumerate(wiring.stages, start=1):
        assert stage, "no stage is empty"
        for position, partition in enumerate(stage):
            placed += partition
            assert {wiring.homes[task] for task in partition} == {(number, position)}
            assert partition[0][0] not in feeds
            for place, (component, index) in enumerate(partition[1:], start=1):
                assert (feeds[component], index) in partition[:place]
    assert sorted(placed) == sorted(wiring.places)
    levels = [[task for task in level if task[0] not in feeds] for level in wiring.levels]
    assert [[partition[0] for partition in stage] for stage in wiring.stages] == [level for level in levels if level]


@given(WIRINGS)
def test_a_task_that_fails_tells_all_whose_input_is_not_complete(wiring: Wiring) -> None:
    for task in senders(wiring):
        told, waiting = set[TaskKey](), {task}
        while waiting:
            component, index = waiting.pop()
            for edges in wiring.edges[component].values():
                for edge in edges:
                    tasks = wiring.tasks[edge.component]
                    reached = {tasks[index]} if edge.chained else set(tasks)
                    waiting |= reached - told
                    told |= reached
        assert sorted(wiring.behind(task)) == sorted(each for each in told if each in wiring.places)


@given(WIRINGS, st.integers(1, 4))
def test_a_chained_task_is_in_the_worker_of_the_task_that_feeds_it(wiring: Wiring, slots: int) -> None:
    placement = Placement(wiring, slots)
    for stage in wiring.stages:
        for partition in stage:
            assert len({placement.of(*wiring.places[task]) for task in partition}) == 1


@given(WIRINGS)
def test_a_copy_has_the_same_stages(wiring: Wiring) -> None:
    copied: Wiring = pickle.loads(pickle.dumps(wiring))  # noqa: S301 - made above
    assert (copied.stages, copied.homes, copied.places) == (wiring.stages, wiring.homes, wiring.places)
