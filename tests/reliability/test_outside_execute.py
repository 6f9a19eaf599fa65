"""What rich bolts do outside `execute`, groupings of the user's, and topologies whose tuples are not tracked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import BaseBasicBolt, FailedException
from anchorbolt.errors import BoltError
from anchorbolt.streams import CustomStreamGrouping
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import finished
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, Count, QueueSpout, RichBolt

SEEN: list[tuple[Any, ...]] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    SEEN.clear()


class Bulk(Count):
    """Collects the words of a wave; at its end it counts and acks them, but fails the word `bad`."""

    def init_state(self, state: Any) -> None:
        super().init_state(state)
        self.waiting: list[Any] = []

    def execute(self, tup: Any) -> None:
        self.waiting.append(tup)

    def pre_prepare(self, txid: int) -> None:
        waiting, self.waiting = self.waiting, []
        for tup in waiting:
            if tup["word"] == "bad":
                self.collector.fail(tup)
            else:
                super().execute(tup)


class ByLastValue(CustomStreamGrouping):
    def prepare(self, context: Any, stream: Any, target_tasks: Sequence[int]) -> None:
        self.tasks = target_tasks

    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        SEEN.append(tuple(values))
        return [self.tasks[len(values[-1]) % len(self.tasks)]]


class FailsAll(RichBolt):
    def execute(self, tup: Any) -> None:
        raise FailedException("no")


class BasicFailsAll(BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        raise FailedException("no")


def one_bolt(bolt: Any, grouping: CustomStreamGrouping | None = None) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("in", QueueSpout("word", replay=False))
    if grouping is None:
        builder.set_bolt("bolt", bolt).shuffle_grouping("in")
    else:
        builder.set_bolt("bolt", bolt, parallelism=3).custom_grouping("in", grouping)
    return builder.create_topology("outside")


def test_what_a_bolt_acks_and_fails_in_pre_prepare_counts() -> None:
    MESSAGES.extend((number, (word,)) for number, word in enumerate(["good", "bad", "good"]))
    handle = finished(one_bolt(Bulk()))
    assert (sorted(ACKED), FAILED) == ([0, 2], [1])
    assert handle.state("bolt") == {"good": 2}


def test_a_grouping_of_the_users_gets_the_values_and_nothing_else() -> None:
    MESSAGES.extend((number, (word,)) for number, word in enumerate(["a", "bb", "a", "bb"]))
    handle = finished(one_bolt(Count(), ByLastValue()))
    assert sorted(SEEN) == [("a",), ("a",), ("bb",), ("bb",)]
    assert sorted(ACKED) == [0, 1, 2, 3]
    assert sorted(handle.state_items("bolt")) == [("a", 2), ("bb", 2)]


@pytest.mark.parametrize("bolt", [FailsAll(), BasicFailsAll()])
def test_without_ackers_a_failed_tuple_has_no_effect(bolt: Any) -> None:
    MESSAGES.extend((number, ("a",)) for number in range(2))
    finished(one_bolt(bolt), {"topology.acker.executors": 0})
    assert (sorted(ACKED), FAILED) == ([0, 1], [])


def test_without_ackers_a_failed_tuple_fails_the_wave_if_there_are_other_spouts() -> None:
    MESSAGES.append((0, ("a",)))
    builder = TopologyBuilder()
    builder.set_spout("in", QueueSpout("word"))
    builder.set_spout("lines", FeederSpout(["word"]))
    builder.set_bolt("bolt", FailsAll()).shuffle_grouping("in").shuffle_grouping("lines")
    conf = {"topology.acker.executors": 0, "topology.max.batch.retries": 0}
    with pytest.raises(BoltError) as raised:
        finished(builder.create_topology("outside"), conf)
    assert raised.value.component == "bolt"
    assert (ACKED, FAILED) == ([], [])


class RaisesOnce(RichBolt):
    def execute(self, tup: Any) -> None:
        if tup["word"] == ["bad"]:
            raise ValueError("bad")


def test_without_ackers_the_tuple_on_which_a_bolt_raises_becomes_a_dead_letter(tmp_path: Path) -> None:
    MESSAGES.extend((number, (word,)) for number, word in enumerate([["good"], ["bad"]]))
    conf = {
        "topology.acker.executors": 0,
        "topology.dead.letter": str(tmp_path / "dead"),
        "topology.max.tuple.retries": 0,
    }
    finished(one_bolt(RaisesOnce()), conf)
    assert sorted(ACKED) == [0, 1]
    assert len(list((tmp_path / "dead").glob("*.jsonl"))) == 1
