"""Components and graphs that a builder refuses: the error names the component, and says what to do."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from anchorbolt.bolts import BaseRichBolt, DataFrameSink
from anchorbolt.bolts.base import Bolt
from anchorbolt.errors import TopologyError
from anchorbolt.spouts import GeneratorSpout, Spout
from anchorbolt.spouts.transactional import BatchSpout
from anchorbolt.streams import OutputFieldsDeclarer
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.transactional import BaseBatchBolt, Committer, MemoryTransactionalSpout, TransactionalTopologyBuilder
from anchorbolt.windows import IntervalJoin, RollingCount, TopN, Tumbling
from tests.transactional.building.test_builder import Basic, Batch, Commit, Evenly, Stateful, StatefulCommit, output
from tests.transactional.conftest import words


def refused(action: Callable[[], object], component: str | None, hint: str = "") -> None:
    with pytest.raises(TopologyError) as caught:
        action()
    assert caught.value.component == component
    assert component is None or repr(component) in caught.value.message
    assert hint in caught.value.message
    assert caught.value.message.endswith(".")


class Rich(BaseRichBolt):
    def execute(self, tup: Any) -> None:
        raise NotImplementedError


class Own(Bolt):
    pass


class MarkedBasic(Basic, Committer):
    pass


class MarkedRich(Rich, Committer):
    pass


class MarkedSink(DataFrameSink, Committer):
    pass


class Both(StatefulCommit, BaseBatchBolt):  # type: ignore[misc]
    pass


class WithoutId(Batch):
    def prepare(self, conf: Any, context: Any, collector: Any) -> None:  # type: ignore[override]
        raise NotImplementedError


class WithId(StatefulCommit):
    def prepare(self, conf: Any, context: Any, collector: Any, id: Any) -> None:  # type: ignore[override]
        raise NotImplementedError


class BasicWithCollector(Basic):
    def prepare(self, conf: Any, context: Any, collector: Any) -> None:  # type: ignore[override]
        raise NotImplementedError


WRONG_BOLTS: dict[str, tuple[str, Any, str]] = {
    "a rich bolt": ("set_bolt", Rich(), "BaseBasicBolt or BaseArrowBolt"),
    "a rich committer": ("set_committer_bolt", Rich(), "BaseBasicBolt or BaseArrowBolt"),
    "a marked rich bolt": ("set_bolt", MarkedRich(), "BaseBasicBolt or BaseArrowBolt"),
    "a bolt of no kind": ("set_bolt", Own(), "BaseBasicBolt or BaseArrowBolt"),
    "a stateful bolt": ("set_bolt", Stateful(), "set_committer_bolt"),
    "a basic committer": ("set_committer_bolt", Basic(), "has no finish_batch"),
    "a marked basic bolt": ("set_bolt", MarkedBasic(), "has no finish_batch"),
    "a sink as committer": ("set_committer_bolt", DataFrameSink(output), "has no finish_batch"),
    "a marked sink": ("set_bolt", MarkedSink(output), "has no finish_batch"),
    "a batch bolt with state": ("set_bolt", Both(), "BaseBatchBolt and BaseStatefulBolt"),
    "a batch bolt's prepare": ("set_bolt", WithoutId(), "gets (conf, context, collector, id)"),
    "a committer's prepare": ("set_committer_bolt", WithoutId(), "gets (conf, context, collector, id)"),
    "a stateful committer's prepare": ("set_bolt", WithId(), "it gets no id"),
    "a stateful prepare": ("set_committer_bolt", WithId(), "gets (conf, context, collector)."),
    "a basic bolt's prepare": ("set_bolt", BasicWithCollector(), "gets (conf, context)."),
    "a join of two batches": ("set_committer_bolt", IntervalJoin("a", "id", "b", "id", "at"), "TopologyBuilder"),
    "a bolt's class": ("set_bolt", Batch, "Pass Batch(), not Batch."),
    "a spout": ("set_committer_bolt", words(), "Add it with set_spout"),
}


@pytest.mark.parametrize(("method", "bolt", "hint"), WRONG_BOLTS.values(), ids=WRONG_BOLTS)
def test_a_bolt_that_cannot_take_part_in_transactions(
    builder: TransactionalTopologyBuilder, method: str, bolt: Any, hint: str
) -> None:
    refused(lambda: getattr(builder, method)("out", bolt), "out", hint)
    builder.set_bolt("out", Batch()).shuffle_grouping("spout")
    assert list(builder.build_topology().bolts) == ["out"]


def test_a_prepare_may_have_its_own_names_and_defaults(builder: TransactionalTopologyBuilder) -> None:
    class Renamed(Batch):
        def prepare(self, *everything: Any) -> None:
            raise NotImplementedError

    class Longer(StatefulCommit):
        def prepare(self, conf: Any, context: Any, collector: Any, more: Any = None) -> None:
            raise NotImplementedError

    builder.set_bolt("renamed", Renamed()).shuffle_grouping("spout")
    builder.set_bolt("longer", Longer()).shuffle_grouping("spout")
    assert set(builder.build_topology().bolts) == {"renamed", "longer"}


class Bare(BatchSpout):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("tx")


@pytest.mark.parametrize(
    ("spout", "hint"),
    [
        (FeederSpout(["word"]), "belongs in a TopologyBuilder"),
        (GeneratorSpout(["word"], lambda number: (number,)), "belongs in a TopologyBuilder"),
        (Bare(), "PartitionedTransactionalSpout"),
        (MemoryTransactionalSpout, "Pass MemoryTransactionalSpout()"),
        (Batch(), "is a bolt"),
        ("text", "not a spout"),
    ],
    ids=["feeder", "rich", "bare", "class", "bolt", "text"],
)
def test_a_spout_that_emits_no_batches(spout: Any, hint: str) -> None:
    refused(lambda: TransactionalTopologyBuilder("t", "in", spout), "in", hint)


def test_ids_and_numbers_of_tasks_that_no_topology_takes(builder: TransactionalTopologyBuilder) -> None:
    refused(lambda: TransactionalTopologyBuilder("$t", "spout", words()), "$t", "reserved")
    refused(lambda: TransactionalTopologyBuilder("t", "a b", words()), "a b", "valid")
    refused(lambda: TransactionalTopologyBuilder("t", "spout", words(), parallelism=0), "spout", "at least 1")
    refused(lambda: builder.set_bolt("spout", Batch()), "spout", "taken by a spout")
    refused(lambda: builder.set_committer_bolt("out", Batch(), parallelism=0), "out", "at least 1")
    builder.set_bolt("out", Batch())
    refused(lambda: builder.set_committer_bolt("out", Batch()), "out", "taken by a bolt")


class Declares:
    """Declares the default stream without a field."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare()


class BatchWithoutField(Declares, Batch):
    pass


class SpoutWithoutField(Declares, MemoryTransactionalSpout):
    pass


class Counts(RollingCount):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("tx", "key", "count", "at")


class BatchWithNamedStream(Batch):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("tx")
        declarer.declare_stream("empty", direct=True)


class SinkWithStream(Declares, DataFrameSink):
    pass


@pytest.mark.parametrize(("bolt", "stream"), [(BatchWithoutField(), "default"), (BatchWithNamedStream(), "empty")])
def test_a_stream_of_a_bolt_without_a_field_for_the_attempt(
    builder: TransactionalTopologyBuilder, bolt: Bolt, stream: str
) -> None:
    builder.set_bolt("out", bolt).shuffle_grouping("spout")
    refused(builder.build_topology, "out", f"stream {stream!r} has no field")


@pytest.mark.parametrize("bolt", [RollingCount(Tumbling("1 s")), TopN(3, Tumbling("1 s"))])
def test_a_ready_made_bolt_must_be_given_a_field_for_the_attempt(
    builder: TransactionalTopologyBuilder, bolt: Bolt
) -> None:
    counts = builder.set_committer_bolt("counts", Counts(Tumbling("1 s")))
    counts.fields_grouping("spout", "word")
    builder.set_committer_bolt("out", bolt).fields_grouping("counts", "key")
    refused(builder.build_topology, "out", "override declare_output_fields")


def test_a_stream_of_the_spout_without_a_field_for_the_attempt() -> None:
    builder = TransactionalTopologyBuilder("t", "in", SpoutWithoutField({0: []}, ["word"], 1))
    builder.set_bolt("out", Batch()).shuffle_grouping("in")
    refused(builder.build_topology, "in", "stream 'default' has no field")


def test_a_sink_emits_nothing_so_its_streams_need_no_field(builder: TransactionalTopologyBuilder) -> None:
    builder.set_bolt("out", SinkWithStream(output)).shuffle_grouping("spout")
    assert builder.build_topology().bolts["out"].is_sink


def test_tick_tuples(builder: TransactionalTopologyBuilder) -> None:
    class Ticking(Batch):
        def get_component_configuration(self) -> Mapping[str, Any]:
            return {"topology.tick.tuple.freq.secs": 5}

    builder.set_bolt("out", Ticking()).shuffle_grouping("spout")
    refused(builder.build_topology, "out", "topology.tick.tuple.freq.secs")


def test_graphs_that_no_topology_may_have(builder: TransactionalTopologyBuilder) -> None:
    refused(builder.build_topology, None, "no bolt")
    declarer = builder.set_bolt("out", Batch())
    refused(builder.build_topology, "out", "takes no stream")
    declarer.fields_grouping("spout", "wrod")
    refused(builder.build_topology, "out", "Did you mean 'word'?")


LOCK = threading.Lock()


def with_a_lock(component: Any) -> Any:
    component.lock = LOCK
    return component


def test_a_spout_that_cannot_be_pickled() -> None:
    builder = TransactionalTopologyBuilder("t", "in", with_a_lock(words()))
    builder.set_bolt("out", Batch()).shuffle_grouping("in")
    refused(builder.build_topology, "in", "Open it in emitter or coordinator")


def test_a_bolt_or_a_grouping_that_cannot_be_pickled(builder: TransactionalTopologyBuilder) -> None:
    builder.set_bolt("out", Batch()).custom_grouping("spout", with_a_lock(Evenly()))
    refused(builder.build_topology, "out", "Evenly.lock")
    builder = TransactionalTopologyBuilder("t", "spout", words())
    builder.set_committer_bolt("out", with_a_lock(Batch())).shuffle_grouping("spout")
    refused(builder.build_topology, "out", "out.lock")


ORDINARY: dict[str, tuple[str, Spout | Bolt]] = {
    "a batch spout": ("set_spout", words()),
    "a batch bolt": ("set_bolt", Batch()),
    "a committer": ("set_bolt", Commit()),
    "a stateful committer": ("set_bolt", StatefulCommit()),
}


@pytest.mark.parametrize(("method", "component"), ORDINARY.values(), ids=ORDINARY)
def test_an_ordinary_topology_takes_no_part_of_a_transactional_one(method: str, component: Spout | Bolt) -> None:
    refused(
        lambda: getattr(TopologyBuilder(), method)("x", component), "x", "belongs in a TransactionalTopologyBuilder"
    )
