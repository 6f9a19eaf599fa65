"""Rich spouts that a run leaves out, and ackers that it does without: what belongs to them is not forgotten."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from anchorbolt.errors import TopologyError
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.testing import FeederSpout, LocalCluster
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import Fields, StatefulBolt, finished
from tests.reliability.jobs import told, wait_for

CONF = {
    "topology.state.checkpoint.interval.ms": 100,
    "topology.message.timeout.secs": 1,  # so long a stop waits for what is in flight
    "topology.enable.message.timeouts": False,
}


class Source:
    """What the sources of all spouts hold, by spout, and what the spouts were told."""

    def __init__(self, **messages: Iterable[Any]) -> None:
        self.messages = {name: list(each) for name, each in messages.items()}
        self.told: list[tuple[str, str, Any]] = []
        self.takes_acks = True


SOURCES: list[Source] = []


@pytest.fixture
def source() -> Source:
    SOURCES[:] = [Source(first=["keep", "a"], second=["b"], third=["c"])]
    return SOURCES[0]


class Delivering(Fields, BaseRichSpout):
    """Emits each message of its source once a run; the source keeps it until it is acked."""

    fields = ("word",)

    def __init__(self, name: str, *, is_stable: bool = True) -> None:
        self.name, self.stable_message_ids = name, is_stable

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector
        self.waiting = list(SOURCES[0].messages[self.name])

    def next_tuple(self) -> None:
        if self.waiting:
            message = self.waiting.pop(0)
            self.collector.emit((message,), message)

    def ack(self, msg_id: Any) -> None:
        if not SOURCES[0].takes_acks:
            raise OSError("the source is away")
        SOURCES[0].messages[self.name].remove(msg_id)
        told(SOURCES[0].told, (self.name, "ack", msg_id))

    def fail(self, msg_id: Any) -> None:
        told(SOURCES[0].told, (self.name, "fail", msg_id))


class Keeping(StatefulBolt):
    """Counts words. Keeps the handle of the tuple 'keep', and acks it with the tuple 'release'."""

    def execute(self, tup: Any) -> None:
        word = tup["word"]
        self.state.put(word, self.state.get(word, 0) + 1)
        if word == "keep":
            self.state.put("handle", tup.handle)
            return
        if word == "release":
            self.collector.ack(self.state.get("handle"))
        self.collector.ack(tup)


def topology(*spouts: str, unstable: str = "") -> Topology:
    """Return a topology of these spouts; one of feeders only without any."""
    builder = TopologyBuilder()
    for name in spouts:
        builder.set_spout(name, Delivering(name, is_stable=name != unstable))
    if not spouts:
        builder.set_spout("feeder", FeederSpout(["word"], [[("x",)]]))
    bolt = builder.set_bolt("count", Keeping())
    for name in spouts or ("feeder",):
        bolt.global_grouping(name)
    return builder.create_topology("left-out")


def ran(cluster: LocalCluster, *spouts: str, unstable: str = "", conf: Mapping[str, Any] = CONF) -> dict[Any, Any]:
    """Run until the sources have only 'keep'; return the counts."""
    handle = cluster.submit(topology(*spouts, unstable=unstable), conf, until_empty=not spouts)
    wait_for(lambda: all(set(SOURCES[0].messages[name]) <= {"keep"} for name in spouts))
    handle.stop()
    handle.await_termination(30)
    return {word: count for word, count in handle.state("count").items() if word != "handle"}


def test_a_message_that_is_in_flight_counts_once_if_its_spout_was_left_out_for_some_runs(source: Source) -> None:
    cluster = LocalCluster()
    assert ran(cluster, "first", "second") == {"keep": 1, "a": 1, "b": 1}
    ran(cluster, "third", "second")  # the task of 'third' has the id that 'first' had
    source.messages["second"].append("more")
    ran(cluster, "second")
    assert ran(cluster, "second", "first") == {"keep": 1, "a": 1, "b": 1, "c": 1, "more": 1}


def test_the_message_of_an_absent_spout_that_a_bolt_acks_meanwhile_is_acked_when_it_is_back(source: Source) -> None:
    cluster = LocalCluster()
    ran(cluster, "first", "second")
    source.messages["second"].append("release")
    ran(cluster, "second")
    assert ("first", "ack", "keep") not in source.told
    assert ran(cluster, "second", "first")["keep"] == 1
    assert ("first", "ack", "keep") in source.told
    assert source.messages == {"first": [], "second": [], "third": ["c"]}


@pytest.mark.parametrize("between", [("second",), ()], ids=["another spout", "no rich spout"])
def test_acks_that_the_source_does_not_know_outlive_runs_without_the_spout(
    source: Source, between: tuple[str, ...]
) -> None:
    source.messages["first"] = ["a"]
    cluster = LocalCluster()
    source.takes_acks = False
    with pytest.raises(Exception, match="the source is away"):
        finished(topology("first"), CONF, cluster=cluster)
    source.takes_acks = True
    counts = ran(cluster, *between)
    assert counts.pop("a") == 1
    source.messages["second"].append("more")
    assert ran(cluster, "first", "second")["a"] == 1
    assert ("first", "ack", "a") in source.told


def test_a_run_without_ackers_is_refused_while_messages_are_in_flight(source: Source) -> None:
    cluster = LocalCluster()
    ran(cluster, "first", "second")
    for made, conf in ((topology("first"), {**CONF, "topology.acker.executors": 0}), (topology(), CONF)):
        with pytest.raises(TopologyError) as refused:
            cluster.submit(made, conf)
        assert refused.value.component == "first"
    assert ran(cluster, conf={**CONF, "topology.state.accept.loss": True})["x"] == 1
    source.messages["second"].append("release")
    assert ran(cluster, "second", "first")["keep"] == 1
    assert ran(cluster, "first", conf={**CONF, "topology.acker.executors": 0})["keep"] == 1


def test_a_run_without_ackers_may_leave_the_trees_of_a_spout_without_stable_ids(source: Source) -> None:
    cluster = LocalCluster()
    ran(cluster, "first", unstable="first")
    assert ran(cluster, "first", unstable="first", conf={**CONF, "topology.acker.executors": 0})["keep"] == 2
