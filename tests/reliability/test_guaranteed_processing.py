"""The examples of Storm's page on guaranteed message processing, on both engines."""

import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import FailedException
from anchorbolt.engine import RunHandle, SparkCluster
from anchorbolt.errors import BoltError
from anchorbolt.testing import FeederSpout, LocalCluster, ManualClock, TupleCapture
from anchorbolt.topology import TopologyBuilder
from anchorbolt.tracking.settlements import FailedTree
from tests.engine.jobs import BasicBolt, chain, finished, kept_in
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, AllAtOnce, Count, Pairs, QueueSpout, RichBolt, note, noted

Run = Callable[..., RunHandle]


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "notes").mkdir()
    return {**kept_in(tmp_path), "notes": str(tmp_path / "notes"), "topology.state.checkpoint.interval.ms": 100}


@pytest.fixture(params=["local", pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
def run(request: pytest.FixtureRequest, conf: dict[str, Any]) -> Iterator[Run]:
    """Runs a topology until its spouts are empty and nothing is in flight."""

    def until_empty(builder: TopologyBuilder, on_wave: Any = None, **given: Any) -> RunHandle:
        cluster: Any = LocalCluster() if request.param == "local" else SparkCluster(request.getfixturevalue("spark"))
        submitted = {**conf, **{f"topology.{name.replace('_', '.')}": value for name, value in given.items()}}
        handle: RunHandle = cluster.submit(
            builder.create_topology("guaranteed"), submitted, until_empty=True, on_wave=on_wave
        )
        assert handle.await_termination(120)
        return handle

    return until_empty


class Split(RichBolt):
    """Anchors each word to its sentence, then acks the sentence."""

    fields = ("word",)

    def execute(self, tup: Any) -> None:
        for word in tup["sentence"].split():
            self.collector.emit((word,), anchors=tup)
        self.collector.ack(tup)


class SplitUnanchored(Split):
    def execute(self, tup: Any) -> None:
        for word in tup["sentence"].split():
            self.collector.emit((word,))
        self.collector.ack(tup)


class SplitBasic(BasicBolt):
    """Anchors and acks by itself, and fails the first sentence with "bad"."""

    fields = ("word",)

    def prepare(self, conf: Any, context: Any) -> None:
        self.conf = conf

    def execute(self, tup: Any, collector: Any) -> None:
        for word in tup["sentence"].split():
            if word == "bad" and note(self.conf, "bad") == 0:
                raise FailedException("bad")
            collector.emit((word,))


class FailsOnce(RichBolt):
    """Fails the word "bad" the first time that it comes, and acks all others."""

    def execute(self, tup: Any) -> None:
        note(self.conf, "executed")
        if tup["word"] == "bad" and note(self.conf, "bad") == 0:
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


class Forgets(RichBolt):
    """Does not ack the first tuple."""

    def execute(self, tup: Any) -> None:
        if note(self.conf, "executed"):
            self.collector.ack(tup)


class Misuses(Split):
    def __init__(self, misuse: Any) -> None:
        self.misuse = misuse

    def execute(self, tup: Any) -> None:
        self.misuse(self.collector, tup)


def test_split_and_anchor(run: Run) -> None:
    MESSAGES.extend([(1, ("to be",)), (2, ("or not to be",))])
    builder = TopologyBuilder()
    builder.set_spout("sentences", QueueSpout("sentence"))
    builder.set_bolt("split", Split(), parallelism=2).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(), parallelism=2).fields_grouping("split", "word")
    assert run(builder).state("count") == {"to": 2, "be": 2, "or": 1, "not": 1}
    assert sorted(ACKED) == [1, 2]
    assert FAILED == []


def test_a_tuple_that_is_anchored_to_two_messages_fails_both(run: Run) -> None:
    MESSAGES.extend([(1, ("bad", 1)), (2, ("good", 1)), (3, ("bad", 2)), (4, ("good", 2))])
    builder = TopologyBuilder()
    builder.set_spout("in", QueueSpout("id", "value"))
    builder.set_bolt("pairs", Pairs()).fields_grouping("in", "id")
    builder.set_bolt("fails", FailsOnce()).global_grouping("pairs")
    run(builder, fail_policy="commit")
    assert sorted(FAILED) == [1, 3]
    assert sorted(ACKED) == [1, 2, 3, 4]


@pytest.mark.parametrize("policy", ["exclude", "commit"])
def test_a_failed_tuple_fails_its_message_which_is_replayed(run: Run, policy: str) -> None:
    MESSAGES.extend([(1, ("good bad",)), (2, ("good",))])
    builder = TopologyBuilder()
    builder.set_spout("sentences", QueueSpout("sentence"))
    builder.set_bolt("split", Split()).shuffle_grouping("sentences")
    builder.set_bolt("fails", FailsOnce()).shuffle_grouping("split")
    builder.set_bolt("count", Count()).fields_grouping("split", "word")
    handle = run(builder, fail_policy=policy)
    assert FAILED == [1]
    assert sorted(ACKED) == [1, 2]
    # Storm's policy leaves in the state what the failed tree did there; ours does not.
    assert handle.state("count") == ({"good": 2, "bad": 1} if policy == "exclude" else {"good": 3, "bad": 2})


def test_a_basic_bolt_anchors_and_acks_by_itself_and_fails_by_an_exception(run: Run) -> None:
    MESSAGES.extend([(1, ("a bad b",)), (2, ("c d",))])
    builder = TopologyBuilder()
    builder.set_spout("sentences", QueueSpout("sentence"))
    builder.set_bolt("split", SplitBasic()).shuffle_grouping("sentences")
    builder.set_bolt("count", Count()).fields_grouping("split", "word")
    assert run(builder).state("count") == dict.fromkeys(["a", "bad", "b", "c", "d"], 1)
    assert (sorted(ACKED), FAILED) == ([1, 2], [1])


def test_a_join_acks_in_a_later_wave(run: Run) -> None:
    captured = TupleCapture()
    builder = TopologyBuilder()
    builder.set_spout("in", QueueSpout("id", "value"))
    builder.set_bolt("pairs", Pairs(), parallelism=2).fields_grouping("in", "id")
    builder.set_bolt("out", captured).global_grouping("pairs")
    MESSAGES.extend([(1, ("a", 1)), (2, ("b", 10))])

    def second_half(report: Any) -> None:
        if report.txid == 0:
            assert ACKED == []
            MESSAGES.append((3, ("b", 20)))
        elif report.txid == 1:
            MESSAGES.append((4, ("a", 2)))

    assert len(run(builder, second_half).reports) >= 3
    assert sorted(captured.tuples) == [("a", 3), ("b", 30)]
    assert sorted(ACKED) == [1, 2, 3, 4]
    assert FAILED == []


def test_a_tuple_that_is_never_acked_times_out_and_is_replayed(run: Run, conf: Mapping[str, Any]) -> None:
    builder = TopologyBuilder()
    builder.set_spout("in", QueueSpout("word"))
    builder.set_bolt("forgets", Forgets()).shuffle_grouping("in")
    MESSAGES.append((1, ("a",)))
    run(builder, message_timeout_secs=1)
    assert (ACKED, FAILED) == ([1], [1])
    assert noted(conf, "executed") == 2


def test_reports_count_what_is_acked_and_failed(run: Run) -> None:
    MESSAGES.extend([(1, ("a bad b",)), (2, ("c d",)), (3, ("e",))])
    builder = TopologyBuilder()
    builder.set_spout("sentences", QueueSpout("sentence"))
    builder.set_bolt("split", SplitBasic()).shuffle_grouping("sentences")
    reports = run(builder).reports
    assert sum(report.messages_acked.get("sentences", 0) for report in reports) == 3
    assert sum(report.messages_failed.get("sentences", 0) for report in reports) == 1
    [failure] = [failure for report in reports for failure in report.failures]
    assert failure == FailedTree("sentences", 1, "split", 0, "FailedException: bad")
    assert pickle.loads(pickle.dumps(reports)) == reports  # noqa: S301 - made here


def test_a_tuple_without_a_message_id_is_not_tracked(run: Run, conf: Mapping[str, Any]) -> None:
    MESSAGES.extend([(1, ("a b",)), (2, ("bad",))])
    builder = TopologyBuilder()
    builder.set_spout("sentences", QueueSpout("sentence", tracked=False))
    builder.set_bolt("split", Split()).shuffle_grouping("sentences")
    builder.set_bolt("fails", FailsOnce()).shuffle_grouping("split")
    run(builder)
    assert (ACKED, FAILED) == ([], [])
    assert noted(conf, "executed") == 3


def test_an_unanchored_tuple_fails_nothing(run: Run, conf: Mapping[str, Any]) -> None:
    MESSAGES.append((1, ("a bad",)))
    builder = TopologyBuilder()
    builder.set_spout("sentences", QueueSpout("sentence"))
    builder.set_bolt("split", SplitUnanchored()).shuffle_grouping("sentences")
    builder.set_bolt("fails", FailsOnce()).shuffle_grouping("split")
    run(builder)
    assert (ACKED, FAILED) == ([1], [])
    assert noted(conf, "bad") == 1


class FailsEarlier(Pairs):
    """Fails the first tuple of an id by its handle when the second comes, which it acks like all others."""

    def execute(self, tup: Any) -> None:
        waiting = self.state.get(tup["id"])
        if waiting is None:
            self.state.put(tup["id"], (tup.handle, tup["value"]))
        else:
            self.collector.fail(waiting[0])
            self.collector.ack(tup)


def test_a_tuple_of_an_earlier_wave_is_failed_by_its_handle(conf: Mapping[str, Any]) -> None:
    MESSAGES.append((1, ("a", 1)))

    def second_half(report: Any) -> None:
        if report.txid == 0:
            MESSAGES.append((2, ("a", 2)))

    topology = chain("earlier", {"in": QueueSpout("id", "value", replay=False), "fails": (FailsEarlier(), "id")})
    clock = ManualClock()  # so that nothing times out
    finished(topology, conf, on_wave=second_half, cluster=LocalCluster(clock=clock))
    assert (ACKED, FAILED) == ([2], [1])


class JoinInAttributes(RichBolt):
    fields = ("word",)

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        super().prepare(conf, context, collector)
        self.waiting: dict[Any, Any] = {}

    def execute(self, tup: Any) -> None:
        other = self.waiting.pop(tup["id"], None)
        if other is None:
            self.waiting[tup["id"]] = tup
            return
        self.collector.emit((f"{other['value']}{tup['value']}",), anchors=[other, tup])
        self.collector.ack(other)
        self.collector.ack(tup)


def test_after_a_round_that_was_rolled_back_no_attribute_holds_a_tuple_of_it(conf: Mapping[str, Any]) -> None:
    MESSAGES.extend([(1, ("x", "a")), (2, ("bad", "b")), (3, ("bad", "ad")), (4, ("x", "c"))])
    builder = TopologyBuilder()
    builder.set_spout("in", AllAtOnce("id", "value"))
    builder.set_bolt("join", JoinInAttributes()).global_grouping("in")
    builder.set_bolt("fails", FailsOnce()).global_grouping("join")
    builder.set_bolt("count", Count()).fields_grouping("join", "word")
    topology = builder.create_topology("attributes")
    handle = finished(topology, conf, cluster=LocalCluster(clock=ManualClock()))
    assert handle.state("count") == {"ac": 1, "bad": 1}
    assert sorted(ACKED) == [1, 2, 3, 4]
    assert sorted(FAILED) == [2, 3]


def test_a_bolt_that_acks_late_runs_without_trees_too(conf: Mapping[str, Any]) -> None:
    handle = finished(
        chain(
            "feeder",
            {
                "in": FeederSpout(["id", "value"], [[("a", 1), ("b", 2)], [("a", 3)]]),
                "pairs": (Pairs(), "id"),
                "count": (Count(), "word"),
            },
        ),
        conf,
    )
    assert handle.state("count") == {"a": 1}


def twice(collector: Any, tup: Any) -> None:
    collector.ack(tup)
    collector.ack(tup)


def ack_and_fail(collector: Any, tup: Any) -> None:
    collector.ack(tup)
    collector.fail(tup)


def emit_late(collector: Any, tup: Any) -> None:
    collector.ack(tup)
    collector.emit(("a",), anchors=tup)


def no_tuple(collector: Any, tup: Any) -> None:
    collector.ack("a")


def no_handle(collector: Any, tup: Any) -> None:
    collector.ack(b"a")


def foreign_handle(collector: Any, tup: Any) -> None:
    handle = bytearray(tup.handle)
    handle[1] ^= 1  # the index of the task that received the tuple
    collector.ack(bytes(handle))


@pytest.mark.parametrize("misuse", [twice, ack_and_fail, emit_late, no_tuple, no_handle, foreign_handle])
def test_a_wrong_use_of_the_collector_is_refused(misuse: Any, conf: Mapping[str, Any]) -> None:
    MESSAGES.append((1, ("a",)))
    topology = chain("misuse", {"in": QueueSpout("word"), "misuses": Misuses(misuse), "next": FailsOnce()})
    with pytest.raises(BoltError) as raised:
        finished(topology, {**conf, "topology.max.batch.retries": 0})
    assert raised.value.component == "misuses"
    assert "TopologyError" in raised.value.user_traceback
