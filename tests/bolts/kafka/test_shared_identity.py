"""Two sinks of a topology that would fence each other off are refused before the run. Without Kafka."""

from typing import Any

import pytest

from anchorbolt.bolts import KafkaSink
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.topology import Topology, TopologyBuilder


def sink(servers: Any = "kafka-1:9092", transactional_id: str | None = None) -> KafkaSink:
    return KafkaSink(servers, "out", transactional_id=transactional_id)


def topology(left: KafkaSink, right: KafkaSink) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["value"], []))
    builder.set_bolt("left", left).shuffle_grouping("spout")
    builder.set_bolt("right", right).shuffle_grouping("spout")
    return builder.create_topology("t")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (sink(transactional_id="same"), sink(transactional_id="same")),
        (sink(transactional_id="t:right"), sink()),
        (sink("kafka-1:9092, KAFKA-2:9092", "same"), sink(["kafka-2:9092"], "same")),
    ],
    ids=["explicit", "default", "servers"],
)
def test_two_sinks_with_one_transactional_id_are_refused_by_name(left: KafkaSink, right: KafkaSink) -> None:
    with pytest.raises(TopologyError) as refused:
        topology(left, right)
    assert refused.value.component == "right"
    assert "'left'" in refused.value.message


def test_one_sink_with_a_transactional_id_cannot_be_two_bolts() -> None:
    shared = sink(transactional_id="same")
    with pytest.raises(TopologyError) as refused:
        topology(shared, shared)
    assert refused.value.component == "right"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (sink(), sink()),
        (sink(transactional_id="one"), sink(transactional_id="two")),
        (sink("test:9092", "same"), sink("production:9092", "same")),
    ],
    ids=["default", "different", "two Kafkas"],
)
def test_two_sinks_that_do_not_share_a_transactional_id_are_taken(left: KafkaSink, right: KafkaSink) -> None:
    assert list(topology(left, right).bolts) == ["left", "right"]
