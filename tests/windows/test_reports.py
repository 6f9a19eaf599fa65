"""Faults of windows by key that users of other systems reported do not occur here."""

from itertools import permutations
from typing import Any

import pytest

from anchorbolt.testing import FeederSpout, LocalCluster, TupleCapture
from anchorbolt.windows import Session, Sliding, Tumbling
from tests.engine.jobs import Committed
from tests.windows.test_keyed_windows import DEADLINE_S, END, Merging, Row, run, topology

REPORTED_AT = 1_709_315_512_577  # the event time in #413


def closed(bolt: Any, waves: list[list[Row]], **options: Any) -> list[tuple[Any, ...]]:
    """Return the starts, ends and numbers of the windows of "a" when all have closed; fail if a tuple was late."""
    results, late = run(bolt, [*waves, [("end", REPORTED_AT + END, -1)]], **options)
    assert not late
    return [row[1:4] for row in results if row[0] == "a"]


@pytest.mark.parametrize("in_one_wave", [False, True])
def test_the_order_of_arrival_does_not_change_sessions(in_one_wave: bool) -> None:
    """Bytewax #406: two events were in one session or in two, as the one or the other was read first."""
    rows = [("a", 10_000, 1), ("a", 11_000, 2), ("a", 71_000, 3), ("a", 130_999, 4)]
    for order in permutations(rows):
        waves = [list(order)] if in_one_wave else [[row] for row in order]
        bolt = Merging(Session("1 min"), lag="10 min", late_stream="late")
        assert closed(bolt, waves, tasks=1) == [(10_000, 71_000, (1, 2)), (71_000, 190_999, (3, 4))]


@pytest.mark.parametrize("every", ["800 ms", "700 ms"])
def test_a_tuple_at_the_watermark_is_in_all_of_its_windows(every: str) -> None:
    """Bytewax #413: with another interval of the windows, tuples within the lag were late, and dropped."""
    window = Sliding("1600 ms", every=every)
    rows = [("a", REPORTED_AT, 1), ("a", REPORTED_AT - 5000, 2)]  # the second one is behind by the whole lag
    bolt = Merging(window, lag="5 s", late_stream="late")
    found = closed(bolt, [[row] for row in rows])
    for _, at, number in rows:
        starts = [start for start, end, numbers in found if number in numbers]
        assert all(start <= at < start + 1600 for start in starts)
        assert len(starts) == len(window.starts(at))


@pytest.mark.parametrize("lateness", ["0 s", "1 min"])
def test_a_session_that_joins_others_has_all_their_values(lateness: str) -> None:
    """Bytewax #427: values were lost when sessions were merged."""
    bolt = Merging(Session("15 ms"), lag="1 s", lateness=lateness)
    apart = [[("a", 0, 1)], [("a", 20, 2)], [("a", 40, 3)]]
    assert closed(bolt, [*apart, [("a", 30, 4), ("a", 10, 5)]]) == [(0, 55, (1, 2, 3, 4, 5))]
    bolt = Merging(Session("15 ms"), lateness="1 min")  # the sessions have closed before they are joined
    assert closed(bolt, [*apart, [("a", 900, 6)], [("a", 30, 4), ("a", 10, 5)]])[1:3] == [
        (0, 55, (1, 2, 3, 4, 5)),
        (20, 35, (2,)),
    ]


def test_a_clock_that_goes_backwards_closes_each_window_once() -> None:
    """Bytewax #479: the dataflow ended when the system's clock went back."""
    seconds = [100.0]
    committed, results = Committed(), TupleCapture()
    spout = FeederSpout(["key", "at", "number"])
    job = topology(Merging(Tumbling("1 min"), event_time=None), spout, results, TupleCapture(), 1)
    handle = LocalCluster(clock=lambda: seconds[0]).submit(job, until_empty=False, on_wave=committed)
    steps = [(100.0, 1), (130.0, None), (130.0, 2), (20.0, 3), (125.0, 4), (181.0, None)]  # the clock, and a tuple
    for waves, (seconds[0], number) in enumerate(steps, 1):
        if number is not None:
            spout.feed([("a", 0, number)])
        assert committed.wait_for(waves, DEADLINE_S)
    assert handle.stop(DEADLINE_S)
    assert results.tuples == [("a", 60_000, 120_000, (1,), False), ("a", 120_000, 180_000, (2, 3, 4), False)]
