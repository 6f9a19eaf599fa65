"""Transactional topologies that can be built, and how they describe themselves."""

from collections.abc import Sequence
from typing import Any

from anchorbolt.bolts import BaseStatefulBolt, DataFrameSink
from anchorbolt.state_backends import State
from anchorbolt.streams import CustomStreamGrouping, GlobalStreamId, OutputFieldsDeclarer, TopologyContext
from anchorbolt.streams.declaration import Grouping
from anchorbolt.topology import Topology
from anchorbolt.transactional import BaseBatchBolt, BaseTransactionalBolt, Committer, TransactionalTopologyBuilder
from tests.engine.jobs import BasicBolt, Fields


class Batch(BaseBatchBolt):
    def execute(self, tup: Any) -> None:
        raise NotImplementedError

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("tx", "count")
        declarer.declare_stream("to-task", "tx", "word", direct=True)


class Commit(Fields, BaseTransactionalBolt, Committer):
    fields = ("tx", "sum")

    def execute(self, tup: Any) -> None:
        raise NotImplementedError


class Basic(BasicBolt):
    fields = ("tx", "word")

    def execute(self, tup: Any, collector: Any) -> None:
        raise NotImplementedError


class Stateful(BaseStatefulBolt[State]):
    def init_state(self, state: State) -> None:
        raise NotImplementedError

    def execute(self, tup: Any) -> None:
        raise NotImplementedError


class StatefulCommit(Stateful, Committer):
    def finish_batch(self) -> None:
        raise NotImplementedError


class Evenly(CustomStreamGrouping):
    def prepare(self, context: TopologyContext, stream: GlobalStreamId, target_tasks: Sequence[int]) -> None:
        raise NotImplementedError

    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        raise NotImplementedError


def output(dataframe: Any, txid: int) -> None:
    raise NotImplementedError


def global_count(builder: TransactionalTopologyBuilder) -> Topology:
    builder.set_bolt("sum", Commit()).global_grouping("partial")
    builder.set_bolt("partial", Batch(), parallelism=5).shuffle_grouping("spout")
    builder.set_bolt("below", Batch()).shuffle_grouping("sum")
    return builder.build_topology()


def test_the_global_count_is_built_as_it_was_wired(builder: TransactionalTopologyBuilder) -> None:
    topology = global_count(builder)
    assert topology.name == "global-count"
    assert list(topology.components) == ["spout", "partial", "sum", "below"]
    assert topology.batch_spout is not None
    assert (topology.batch_spout.id, topology.batch_spout.parallelism) == ("spout", 3)
    assert topology.batch_spout.streams["default"].fields == ("tx", "word")
    assert topology.bolts["partial"].parallelism == 5
    assert topology.bolts["sum"].inputs == ((("partial", "default"), Grouping("global")),)


def test_the_bolts_from_the_first_committer_down_finish_in_the_commit_phase(
    builder: TransactionalTopologyBuilder,
) -> None:
    assert global_count(builder).late_bolts == {"sum", "below"}


def test_a_bolt_is_a_committer_by_its_marker_or_by_the_method_that_adds_it(
    builder: TransactionalTopologyBuilder,
) -> None:
    builder.set_bolt("batch", Batch()).shuffle_grouping("spout")
    builder.set_bolt("basic", Basic()).shuffle_grouping("spout")
    builder.set_bolt("sink", DataFrameSink(output)).shuffle_grouping("spout")
    builder.set_bolt("marked", Commit()).shuffle_grouping("spout")
    builder.set_bolt("marked-stateful", StatefulCommit()).shuffle_grouping("spout")
    builder.set_committer_bolt("added", Batch(), parallelism=2).shuffle_grouping("spout")
    builder.set_committer_bolt("stateful", Stateful()).shuffle_grouping("spout")
    builder.set_committer_bolt("both", Commit()).shuffle_grouping("spout")
    bolts = builder.build_topology().bolts
    committers = {id for id, spec in bolts.items() if spec.is_committer}
    assert committers == {"marked", "marked-stateful", "added", "stateful", "both"}
    assert bolts["added"].parallelism == 2


def test_every_grouping_can_be_declared(builder: TransactionalTopologyBuilder) -> None:
    builder.set_bolt("batch", Batch()).shuffle_grouping("spout")
    custom = Evenly()
    declared: dict[Grouping, tuple[str, tuple[Any, ...]]] = {
        Grouping("shuffle"): ("default", ()),
        Grouping("fields", ("count",)): ("default", ("count",)),
        Grouping("partial_key", ("count",)): ("default", ("count",)),
        Grouping("all"): ("default", ()),
        Grouping("global"): ("default", ()),
        Grouping("none"): ("default", ()),
        Grouping("local_or_shuffle"): ("default", ()),
        Grouping("direct"): ("to-task", ()),
        Grouping("custom", custom=custom): ("default", (custom,)),
    }
    for grouping, (stream, arguments) in declared.items():
        declarer = builder.set_committer_bolt(grouping.name, Batch())
        getattr(declarer, f"{grouping.name}_grouping")("batch", *arguments, stream=stream)
    bolts = builder.build_topology().bolts
    assert [bolts[grouping.name].inputs[0].grouping for grouping in declared] == list(declared)


def test_description_shows_the_committers_and_what_finishes_in_the_commit_phase(
    builder: TransactionalTopologyBuilder,
) -> None:
    assert global_count(builder).describe() == (
        "topology global-count, transactional, without state\n"
        "  driver: the coordinator of spout begins the batches, which commit in their order\n"
        "  level 0\n"
        "    spout x3 (MemoryTransactionalSpout) emits default(tx, word)\n"
        "  level 1\n"
        "    partial x5 (Batch) takes default of spout by shuffle, "
        "emits default(tx, count), to-task(tx, word) direct\n"
        "  level 2\n"
        "    sum x1 (Commit, committer) takes default of partial by global, emits default(tx, sum)\n"
        "  level 3\n"
        "    below x1 (Batch, finishes in the commit phase) takes default of sum by shuffle, "
        "emits default(tx, count), to-task(tx, word) direct"
    )


def test_a_topology_does_not_change_with_its_builder(builder: TransactionalTopologyBuilder) -> None:
    first = global_count(builder)
    builder.set_bolt("more", Basic()).shuffle_grouping("spout")
    assert "more" not in first.components
    assert "more" in builder.build_topology().components
