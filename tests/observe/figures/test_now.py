"""What a run says of the wave that it runs now, and of what it waits for."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from anchorbolt.bolts import BaseBasicBolt
from anchorbolt.engine import LocalCluster
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder

DEADLINE_S = 30

entered, leave = threading.Event(), threading.Event()


class Waits(BaseBasicBolt):
    """Raises in the first round, and waits in the second one."""

    rounds = 0

    def execute(self, tup: Any, collector: Any) -> None:
        Waits.rounds += 1
        if Waits.rounds == 1:
            raise ValueError("the first round")
        entered.set()
        assert leave.wait(DEADLINE_S)

    def declare_output_fields(self, declarer: Any) -> None:
        """It emits nothing."""


@pytest.fixture(autouse=True)
def fresh() -> None:
    Waits.rounds = 0
    entered.clear()
    leave.clear()


def test_the_current_wave_is_told_with_its_round_and_why_the_one_before_failed() -> None:
    builder = TopologyBuilder()
    builder.set_spout("in", FeederSpout(["number"], [[(1,)]]))
    builder.set_bolt("waits", Waits()).shuffle_grouping("in")
    handle = LocalCluster().submit(builder.create_topology("now"), {"topology.state.provider": "memory"})
    assert entered.wait(DEADLINE_S)
    current = handle.observe().current_wave
    leave.set()
    assert current is not None
    assert (current.txid, current.phase, current.round) == (0, "compute", 2)
    assert "the first round" in current.failure
    assert handle.await_termination(DEADLINE_S)
    assert handle.observe().current_wave is None
    assert handle.observe().waiting == {}
