"""Topologies that can be built, and the properties of their graph."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.bolts.base import BaseBasicBolt, BaseRichBolt, BaseStatefulBolt
from anchorbolt.spouts.base import Spout, StreamSpout
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.state import State
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import (
    CustomStreamGrouping,
    GlobalStreamId,
    Grouping,
    OutputFieldsDeclarer,
    StreamDeclaration,
)
from anchorbolt.topology import Topology, TopologyBuilder
from anchorbolt.topology.validation import topological_order


class Split(BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        raise NotImplementedError

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")


class Count(BaseStatefulBolt[State]):
    def init_state(self, state: State) -> None:
        raise NotImplementedError

    def execute(self, tup: Any) -> None:
        raise NotImplementedError

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")
        declarer.declare_stream("late", "word")
        declarer.declare_stream("to-task", "word", direct=True)


class Sink(BaseRichBolt):
    def execute(self, tup: Any) -> None:
        raise NotImplementedError


class Evenly(CustomStreamGrouping):
    def prepare(self, context: TopologyContext, stream: GlobalStreamId, target_tasks: Sequence[int]) -> None:
        raise NotImplementedError

    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        raise NotImplementedError


def counting() -> TopologyBuilder:
    builder = TopologyBuilder()
    builder.set_spout("sentences", FeederSpout(["sentence"]))
    builder.set_bolt("split", Split(), parallelism=2).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(), parallelism=3).fields_grouping("split", "word")
    return builder


def word_count() -> Topology:
    builder = counting()
    builder.set_bolt("out", Sink()).global_grouping("count").all_grouping("count", "late")
    return builder.create_topology("word-count")


def test_topology_of_the_design_is_built_as_it_was_wired() -> None:
    topology = word_count()
    assert topology.name == "word-count"
    assert list(topology.components) == ["sentences", "split", "count", "out"]
    assert list(topology.spouts) == ["sentences"]
    count, out = topology.bolts["count"], topology.bolts["out"]
    assert (topology.is_stateful, count.is_stateful, count.parallelism) == (True, True, 3)
    assert count.inputs == ((GlobalStreamId("split", "default"), Grouping("fields", ("word",))),)
    assert count.streams["late"] == StreamDeclaration(("word",))
    assert out.inputs == (
        (GlobalStreamId("count", "default"), Grouping("global")),
        (GlobalStreamId("count", "late"), Grouping("all")),
    )
    assert out.sources == ("count",)


def test_every_grouping_is_declared_by_its_method() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["a", "b"]))
    builder.set_bolt("source", Count()).shuffle_grouping("spout")
    custom = Evenly()
    declared: dict[Grouping, tuple[str, tuple[Any, ...]]] = {
        Grouping("none"): ("default", ()),
        Grouping("local_or_shuffle"): ("default", ()),
        Grouping("partial_key", ("word", "count")): ("default", ("word", "count")),
        Grouping("direct"): ("to-task", ()),
        Grouping("custom", custom=custom): ("late", (custom,)),
        Grouping("fields", ("word",)): ("late", ("word",)),
        Grouping("shuffle"): ("late", ()),
    }
    for grouping, (stream, arguments) in declared.items():
        declarer = builder.set_bolt(grouping.name, Sink())
        getattr(declarer, f"{grouping.name}_grouping")("source", *arguments, stream=stream)
    bolts = builder.create_topology("t").bolts
    for grouping, (stream, _) in declared.items():
        assert bolts[grouping.name].inputs == ((("source", stream), grouping),)


def test_description_shows_levels_wrappers_and_streams() -> None:
    assert word_count().describe() == (
        "topology word-count, stateful\n"
        "  driver: $checkpointspout sends PREPARE to all tasks, COMMIT and ROLLBACK to bolts with a hook\n"
        "  level 0\n"
        "    sentences (FeederSpout) emits default(sentence)\n"
        "  level 1\n"
        "    split x2 (Split in CheckpointTupleForwarder) takes default of sentences by shuffle, emits default(word)\n"
        "  level 2\n"
        "    count x3 (Count in StatefulBoltExecutor) takes default of split by fields(word), "
        "emits default(word, count), late(word), to-task(word) direct\n"
        "  level 3\n"
        "    out x1 (Sink in CheckpointTupleForwarder) takes default of count by global, late of count by all"
    )


def test_a_bolts_level_is_one_more_than_the_highest_of_its_sources() -> None:
    builder = TopologyBuilder()
    builder.set_bolt("join", Sink()).shuffle_grouping("short").shuffle_grouping("long").shuffle_grouping("other")
    builder.set_bolt("long", Split()).shuffle_grouping("first")
    builder.set_bolt("first", Split()).shuffle_grouping("one")
    builder.set_bolt("short", Split()).shuffle_grouping("one").shuffle_grouping("other")
    builder.set_spout("one", FeederSpout(["a"]))
    builder.set_spout("other", FeederSpout(["a"]))
    topology = builder.create_topology("diamond")
    assert topology.levels == (("one", "other"), ("first", "short"), ("long",), ("join",))
    assert list(topology.components) == ["one", "other", "first", "long", "short", "join"]


def test_a_spout_may_leave_its_parallelism_open() -> None:
    builder = TopologyBuilder()
    builder.set_spout("open", StreamSpout(lambda spark: spark.readStream.text("in/"), fields=["line"]))
    builder.set_spout("two", FeederSpout(["line"]), 2)
    builder.set_bolt("sink", Sink()).shuffle_grouping("open").shuffle_grouping("two")
    topology = builder.create_topology("t")
    assert {id: spec.parallelism for id, spec in topology.spouts.items()} == {"open": None, "two": 2}
    assert not topology.is_stateful


def test_a_topology_does_not_change_with_its_builder_and_streams_are_declared_once() -> None:
    calls = []

    class Counted(Spout):
        def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
            calls.append(declarer)
            declarer.declare("a")

    builder = TopologyBuilder()
    builder.set_spout("spout", Counted())
    declarer = builder.set_bolt("sink", Sink()).shuffle_grouping("spout")
    topology = builder.create_topology("one")
    builder.set_spout("late", FeederSpout(["a"]))
    declarer.shuffle_grouping("late")
    assert list(topology.components) == ["spout", "sink"]
    assert len(topology.bolts["sink"].inputs) == 1
    assert len(builder.create_topology("two").bolts["sink"].inputs) == 2
    assert len(calls) == 1


def test_a_topology_cannot_be_changed() -> None:
    topology = word_count()
    with pytest.raises(dataclasses.FrozenInstanceError):
        topology.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        topology.components["x"] = topology.components["out"]  # type: ignore[index]
    with pytest.raises(TypeError):
        topology.bolts["count"].streams["x"] = StreamDeclaration(())  # type: ignore[index]


@given(st.data())
def test_topological_order_puts_sources_first_and_otherwise_keeps_the_declared_order(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 8))
    rank = data.draw(st.permutations(range(size)))
    edges: dict[str, list[str]] = {
        str(node): [str(other) for other in range(size) if rank[other] < rank[node] and data.draw(st.booleans())]
        for node in range(size)
    }
    order = topological_order(edges)
    assert sorted(order) == sorted(edges)
    for place, id in enumerate(order):
        assert set(edges[id]) <= set(order[:place])
        ready = [other for other in edges if other not in order[:place] and set(edges[other]) <= set(order[:place])]
        assert id == ready[0]
