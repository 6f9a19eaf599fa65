"""When messages were emitted, and how long the driver remembers it."""

from collections.abc import Mapping
from itertools import count

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.serialization import pack
from anchorbolt.spouts.intake import Chunk, StreamIntake
from anchorbolt.streams.lineage import ids_of
from anchorbolt.tracking.emission_times import EmissionTimes
from anchorbolt.tracking.in_flight import InFlight
from anchorbolt.tracking.settlements import Settlement
from anchorbolt.tracking.sorted_roots import Roots
from anchorbolt.tracking.stored_trees import OpenTree
from anchorbolt.tracking.verdict import Failure, Verdict


def roots_of(*roots: int) -> Roots:
    return np.array(roots, np.uint64)


def wave_of(*msg_ids: str | None) -> tuple[InFlight, list[int]]:
    """Begin a wave with chunks of three tuples: of 10 s, 11 s and so on; return it with the roots of its messages."""
    in_flight = InFlight("run", {1: ("in", 0)}, 30.0, excludes=False)
    chunks = [Chunk("default", 3, b"", msg_ids[start : start + 3], 10.0 + start / 3) for start in range(0, 6, 3)]
    drawn = in_flight.begin({1: chunks}, now=0.0)[1]
    return in_flight, [int(root) for chunk in drawn for root in chunk.roots]


def settled(in_flight: InFlight, verdict: Verdict) -> Settlement:
    in_flight.judge([verdict])
    return in_flight.settle(now=1.0)["in", 0]


def test_the_times_of_acked_messages_leave_out_untracked_tuples() -> None:
    settlement = settled(wave_of("a", None, "c", "d", "e", "f")[0], Verdict())
    assert settlement.acked == ["a", "c", "d", "e", "f"]
    assert settlement.emitted_at == [(10.0, 2), (11.0, 3)]


def test_failed_messages_have_no_time() -> None:
    in_flight, drawn = wave_of("a", "b", "c", "d", "e", "f")
    failed = [Failure(drawn[position], "fails", 0, "no") for position in (0, 1, 4)]
    assert settled(in_flight, Verdict(failed=failed)).emitted_at == [(10.0, 1), (11.0, 2)]


def test_a_tree_that_is_complete_in_a_later_wave_has_the_time_of_its_emit() -> None:
    in_flight, (first, _, _, _, fifth, _) = wave_of("a", "b", "c", "d", "e", "f")
    assert settled(in_flight, Verdict(opened=np.sort(roots_of(first, fifth)))).emitted_at == [(10.0, 2), (11.0, 2)]
    in_flight.begin({}, now=2.0)
    completed = settled(in_flight, Verdict(completed=roots_of(fifth), completed_trees=[OpenTree(0, 1, 1, pack("e"))]))
    assert (completed.acked, completed.emitted_at) == (["e"], [(11.0, 1)])


def test_a_tree_of_an_earlier_run_has_no_time() -> None:
    in_flight = InFlight("run", {1: ("in", 0)}, 30.0, excludes=False)
    tree = OpenTree(5, 1, 1, pack("m"))
    in_flight.inherit([(7, "in")], now=0.0)
    in_flight.begin({}, now=1.0)
    in_flight.judge([Verdict(completed=roots_of(7), completed_trees=[tree])])
    settlement = in_flight.settle(now=2.0)["in", None]
    assert (settlement.acked, settlement.emitted_at) == (["m"], [])


def kept(trees: EmissionTimes, times: Mapping[int, float]) -> None:
    """Keep the trees of a wave whose messages were emitted at these times, by root; others of it are complete."""
    chunks = [(roots_of(1), 0.0), *((roots_of(root), at) for root, at in times.items())]
    trees.keep(np.sort(roots_of(*times)), chunks)


def test_times_of_open_trees_are_known_until_they_are_forgotten() -> None:
    trees = EmissionTimes()
    kept(trees, {9: 0.9, 3: 0.3, 5: 0.5, 7: 0.7})
    kept(trees, {4: 0.4})
    kept(trees, {})
    assert trees.times_of(roots_of(7, 4, 3)).tolist() == [0.7, 0.4, 0.3]
    trees.forget(roots_of(7, 4, 3))
    assert np.isnan(trees.times_of(roots_of(3, 8, 4, 1))).all()
    assert trees.times_of(roots_of(9, 5)).tolist() == [0.9, 0.5]
    trees.forget(roots_of(9, 5, 8))
    assert trees.oldest is None


@given(st.lists(st.tuples(st.integers(0, 30), st.lists(st.integers(0, 200), max_size=8)), max_size=12))
def test_the_times_of_open_trees_are_those_of_a_model(waves: list[tuple[int, list[int]]]) -> None:
    trees, model, unused = EmissionTimes(), dict[int, float](), ids_of(1, 500).tolist()
    for opened, closed in waves:
        wave = {root: float(root % 100) for root in (unused.pop() for _ in range(opened))}
        kept(trees, wave)
        model.update(wave)
        gone = {list(model)[place % len(model)] for place in closed if model}
        trees.forget(roots_of(*gone, *unused[:3]))
        for root in gone:
            del model[root]
        assert trees.oldest == min(model.values(), default=None)
        assert trees.times_of(roots_of(*model)).tolist() == list(model.values())
        assert np.isnan(trees.times_of(roots_of(*gone))).all()


def test_trees_that_stay_open_in_every_wave_are_kept_in_few_groups() -> None:
    trees, waves = EmissionTimes(), 2000
    for wave in range(2, 2 + waves):
        kept(trees, {wave: float(wave)})
        assert len(trees._groups) <= 11
    assert trees.oldest == 2
    trees.forget(np.arange(2, 1 + waves, dtype=np.uint64))
    assert trees.oldest == waves + 1
    assert sum(len(group.roots) for group in trees._groups) == 1


def test_each_chunk_of_an_intake_has_the_time_of_its_first_tuple() -> None:
    clock = count(10)
    intake = StreamIntake("default", 3, 1 << 20, list, lambda: float(next(clock)))
    assert intake.since is None
    for number in range(5):
        if not intake.rows:
            intake.begin()
        intake.rows.append((number,))
        intake.msg_ids.append(number)
        if number == 2:
            intake.pack()
    intake.pack()
    assert [(chunk.size, chunk.since) for chunk in intake.chunks] == [(3, 10), (2, 11)]
    assert intake.since == 10
