"""`IntervalJoin` against a join by definition, for each order, waves and restarts."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.errors import BoltError, TopologyError, UnsupportedValue
from anchorbolt.testing import FeederSpout, LocalCluster, ManualClock, TupleCapture
from anchorbolt.topology import TopologyBuilder
from anchorbolt.windows import IntervalJoin
from tests.engine.jobs import Committed

DEADLINE_S = 30


def bolt() -> IntervalJoin:
    return IntervalJoin("a", "id", "b", "aid", "at").select("id,a:n,b:n")


class Run:
    def __init__(self, join: IntervalJoin, cluster: LocalCluster, **conf: Any) -> None:
        self.spouts = {"a": FeederSpout(["id", "n", "at"]), "b": FeederSpout(["aid", "n", "at"])}
        self.captured, self.committed, self.waves = TupleCapture(), Committed(), 0
        builder = TopologyBuilder()
        for name, spout in self.spouts.items():
            builder.set_spout(name, spout)
        builder.set_bolt("join", join, 2).fields_grouping("a", "id").fields_grouping("b", "aid")
        builder.set_bolt("out", self.captured).global_grouping("join")
        topology = builder.create_topology("interval")
        self.handle = cluster.submit(topology, conf, until_empty=False, on_wave=self.committed)

    def feed(self, waves: int = 1, **rows: Any) -> None:
        for name, batch in rows.items():
            if batch:
                self.spouts[name].feed(batch)
        self.waves += waves
        assert self.committed.wait_for(self.waves, DEADLINE_S), self.handle.status

    def stop(self) -> list[tuple[Any, ...]]:
        assert self.handle.stop(DEADLINE_S)
        return self.captured.tuples


Rows = st.lists(st.tuples(st.integers(0, 2), st.integers(-100, 100)), max_size=6)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.tuples(Rows, Rows, st.booleans()).filter(lambda batch: batch[0] or batch[1]), max_size=5),
    bounds=st.tuples(st.integers(-60, 60), st.integers(-60, 60)).map(sorted),
)
def test_an_interval_join_equals_its_definition(batches: Any, bounds: list[int]) -> None:
    def join() -> IntervalJoin:
        lower, upper = (timedelta(milliseconds=bound) for bound in bounds)
        return bolt().between(lower, upper).with_lag("200 ms")

    cluster, number = LocalCluster(clock=ManualClock()), 0
    run, got, all_a, all_b = Run(join(), cluster), list[Any](), list[Any](), list[Any]()
    for of_a, of_b, restarts in batches:
        rows_a = [(id, number + place, at) for place, (id, at) in enumerate(of_a)]
        rows_b = [(id, number + place, at) for place, (id, at) in enumerate(of_b)]
        number += 10
        all_a, all_b = [*all_a, *rows_a], [*all_b, *rows_b]
        for rows in ({"a": rows_a}, {"b": rows_b}):
            if any(rows.values()):
                run.feed(**rows)
        if restarts:
            got += run.stop()
            run = Run(join(), cluster)
    got += run.stop()
    expected = [
        (id, n, m)
        for id, n, at in all_a
        for aid, m, other in all_b
        if id == aid and bounds[0] <= other - at <= bounds[1]
    ]
    assert sorted(got) == sorted(expected)


def test_what_can_join_no_more_leaves_the_state_and_late_tuples_are_dropped() -> None:
    run = Run(bolt().between("-1 s", "2 s"), LocalCluster(clock=ManualClock()))
    run.feed(a=[(1, 10, 1000)])
    run.feed(b=[(1, 20, 3000), (1, 21, 3001), (1, 22, 0)])
    assert sorted(run.captured.tuples) == [(1, 10, 20), (1, 10, 22)]
    assert run.handle.state("join")
    run.feed(a=[(2, 30, 100_000)])
    run.feed(b=[(2, 40, 100_000)], waves=2)
    assert {key[0] for key in run.handle.state("join")} == {2}
    run.feed(a=[(2, 50, 99_999)])
    run.feed(b=[(2, 60, 100_000)])
    assert sorted(run.stop())[2:] == [(2, 30, 40), (2, 30, 60)]


def test_a_key_that_is_mutable_is_refused() -> None:
    builder = TopologyBuilder()
    builder.set_spout("a", FeederSpout(["id", "n", "at"], [[([1], 1, 1)]]))
    builder.set_spout("b", FeederSpout(["aid", "n", "at"]))
    builder.set_bolt("join", bolt().between("0 s", "1 s")).global_grouping("a").global_grouping("b")
    handle = LocalCluster(clock=ManualClock()).submit(builder.create_topology("interval"))
    with pytest.raises(BoltError) as raised:
        handle.await_termination(DEADLINE_S)
    assert UnsupportedValue.__name__ in str(raised.value)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: bolt(),
        lambda: IntervalJoin("a", "id", "b", "aid", "at").between("1 s", "2 s"),
        lambda: bolt().between("2 s", "1 s"),
        lambda: bolt().between("soon", "1 s"),
        lambda: bolt().between("1 s", 5),  # type: ignore[arg-type]
        lambda: bolt().between("1 s", "2 s").select("no"),
        lambda: IntervalJoin("a", "id", "a", "aid", "at"),
        lambda: IntervalJoin("a", "id", "c", "aid", "at").between("1 s", "2 s").select("id"),
        lambda: IntervalJoin("a", "id", "b", "id", "at").between("1 s", "2 s").select("b:id"),
        lambda: IntervalJoin("a", "id", "b", "aid", "when").between("1 s", "2 s").select("id"),
        lambda: bolt().between("1 s", "2 s").with_lag("-1 s"),
    ],
)
def test_a_wrong_join_is_refused_when_the_topology_is_built(wrong: Any) -> None:
    with pytest.raises(TopologyError):
        Run(wrong(), LocalCluster())
