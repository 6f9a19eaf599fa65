"""Messages that a source delivers again after a crash: counted once, and acked."""

from collections import deque
from typing import Any

import pytest

from anchorbolt.errors import SpoutError
from anchorbolt.testing import LocalCluster, ManualClock
from anchorbolt.topology import Topology, TopologyBuilder
from tests.reliability import jobs
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, Count, Pairs, QueueSpout


@pytest.fixture(autouse=True)
def _forget() -> None:
    jobs.forget()


class Forgetful(QueueSpout):
    """Dies before it tells its source of any ack."""

    def ack(self, msg_id: Any) -> None:
        raise ConnectionError("the source is gone")


class Unstable(Forgetful):
    stable_message_ids = False


def counting(spout: QueueSpout) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("in", spout)
    builder.set_bolt("count", Count()).fields_grouping("in", "word")
    return builder.create_topology("redelivery")


def joining() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("in", QueueSpout("id", "value"))
    builder.set_bolt("pairs", Pairs(), parallelism=2).fields_grouping("in", "id")
    builder.set_bolt("count", Count()).fields_grouping("pairs", "word")
    return builder.create_topology("joining")


def restart(cluster: LocalCluster, messages: deque[Any]) -> None:
    """Deliver again what was not acked, as a source does to a driver that starts."""
    MESSAGES.clear()
    MESSAGES.extend(messages)


def test_a_message_whose_ack_was_lost_counts_once_and_is_acked_by_the_next_run() -> None:
    cluster = LocalCluster()
    messages = deque([(number, ("a",)) for number in range(5)])
    MESSAGES.extend(messages)
    with pytest.raises(SpoutError):
        cluster.submit(counting(Forgetful("word"))).await_termination(60)
    restart(cluster, messages)
    handle = cluster.submit(counting(QueueSpout("word")))
    assert handle.await_termination(60)
    assert handle.state("count") == {"a": 5}


def test_a_message_without_a_stable_id_counts_again() -> None:
    cluster = LocalCluster()
    messages = deque([(number, ("a",)) for number in range(5)])
    MESSAGES.extend(messages)
    with pytest.raises(SpoutError):
        cluster.submit(counting(Unstable("word"))).await_termination(60)
    restart(cluster, messages)
    handle = cluster.submit(counting(QueueSpout("word")))
    assert handle.await_termination(60)
    assert handle.state("count")["a"] >= 5
    assert sorted(set(ACKED)) == list(range(5))


def test_once_its_source_knows_an_id_may_come_again() -> None:
    cluster = LocalCluster()
    for _ in range(2):
        restart(cluster, deque([(1, ("a",))]))
        handle = cluster.submit(counting(QueueSpout("word")))
        assert handle.await_termination(60)
    assert handle.state("count") == {"a": 2}


def test_a_tree_that_is_open_at_a_restart_completes_in_the_next_run() -> None:
    cluster = LocalCluster(clock=ManualClock())
    MESSAGES.append((1, ("x", 1)))
    handle = cluster.submit(joining(), until_empty=False)
    while not handle.reports:
        assert not handle.await_termination(0.05)
    handle._waves._spouts.rich.close(5)  # type: ignore[attr-defined] # as if the driver had died: nothing is drained
    assert handle.stop(0) or True
    jobs.MESSAGES.clear()
    ACKED.clear()
    MESSAGES.extend([(1, ("x", 1)), (2, ("x", 10))])
    second = LocalCluster.submit(cluster, joining())
    assert second.await_termination(60)
    assert second.state("count") == {"x": 1}
    assert sorted(ACKED) == [1, 2]
    assert FAILED == []
