"""Messages about tuple trees that arrive twice, at an acker or at the driver: they count once."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from anchorbolt.engine.local import cluster
from anchorbolt.engine.task.messages import Envelope, PrepareMessage, decode_message, reports_in
from anchorbolt.testing import LocalCluster
from anchorbolt.topology import TopologyBuilder
from tests.reliability import jobs
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, Count, Pairs, QueueSpout


class Unstable(QueueSpout):
    stable_message_ids = False


@pytest.fixture(autouse=True)
def _forget() -> None:
    jobs.forget()


def acked_by_a_join(spout: QueueSpout) -> list[Any]:
    """Join two messages in two waves; return what their source is told."""
    MESSAGES.extend([(1, ("x", 1)), (2, ("x", 1))])
    builder = TopologyBuilder()
    builder.set_spout("in", spout)
    builder.set_bolt("pairs", Pairs()).fields_grouping("in", "id")
    builder.set_bolt("count", Count()).fields_grouping("pairs", "word")
    conf = {"topology.spout.intake.tuples": 1}
    assert LocalCluster().submit(builder.create_topology("repeated"), conf).await_termination(20)
    assert FAILED == []
    return sorted(ACKED)


def test_the_report_of_an_acker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "reports_in", lambda rows, current: reports_in(rows, current) * 2)
    assert acked_by_a_join(Unstable("id", "value")) == [1, 2]


def test_what_a_task_contributes_to_an_acker(monkeypatch: pytest.MonkeyPatch) -> None:
    interleaved = cluster._interleaved

    def twice(rows: list[Envelope], order: random.Random) -> Iterator[Envelope]:
        for row in interleaved(rows, order):
            yield row
            if isinstance(decode_message(row.payload), PrepareMessage):
                yield row

    monkeypatch.setattr(cluster, "_interleaved", twice)
    assert acked_by_a_join(QueueSpout("id", "value")) == [1, 2]
