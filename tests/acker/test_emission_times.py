"""When messages were emitted, and how long the driver remembers it."""

import numpy as np

from anchorbolt.acker.emission_times import OpenTrees, counts_by_time, times_of
from anchorbolt.acker.in_flight import InFlight, Settlement
from anchorbolt.acker.sorted_roots import NO_ROOTS, Roots
from anchorbolt.acker.stored_tree import OpenTree
from anchorbolt.acker.verdict import Failure, Verdict
from anchorbolt.serialization import pack
from anchorbolt.spouts.intake import Chunk, StreamIntake

MARKS = [(2, 10.0), (3, 11.0), (6, 12.5)]  # 2 tuples at 10 s, 1 at 11 s, 3 at 12.5 s


def roots_of(*roots: int) -> Roots:
    return np.array(roots, np.uint64)


def wave_of(*msg_ids: str | None) -> InFlight:
    in_flight = InFlight("run", {1: ("in", 0)}, 30.0, excludes=False)
    in_flight.begin({1: [Chunk("default", 6, b"", list(msg_ids), MARKS)]}, now=0.0)
    return in_flight


def drawn(in_flight: InFlight) -> list[int]:
    ((chunk,),) = in_flight._chunks.values()
    return [int(root) for root in chunk.roots]


def settled(in_flight: InFlight, verdict: Verdict) -> Settlement:
    in_flight.judge([verdict])
    return in_flight.settle(now=1.0)["in", 0]


def test_each_tuple_has_the_time_of_the_first_mark_behind_it() -> None:
    assert times_of(MARKS).tolist() == [10.0, 10.0, 11.0, 12.5, 12.5, 12.5]
    chosen = np.array([False, True, False, True, False, True])
    assert counts_by_time(MARKS, chosen) == [(10.0, 1), (12.5, 2)]


def test_the_times_of_acked_messages_leave_out_untracked_tuples() -> None:
    settlement = settled(wave_of("a", None, "c", "d", "e", "f"), Verdict())
    assert settlement.acked == ["a", "c", "d", "e", "f"]
    assert settlement.emitted_at == [(10.0, 1), (11.0, 1), (12.5, 3)]


def test_failed_messages_have_no_time() -> None:
    in_flight = wave_of("a", "b", "c", "d", "e", "f")
    failed = [Failure(drawn(in_flight)[position], "fails", 0, "no") for position in (0, 1, 4)]
    assert settled(in_flight, Verdict(failed=failed)).emitted_at == [(11.0, 1), (12.5, 2)]


def test_a_tree_that_is_complete_in_a_later_wave_has_the_time_of_its_emit() -> None:
    in_flight = wave_of("a", "b", "c", "d", "e", "f")
    first, _, third, *_ = drawn(in_flight)
    assert settled(in_flight, Verdict(opened=np.sort(roots_of(first, third)))).emitted_at == [(10.0, 1), (12.5, 3)]
    in_flight.begin({}, now=2.0)
    completed = settled(in_flight, Verdict(completed=roots_of(third), completed_trees=[OpenTree(0, 1, 1, pack("c"))]))
    assert (completed.acked, completed.emitted_at) == (["c"], [(11.0, 1)])


def test_a_tree_of_an_earlier_run_has_no_time() -> None:
    in_flight = InFlight("run", {1: ("in", 0)}, 30.0, excludes=False)
    tree = OpenTree(5, 1, 1, pack("m"))
    in_flight.inherit([(7, "in", tree)], now=0.0)
    in_flight.begin({}, now=1.0)
    in_flight.judge([Verdict(completed=roots_of(7), completed_trees=[tree])])
    settlement = in_flight.settle(now=2.0)["in", None]
    assert (settlement.acked, settlement.emitted_at) == (["m"], [])


def test_times_of_open_trees_are_forgotten_when_they_are_taken() -> None:
    trees = OpenTrees()
    trees.keep(roots_of(9, 3, 5, 7), np.array([0.9, 0.3, 0.5, 0.7]))
    trees.keep(roots_of(4), np.array([0.4]))
    trees.keep(NO_ROOTS, np.array([]))
    assert trees.take(roots_of(7, 4, 3)).tolist() == [0.7, 0.4, 0.3]
    assert np.isnan(trees.take(roots_of(3, 8))).all()
    assert trees.take(roots_of(9, 5)).tolist() == [0.9, 0.5]
    assert trees._waves == []


def test_the_chunks_of_an_intake_have_all_their_tuples_marked() -> None:
    intake = StreamIntake("default", 3, 1 << 20, list)
    for number in range(5):
        intake.rows.append((number,))
        intake.msg_ids.append(number)
        if number in (0, 1, 3):
            intake.mark()
            intake.mark()
        if number == 2:
            intake.pack()
    intake.pack()
    assert [[end for end, _ in chunk.marks] for chunk in intake.chunks] == [[1, 2, 3], [1, 2]]
    times = [at for chunk in intake.chunks for _, at in chunk.marks]
    assert times == sorted(times)
