"""What the driver knows of tuple trees."""

import tracemalloc

import numpy as np

from anchorbolt.serialization import pack
from anchorbolt.spouts.intake import Chunk
from anchorbolt.tracking.in_flight import InFlight
from anchorbolt.tracking.sorted_roots import NO_ROOTS
from anchorbolt.tracking.stored_trees import OpenTree
from anchorbolt.tracking.verdict import Verdict


def test_a_tree_of_an_earlier_run_has_the_time_out_of_this_one() -> None:
    in_flight = InFlight("run", {1: ("in", 0)}, 10.0, excludes=False)
    in_flight.inherit([(7, "in")], now=100.0)
    assert [in_flight.has_expired(now) for now in (109.0, 110.0)] == [False, True]


def test_a_tree_whose_spout_is_left_out_does_not_expire() -> None:
    in_flight = InFlight("run", {1: ("in", 0)}, 10.0, excludes=False)
    in_flight.inherit([(7, "in"), (8, "gone")], now=100.0, absent={"gone"})
    assert in_flight.has_expired(110.0)
    in_flight.begin({}, 110.0)
    assert in_flight.expired.tolist() == [7]


def wave(in_flight: InFlight, since: float, *, opens: bool, completes: int | None = None) -> int:
    """Run a wave of one message, which was emitted at `since`; return the root of its tree."""
    [rooted] = in_flight.begin({1: [Chunk("default", 1, b"", ("m",), since)]}, since + 1)[1]
    root = int(rooted.roots[0])
    complete = [] if completes is None else [completes]
    verdict = Verdict(
        opened=np.array([root] if opens else [], np.uint64),
        completed=np.array(complete, np.uint64),
        completed_trees=[OpenTree(5, 1, 1, pack("m"))] * len(complete),
    )
    in_flight.judge([verdict])
    in_flight.settle(since + 2)
    return root


def test_the_oldest_message_is_that_of_the_oldest_tree_that_is_still_open() -> None:
    in_flight = InFlight("run", {1: ("in", 0)}, None, excludes=False)
    assert in_flight.oldest_since is None
    first = wave(in_flight, 100.0, opens=True)
    second = wave(in_flight, 200.0, opens=True)
    assert in_flight.oldest_since == 100.0
    wave(in_flight, 300.0, opens=False, completes=first)
    assert in_flight.oldest_since == 200.0
    wave(in_flight, 400.0, opens=False, completes=second)
    assert in_flight.oldest_since is None


def test_the_messages_of_a_wave_that_runs_count_for_the_oldest() -> None:
    in_flight = InFlight("run", {1: ("in", 0)}, None, excludes=False)
    younger = Chunk("other", 2, b"", ("n", "o"), 100.5)
    in_flight.begin({1: [younger, Chunk("default", 1, b"", ("m",), 100.0)]}, 101.0)
    assert in_flight.oldest_since == 100.0
    in_flight.judge([Verdict()])
    in_flight.settle(102.0)
    assert in_flight.oldest_since is None


def test_the_messages_of_an_earlier_run_are_as_old_as_this_one() -> None:
    in_flight = InFlight("run", {1: ("in", 0)}, None, excludes=False)
    in_flight.inherit([(7, "in")], now=100.0)
    wave(in_flight, 200.0, opens=False)
    assert in_flight.oldest_since == 100.0
    wave(in_flight, 300.0, opens=False, completes=7)
    assert in_flight.oldest_since is None


def test_trees_that_are_closed_take_no_memory_until_their_time_out() -> None:
    in_flight, each = InFlight("run", {1: ("in", 0)}, 3600.0, excludes=False), 1000
    before, now = NO_ROOTS, 0.0
    tracemalloc.start()
    try:
        for number in range(300):
            now += 0.1
            [rooted] = in_flight.begin({1: [Chunk("default", each, b"", tuple(range(each)), now)]}, now)[1]
            opened = np.sort(rooted.roots)
            trees = [OpenTree(5, 1, 1, pack("m"))] * len(before)
            in_flight.judge([Verdict(opened=opened, completed=before, completed_trees=trees)])
            in_flight.settle(now)
            before = opened
            if number == 10:
                _, highest = tracemalloc.get_traced_memory()
        assert tracemalloc.get_traced_memory()[1] < highest + 1000 * each  # each wave would add 8 bytes for a tree
    finally:
        tracemalloc.stop()
    assert in_flight.has_expired(now + 3600.0)
    in_flight.begin({}, now + 3600.0)
    assert in_flight.expired.tolist() == before.tolist()
