"""Tick tuples: from `__system` on `__tick`, to the bolts that ask for them; in a wave of their own if none is due."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest

from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.engine.sources.driver_spouts import Ticks
from anchorbolt.errors import TopologyError
from anchorbolt.spouts import StreamSpout
from anchorbolt.testing import FeederSpout, LocalCluster, ManualClock, TupleCapture
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import BasicBolt, Fields, chain, kept_in
from tests.reliability.jobs import ACKED, MESSAGES, QueueSpout

TICK = "topology.tick.tuple.freq.secs"


class Totals(Fields, BaseStatefulBolt[Any]):
    """Adds up numbers, and emits the sum with each tick."""

    fields = ("sum", "seconds")

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds

    def get_component_configuration(self) -> Mapping[str, Any]:
        return {} if self.seconds is None else {TICK: self.seconds}

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Any) -> None:
        if tup.is_tick:
            assert (tup.source_component, tup.source_stream) == ("__system", "__tick")
            self.collector.emit((self.state.get("sum", 0), tup["rate_secs"]), anchors=tup)
        else:
            self.state.put("sum", self.state.get("sum", 0) + tup["number"])
        self.collector.ack(tup)


class Passes(BasicBolt):
    fields = ("is_tick",)

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit((tup.is_tick,))


def totals(spout: Any, captured: TupleCapture, seconds: float | None) -> Topology:
    return chain("totals", {"in": spout, "totals": Totals(seconds), "out": captured})


@pytest.mark.parametrize("by", ["bolt", "topology"])
@pytest.mark.parametrize("kind", ["feeder", "rich"])
def test_a_tick_comes_behind_the_tuples_of_its_wave_and_causes_one_if_none_is_due(by: str, kind: str) -> None:
    spout: Any = QueueSpout("number") if kind == "rich" else FeederSpout(["number"], [[(1,), (2,)]])
    MESSAGES.extend([(1, (1,)), (2, (2,))])
    captured, clock = TupleCapture(), ManualClock()
    topology = totals(spout, captured, 10 if by == "bolt" else None)
    conf = {} if by == "bolt" else {TICK: 10}
    handle = LocalCluster(clock=clock).submit(topology, conf, until_empty=False)
    while sum(report.tuples_in["totals"] for report in handle.reports) != 2:
        assert not handle.await_termination(0.05)
    assert captured.tuples == []
    for expected in ([(3, 10)], [(3, 10), (3, 10)]):
        clock.advance(10.5)
        while len(captured.tuples) < len(expected):
            assert not handle.await_termination(0.05)
        assert captured.tuples == expected
    assert handle.stop(30)
    assert sorted(ACKED) == ([1, 2] if kind == "rich" else [])


def test_a_tick_that_fails_its_wave_comes_again() -> None:
    captured, clock = TupleCapture(), ManualClock()
    handle = LocalCluster(clock=clock).submit(
        chain("fails", {"in": FeederSpout(["number"]), "fails": (FailsFirst(), 2), "out": captured}),
        {TICK: 1},
        until_empty=False,
    )
    clock.advance(1.5)
    while not captured.tuples:
        assert not handle.await_termination(0.05)
    assert captured.tuples == [(True,), (True,)]
    assert handle.reports[0].rounds == 2
    assert handle.stop(30)


FAILURES: list[int] = []


class FailsFirst(Passes):
    def execute(self, tup: Any, collector: Any) -> None:
        if not FAILURES:
            FAILURES.append(1)
            raise ValueError("the first tick")
        super().execute(tup, collector)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ticks_of_a_topology_of_stream_spouts_come_between_the_waves_of_its_query(spark: Any, tmp_path: Any) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("1\n2\n")
    captured = TupleCapture()

    def numbers(session: Any) -> Any:
        return session.readStream.text(str(tmp_path / "in")).selectExpr("CAST(value AS INT) AS number")

    conf = {**kept_in(tmp_path), TICK: 0.5, "topology.state.checkpoint.interval.ms": 100}
    handle = SparkCluster(spark).submit(totals(StreamSpout(numbers, ["number"]), captured, None), conf)
    while (3, 0.5) not in captured.tuples or len(handle.reports) < 4:
        assert not handle.await_termination(0.05)
    assert handle.stop(60)
    assert [report.batch_id for report in handle.reports if report.tuples_in["in"]] == [0]


@pytest.mark.parametrize("seconds", [0, -1, True, "1"])
def test_a_time_between_ticks_that_is_none_is_refused(seconds: Any) -> None:
    with pytest.raises(TopologyError) as raised:
        totals(FeederSpout(["number"]), TupleCapture(), seconds)
    assert raised.value.component == "totals"


def test_a_bolt_can_set_nothing_else() -> None:
    bolt = Totals()
    bolt.get_component_configuration = lambda: {"topology.workers": 2}  # type: ignore[method-assign]
    with pytest.raises(TopologyError) as raised:
        TopologyBuilder().set_bolt("totals", bolt)
    assert raised.value.component == "totals"


def wave(ticks: Ticks, clock: ManualClock, seconds: float) -> frozenset[str]:
    """Run a wave that takes so long; return the bolts that get a tick."""
    ticks.next(DecisionRecord(), None)
    clock.advance(seconds)
    ticks.settle(Mock(), WaveReport(0, 0))
    return ticks.bolts


def test_the_time_that_a_wave_takes_does_not_delay_the_next_tick() -> None:
    clock = ManualClock()
    ticks = Ticks({"totals": 10.0}, clock)
    clock.advance(10)
    for _ in range(3):
        assert ticks.poll()
        assert wave(ticks, clock, 3) == {"totals"}
        assert not ticks.poll()
        clock.advance(7)
    assert ticks.poll()


def test_a_tick_that_is_long_overdue_comes_once() -> None:
    clock = ManualClock()
    ticks = Ticks({"totals": 10.0}, clock)
    clock.advance(35)
    assert wave(ticks, clock, 0) == {"totals"}
    assert not ticks.poll()
    assert wave(ticks, clock, 0) == set()
    clock.advance(10)
    assert ticks.poll()
