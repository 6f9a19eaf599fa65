"""Which bolts are chained, and to which bolt."""

from collections.abc import Mapping
from typing import Any

import pytest

from anchorbolt.bolts import BaseBasicBolt, BasicOutputCollector, ParquetSink
from anchorbolt.streams import OutputFieldsDeclarer, Tuple
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import Topology, TopologyBuilder
from anchorbolt.transactional import BaseBatchBolt, MemoryTransactionalSpout, TransactionalTopologyBuilder


class Passes(BaseBasicBolt):
    def __init__(self, *fields: str) -> None:
        self.fields = fields or ("word",)

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit(tup.values)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(*self.fields)
        declarer.declare_stream("other", *self.fields)


class Batch(BaseBatchBolt):
    def execute(self, tup: Any) -> None:
        raise NotImplementedError

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("tx", "word")


def built(wire: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("words", FeederSpout(["word"]), 2)
    builder.set_bolt("first", Passes(), 2).shuffle_grouping("words")
    wire(builder)
    return builder.create_topology("t")


def chained(wire: Any) -> Mapping[str, str]:
    return built(wire).chained


@pytest.mark.parametrize("method", ["none_grouping", "local_or_shuffle_grouping"])
def test_a_bolt_with_one_source_and_as_many_tasks_is_chained_to_it(method: str) -> None:
    assert chained(lambda builder: getattr(builder.set_bolt("next", Passes(), 2), method)("first")) == {"next": "first"}


def test_several_streams_of_one_bolt_may_be_taken() -> None:
    def wire(builder: TopologyBuilder) -> None:
        builder.set_bolt("next", Passes(), 2).none_grouping("first").local_or_shuffle_grouping("first", "other")

    assert chained(wire) == {"next": "first"}


def test_chains_may_be_long_and_have_branches() -> None:
    def wire(builder: TopologyBuilder) -> None:
        builder.set_bolt("second", Passes(), 2).none_grouping("first")
        builder.set_bolt("third", Passes(), 2).none_grouping("second")
        builder.set_bolt("branch", Passes(), 2).local_or_shuffle_grouping("second")
        builder.set_bolt("join", Passes(), 2).none_grouping("third").none_grouping("branch")

    assert chained(wire) == {"second": "first", "third": "second", "branch": "second"}


@pytest.mark.parametrize(
    "wire",
    [
        lambda builder: builder.set_bolt("next", Passes(), 3).none_grouping("first"),
        lambda builder: builder.set_bolt("next", Passes(), 2).shuffle_grouping("first"),
        lambda builder: builder.set_bolt("next", Passes(), 2).fields_grouping("first", "word"),
        lambda builder: builder.set_bolt("next", Passes(), 2).none_grouping("first").all_grouping("first", "other"),
        lambda builder: builder.set_bolt("next", Passes(), 2).none_grouping("first").none_grouping("words"),
        lambda builder: builder.set_bolt("next", Passes(), 2).local_or_shuffle_grouping("words"),
    ],
    ids=["other parallelism", "shuffle", "fields", "one of two streams", "two sources", "a spout"],
)
def test_any_other_bolt_is_not_chained(wire: Any) -> None:
    assert not chained(wire)


def test_one_task_by_shuffle_grouping_is_not_chained_to_one_task() -> None:
    def wire(builder: TopologyBuilder) -> None:
        builder.set_bolt("one", Passes()).global_grouping("first")
        builder.set_bolt("next", Passes()).shuffle_grouping("one")

    assert not chained(wire)


def test_bolts_of_two_phases_are_not_chained() -> None:
    builder = TransactionalTopologyBuilder("t", "words", MemoryTransactionalSpout({0: []}, ["word"], 1))
    builder.set_bolt("early", Passes("tx", "word")).shuffle_grouping("words")
    builder.set_bolt("next", Passes("tx", "word")).none_grouping("early")
    builder.set_bolt("late", ParquetSink("out")).none_grouping("next")
    builder.set_committer_bolt("commits", Batch()).none_grouping("next")
    builder.set_bolt("below", Passes("tx", "word")).none_grouping("commits")
    assert builder.build_topology().chained == {"next": "early", "below": "commits"}


def test_the_description_names_the_bolt_to_which_a_bolt_is_chained() -> None:
    topology = built(lambda builder: builder.set_bolt("next", Passes(), 2).none_grouping("first"))
    assert "next x2 (Passes in CheckpointTupleForwarder, chained to first) takes" in topology.describe()
