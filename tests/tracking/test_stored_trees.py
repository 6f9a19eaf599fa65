"""Open trees are stored in 20 bytes and their message id; damaged bytes are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import CodecMismatch, SerializationError, StateCorrupted, UnsupportedValue
from anchorbolt.state_backends.contract import Fence, StagedSlice
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.tracking.stored_trees import OpenTree, OpenTreeCodec, RootCodec, tree_state

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
