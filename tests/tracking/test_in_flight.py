"""What the driver knows of tuple trees, and how open ones are stored; damaged bytes are refused."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import CodecMismatch, SerializationError, StateCorrupted, UnsupportedValue
from anchorbolt.serialization import pack
from anchorbolt.spouts.intake import Chunk
from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.contract import Fence, StagedSlice
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.tracking.in_flight import InFlight
from anchorbolt.tracking.sorted_roots import NO_ROOTS
from anchorbolt.tracking.stored_trees import OpenTree, OpenTreeCodec, RootCodec, tree_state
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


ROOTS = st.integers(0, 2**64 - 1)
TASKS = st.integers(0, 2**16 - 1)
TREES = st.builds(OpenTree, st.integers(1, 2**64 - 1), TASKS, TASKS, st.binary())
TREE = OpenTree(ack_val=7, spout_task=1, holder=3, msg_id=b"\xc1v")
SCOPE = AttemptScope(Fence(1, 0), 0, "0" * 32)
NEXT = AttemptScope(Fence(1, 1), 1, "1" * 32, 0, "0" * 32)
NAMESPACE = "t:__acker-0"


@given(ROOTS, TREES)
def test_an_entry_comes_back_as_it_was_stored(root: int, tree: OpenTree) -> None:
    stored = RootCodec().encode(root), OpenTreeCodec().encode(tree)
    assert sum(map(len, stored)) == 20 + len(tree.msg_id)
    assert (RootCodec().decode(stored[0]), OpenTreeCodec().decode(stored[1])) == (root, tree)
    assert RootCodec().encode_many([root, 0]) == [stored[0], bytes(8)]


@pytest.mark.parametrize("root", [-1, 2**64, "7", None])
def test_what_is_no_root_is_refused(root: object) -> None:
    with pytest.raises(UnsupportedValue):
        RootCodec().encode(root)
    with pytest.raises(UnsupportedValue):
        RootCodec().encode_many([1, root])


@pytest.mark.parametrize("changes", [{"ack_val": 2**64}, {"spout_task": 2**16}, {"holder": -1}])
def test_a_tree_with_too_large_a_number_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(UnsupportedValue):
        OpenTreeCodec().encode(TREE._replace(**changes))


@pytest.mark.parametrize("data", [b"", bytes(11), bytes(12), bytes(8) + b"1234id"])
def test_bytes_that_are_no_open_tree_are_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        OpenTreeCodec().decode(data)


@pytest.mark.parametrize("data", [b"", bytes(7), bytes(9)])
def test_bytes_that_are_no_root_are_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        RootCodec().decode(data)


def test_trees_live_in_the_transactions_of_the_acker() -> None:
    provider = MemoryStateProvider()
    state = tree_state(provider.open(NAMESPACE))
    state.begin(SCOPE)
    assert state.get_many([7, 2**64 - 1]) == {}
    state.put(7, TREE)
    state.put(2**64 - 1, TREE)
    assert state.get_many([7, 8]) == {7: TREE}
    state.delete(2**64 - 1)
    state.prepare_commit(0)
    state.commit(0)

    storage = provider.open(NAMESPACE)
    assert storage.get_many([(7).to_bytes(8, "little")]) == [OpenTreeCodec().encode(TREE)]
    assert storage.head().codec == "keys root/1, values open-tree/1"
    later = tree_state(storage)
    later.begin(NEXT)
    assert dict(later.items()) == {7: TREE}
    later.delete(7)
    assert later.get_many([7]) == {}


def test_a_damaged_entry_is_corrupted_state() -> None:
    storage = MemoryStateProvider().open(NAMESPACE)
    header = "keys root/1, values open-tree/1"
    damaged = {(7).to_bytes(8, "little"): b"short"}
    seal = storage.stage(StagedSlice(SCOPE.fence, 0, SCOPE.attempt, SCOPE.committed, 0, damaged, header))
    storage.seal(SCOPE.fence, SCOPE.attempt, seal)
    storage.commit(SCOPE.fence, 0, SCOPE.attempt)
    state = tree_state(storage)
    state.begin(NEXT)
    with pytest.raises(StateCorrupted) as caught:
        state.get_many([7])
    assert caught.value.namespace == NAMESPACE


def test_a_namespace_of_a_bolt_is_not_taken_for_an_ackers() -> None:
    provider = MemoryStateProvider()
    counts: KeyValueState[int, int] = KeyValueState(provider.open(NAMESPACE))
    counts.begin(SCOPE)
    counts.put(7, 1)
    counts.prepare_commit(0)
    counts.commit(0)
    state = tree_state(provider.open(NAMESPACE))
    state.begin(NEXT)
    with pytest.raises(CodecMismatch):
        state.get_many([7])
