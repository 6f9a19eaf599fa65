"""`Deduplicate`, `RollingCount` and `TopN`."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.errors import BoltError, TopologyError
from anchorbolt.testing import FeederSpout, LocalCluster, ManualClock, TupleCapture
from anchorbolt.topology import TopologyBuilder
from anchorbolt.windows import Deduplicate, RollingCount, Sliding, TopN, Tumbling
from tests.engine.jobs import Committed

DEADLINE_S = 30


def test_a_tuple_is_passed_on_once_for_as_long_as_the_ttl() -> None:
    clock, spout, captured, committed = ManualClock(), FeederSpout(["id", "text"]), TupleCapture(), Committed()
    builder = TopologyBuilder()
    builder.set_spout("in", spout)
    builder.set_bolt("once", Deduplicate(["id", "text"], ttl="1 h"), 2).fields_grouping("in", "id")
    builder.set_bolt("out", captured).global_grouping("once")
    topology = builder.create_topology("once")
    handle = LocalCluster(clock=clock).submit(topology, until_empty=False, on_wave=committed)
    for number, rows in enumerate([[(1, "a"), (1, "b"), (2, "c")], [(1, "d"), (3, "e")], [(1, "f")]], start=1):
        spout.feed(rows)
        assert committed.wait_for(number, DEADLINE_S)
        clock.advance(1799 if number == 1 else 1801)
    assert handle.stop(DEADLINE_S)
    assert sorted(captured.tuples) == [(1, "a"), (1, "f"), (2, "c"), (3, "e")]


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (lambda: Deduplicate("id", ttl="1 h"), ["id"]),
        (lambda: Deduplicate(["id"], ttl="1 h"), ["id", "text"]),
        (lambda: Deduplicate(["no"], ttl="1 h"), ["id", "text"]),
        (lambda: TopN(0, Tumbling("1 s")), ["key", "count"]),
        (lambda: TopN("5", Tumbling("1 s")), ["key", "count"]),  # type: ignore[arg-type]
        (lambda: TopN(5, Tumbling("1 s")), ["word", "count"]),
    ],
)
def test_what_cannot_work_is_refused_when_the_topology_is_built(make: Any, fields: list[str]) -> None:
    def build() -> None:
        builder = TopologyBuilder()
        builder.set_spout("in", FeederSpout(fields))
        builder.set_bolt("bolt", make()).fields_grouping("in", fields[0])
        builder.create_topology("wrong")

    with pytest.raises(TopologyError):
        build()


def top(n: int, rows: list[tuple[Any, Any, int]]) -> list[Any]:
    captured, builder = TupleCapture(), TopologyBuilder()
    builder.set_spout("in", FeederSpout(["key", "count", "at"], [rows]))
    builder.set_bolt("top", TopN(n, Tumbling("10 ms"), event_time="at")).global_grouping("in")
    builder.set_bolt("out", captured).global_grouping("top")
    conf = {"topology.windows.close.when.empty": True}
    LocalCluster(clock=ManualClock()).submit(builder.create_topology("top"), conf).await_termination(DEADLINE_S)
    return [key for key, _, _ in captured.tuples]


def test_equal_counts_are_in_the_order_of_their_keys() -> None:
    assert top(3, [(key, 1, 1) for key in (10, 9, 100, -1)]) == [-1, 9, 10]
    assert len(top(3, [(key, 1, 1) for key in (10, "a", None, ("a", 1))])) == 3


def test_a_count_that_is_no_number_fails_with_its_tuple() -> None:
    with pytest.raises(BoltError) as failed:
        top(3, [("a", 2, 1), ("b", None, 1)])
    assert "'b'" in str(failed.value.tuple_text)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(st.sampled_from("abcdefg"), st.integers(0, 60)), max_size=40),
    size=st.integers(1, 10),
    n=st.integers(1, 4),
)
def test_the_top_words_of_each_window(rows: list[Any], size: int, n: int) -> None:
    rows.sort(key=lambda row: row[1])
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    spout = FeederSpout(["word", "at"], [*batches, [("end", 1000)], [("end", 2000)]])
    counts, captured = TupleCapture(), TupleCapture()
    builder = TopologyBuilder()
    builder.set_spout("in", spout)
    counter = RollingCount(Sliding("20 ms", every="10 ms"), event_time="at")
    builder.set_bolt("count", counter, 2).fields_grouping("in", "word")
    builder.set_bolt("counts", counts).global_grouping("count")
    some = TopN(n, Tumbling("10 ms"), event_time="at")
    builder.set_bolt("some", some, 2).fields_grouping("count", "key")
    builder.set_bolt("top", TopN(n, Tumbling("10 ms"), event_time="at")).global_grouping("some")
    builder.set_bolt("out", captured).global_grouping("top")
    handle = LocalCluster(clock=ManualClock()).submit(builder.create_topology("top"))
    handle.await_termination(DEADLINE_S)
    by_window: dict[int, Counter[str]] = {}
    for word, at in rows:
        for end in (at - at % 10 + 10, at - at % 10 + 20):
            by_window.setdefault(end - 1, Counter())[word] += 1
    expected = [(word, count, at) for at, counter in by_window.items() for word, count in counter.items()]
    assert sorted(row for row in counts.tuples if row[0] != "end") == sorted(expected)
    found: dict[int, list[int]] = {}
    for _, count, at in captured.tuples:
        found.setdefault(at, []).append(count)
    for at, numbers in found.items():
        if at < 900:
            assert numbers == sorted(by_window[at].values(), reverse=True)[:n]
    assert {at for at in found if at < 900} == set(by_window)
