"""`KeyValueState` behaves like a dictionary whose changes become visible to later waves only by a commit."""

import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from anchorbolt.errors import CodecMismatch, Fenced, StateError, StateRegressed, UnsupportedValue
from anchorbolt.serialization import Codec, JsonCodec, MsgpackCodec, pack
from anchorbolt.serialization.codecs import PickleCodec
from anchorbolt.state_backends import KeyValueState, cache_budget, entry_cache
from anchorbolt.state_backends.contract import Fence, Seal, SizeLimits, StagedSlice, StateStorage
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.state import AttemptScope

EVERY_KEY = ["a", "b", "é", "", 0, 1, True, False, None, 1.0, b"a", ("a", 1), ("a", True), 2**70]
KEYS = st.sampled_from(EVERY_KEY)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner), st.dictionaries(st.text(), inner, max_size=2)
    ),
    max_leaves=4,
)


def typed(key: Any) -> Any:
    """Tell apart what Python's dictionaries mix up, as the state does."""
    return pack(key)


class KeyValueStateMachine(RuleBasedStateMachine):
    """Drives a state through waves that commit, roll back or are abandoned, beside two dictionaries."""

    @initialize(
        cache=st.integers(1, 6),
        pending=st.integers(1, 4),
        known_bytes=st.sampled_from((50, 200, 64 << 20)),
        pending_bytes=st.sampled_from((50, 200, 64 << 20)),
    )
    def start(self, cache: int, pending: int, known_bytes: int, pending_bytes: int) -> None:
        cache_budget.CACHE_BYTES, entry_cache._PENDING_BYTES = known_bytes, pending_bytes
        self.provider = MemoryStateProvider()
        self.storage = self.provider.open("t:count-0")
        self.limits = {"cache_entries": cache, "pending_entries": pending}
        self.state: KeyValueState[Any, Any] = KeyValueState(self.provider.open("t:count-0"), **self.limits)
        self.committed: dict[bytes, tuple[Any, Any]] = {}
        self.pending: dict[bytes, tuple[Any, Any]] = {}
        self.fence = Fence(1, 0)
        self.at = (-1, "")
        self.begin()

    def teardown(self) -> None:
        cache_budget.CACHE_BYTES = entry_cache._PENDING_BYTES = 64 << 20

    def begin(self) -> None:
        self.fence = Fence(1, self.fence.seq + 1)
        self.attempt = uuid.uuid4().hex
        self.txid = self.at[0] + 1
        self.pending = dict(self.committed)
        self.state.begin(AttemptScope(self.fence, self.txid, self.attempt, *self.at))

    @rule(key=KEYS, value=VALUES)
    def put(self, key: Any, value: Any) -> None:
        self.state.put(key, value)
        self.pending[typed(key)] = (key, value)

    @rule(key=KEYS)
    def delete(self, key: Any) -> None:
        expected = self.pending.pop(typed(key), (None, None))[1]
        assert self.state.delete(key) == expected

    @rule(key=KEYS)
    def get(self, key: Any) -> None:
        missing = object()
        expected = self.pending.get(typed(key), (None, missing))[1]
        value = self.state.get(key, missing)
        assert value == expected
        assert type(value) is type(expected)
        assert (key in self.state) is (expected is not missing)

    @rule(keys=st.lists(KEYS, max_size=5))
    def get_many(self, keys: list[Any]) -> None:
        self.state.prefetch(keys)
        for key in keys:
            self.get(key)

    @rule(keys=st.lists(KEYS, min_size=1, max_size=5), number=st.sampled_from([7, 0.5]))
    def put_column(self, keys: list[Any], number: float) -> None:
        self.state.put_array(keys, [number] * len(keys))
        self.pending.update({typed(key): (key, number) for key in keys})

    @rule(keys=st.lists(KEYS, max_size=5), delta=st.sampled_from([3, 0.25]))
    def add_column(self, keys: list[Any], delta: float) -> None:
        def before(key: Any) -> Any:
            return self.pending.get(typed(key), (key, 0))[1]

        keys = [key for key in keys if type(before(key)) in (int, float) and abs(before(key)) < 2**50]
        expected = []
        for key in keys:
            expected.append(before(key) + delta)
            self.pending[typed(key)] = (key, expected[-1])
        assert self.state.add_array(keys, [delta] * len(keys)).to_pylist() == expected

    @rule(keys=st.lists(KEYS, max_size=5))
    def delete_column(self, keys: list[Any]) -> None:
        self.state.delete_array(keys)
        for key in keys:
            self.pending.pop(typed(key), None)

    @rule(entries=st.integers(0, 3))
    def make_room(self, entries: int) -> None:
        self.state.evict(entries)

    @rule()
    def get_every_key(self) -> None:
        for key in EVERY_KEY:
            self.get(key)

    @rule(key=KEYS, values=st.lists(st.integers(), max_size=3))
    def change_in_place(self, key: Any, values: list[int]) -> None:
        given = list(values)
        self.state.put(key, given)
        self.pending[typed(key)] = (key, list(values))
        given.append(99)
        got = self.state.get(key)
        assert got is not None
        got.append(77)
        assert self.state.get(key) == values

    @rule()
    def scan(self) -> None:
        found = {typed(key): (key, value) for key, value in self.state.items()}
        assert found == self.pending
        assert len(self.state) == len(self.pending)

    @rule(end=st.sampled_from(["commit", "roll back", "abandon", "another worker"]), prepared=st.booleans())
    def end_wave(self, end: str, prepared: bool) -> None:
        """One rule for all ends, so that most steps lie within a wave.

        An abandoned wave is one whose next round begins without the store having been told of this one's end.
        """
        if end == "commit" or prepared:
            self.state.prepare_commit(self.txid)
            self.state.prepare_commit(self.txid)  # a repeated PREPARE changes nothing
        if end == "commit":
            if self.state.seal is not None:
                self.storage.commit(self.fence, self.txid, self.attempt)
                self.at = (self.txid, self.attempt)
            self.committed = self.pending
        elif end != "abandon":
            self.fence = Fence(1, self.fence.seq + 1)
            self.storage.rollback(self.fence)
        if end == "another worker":
            self.state = KeyValueState(self.provider.open("t:count-0"), **self.limits)
        self.begin()

    @precondition(lambda self: hasattr(self, "storage"))
    @invariant()
    def nothing_is_visible_before_its_commit(self) -> None:
        stored = {key: value for page in self.storage.scan() for key, value in page}
        assert stored == {typed(key): pack(value) for key, value in self.committed.values()}


KeyValueStateMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestKeyValueState = KeyValueStateMachine.TestCase


FIRST = AttemptScope(Fence(1, 1), 0, "a" * 32)
SECOND = AttemptScope(Fence(1, 2), 1, "b" * 32, 0, "a" * 32)


def second_wave(storage: StateStorage, scope: AttemptScope = SECOND, **options: Any) -> KeyValueState[Any, Any]:
    """Return a state in the wave after aaa… was committed, under the attempt bbb…"""
    state: KeyValueState[Any, Any] = KeyValueState(storage, **options)
    state.begin(scope)
    return state


def first_wave(storage: StateStorage, **options: Any) -> KeyValueState[Any, Any]:
    """Return a state in the first wave, under the attempt aaa…"""
    return second_wave(storage, FIRST, **options)


@pytest.fixture
def state() -> KeyValueState[Any, Any]:
    return first_wave(MemoryStateProvider().open("t:count-0"))


@pytest.mark.parametrize("key", [["a"], {"a": 1}, {1}, ("a", ["b"]), bytearray(b"a")])
def test_a_mutable_key_is_refused_and_named(state: KeyValueState[Any, Any], key: Any) -> None:
    with pytest.raises(UnsupportedValue, match="t:count-0"):
        state.put(key, 1)
    assert dict(state.items()) == {}


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        *((MsgpackCodec(), value) for value in (object(), [object()], {"a": {1: lambda: 0}}, "\ud800", Ellipsis)),
        *((PickleCodec(), value) for value in ([lambda: 0], [(number for number in ())])),
    ],
)
def test_an_unsupported_value_is_refused_and_the_old_one_stays(codec: Codec, value: Any) -> None:
    state = first_wave(MemoryStateProvider().open("t:count-0"), value_codec=codec)
    state.put("key", 1)
    with pytest.raises(UnsupportedValue, match="'key'"):
        state.put("key", value)
    assert state["key"] == 1


def test_the_mapping_protocol(state: KeyValueState[Any, Any]) -> None:
    state["a"] = 1
    state.put_many({"b": 2, "c": 3})
    assert state["a"] == 1
    assert "b" in state
    assert sorted(state) == sorted(state.keys()) == ["a", "b", "c"]
    assert sorted(state.values()) == [1, 2, 3]
    del state["a"]
    with pytest.raises(KeyError, match="a"):
        state["a"]
    with pytest.raises(KeyError, match="a"):
        del state["a"]
    assert state.get_many(["a", "b"]) == {"b": 2}
    state.delete_many(["b", "c"])
    assert not state


def test_a_state_is_refused_outside_a_wave() -> None:
    with pytest.raises(StateError, match="outside a wave"):
        KeyValueState(MemoryStateProvider().open("n")).get("a")


def committed_store(codec: Any = None) -> MemoryStateProvider:
    provider = MemoryStateProvider()
    state = first_wave(provider.open("n"), key_codec=codec, value_codec=codec)
    state["a"] = 1
    state.commit()
    return provider


USES = {"read": lambda state: state.get("a"), "write": lambda state: (state.put("b", 1), state.commit())}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(
    ("codec", "fence", "scope", "error"),
    [
        (JsonCodec(), Fence(1, 1), SECOND, CodecMismatch),
        (None, Fence(2, 0), SECOND, Fenced),
        (None, Fence(1, 1), AttemptScope(Fence(1, 9), 4, "b" * 32, 3, "c" * 32), StateRegressed),
    ],
)
def test_a_namespace_that_is_not_as_the_driver_expects_is_refused_at_the_first_read_and_write(
    use: Any, codec: Codec | None, fence: Fence, scope: AttemptScope, error: type[StateError]
) -> None:
    storage = committed_store(codec).open("n")
    storage.raise_fence(fence)
    with pytest.raises(error) as caught:
        use(second_wave(storage, scope))
    if isinstance(caught.value, StateRegressed):
        assert "txid 3" in caught.value.expected
        assert "txid 0" in caught.value.found


def test_what_an_abandoned_attempt_had_staged_already_is_forgotten() -> None:
    state = second_wave(committed_store().open("n"), pending_entries=1)
    state["a"] = 5  # staged at once
    state.begin(AttemptScope(Fence(1, 3), 1, "c" * 32, 0, "a" * 32))
    assert state["a"] == 1


def test_a_numpy_scalar_is_the_same_key_as_the_plain_value(state: KeyValueState[Any, Any]) -> None:
    state[np.int64(1)] = 5
    assert state[1] == 5
    state[1] = 7
    assert state[np.int64(1)] == 7
    assert dict(state.items()) == {1: 7}


def test_ints_of_any_size_are_kept_and_too_large_ones_refused_in_put(state: KeyValueState[Any, Any]) -> None:
    for number in (2**62, 2**63, 2**64, -(2**63) - 1, 2**100):
        state[number] = number
        assert state[number] == number
    with pytest.raises(UnsupportedValue, match="'key'"):
        state["key"] = 1 << 40_000


@pytest.mark.parametrize("codec", [MsgpackCodec(), JsonCodec()])
def test_what_is_larger_than_the_store_takes_is_refused_in_put_with_what_to_do(codec: Codec) -> None:
    storage = MemoryStateProvider().open("t:count-0")
    storage.limits = SizeLimits(20, 100, "Raise the limit")
    state = first_wave(storage, key_codec=codec, value_codec=codec)
    for value in ("v" * 101, "é" * 51, ["v" * 90, "v" * 10], "\x00" * 101):
        with pytest.raises(UnsupportedValue, match=r"'k' has \d+ bytes.*100 at most. Raise the limit"):
            state["k"] = value
    with pytest.raises(UnsupportedValue, match="20 at most"):
        state["k" * 21] = 1
    fitting = {"k" * 10: "v" * 90, "short": ["v"] * 5, "é": "é" * 10}
    state.put_many(fitting)
    assert state.get_many(fitting) == fitting
    state.commit()
    state.begin(SECOND)
    assert dict(state.items()) == fitting


def noted_slices(storage: StateStorage) -> list[int]:
    """Return a list that gets the size of each slice that is staged from now on."""
    sizes, stage = list[int](), storage.stage

    def noting(staged: StagedSlice) -> Seal:
        sizes.append(len(staged.packed))
        return stage(staged)

    storage.stage = noting  # type: ignore[method-assign]
    return sizes


def test_puts_alone_do_not_make_memory_grow_with_the_batch() -> None:
    storage, budget = MemoryStateProvider().open("n"), cache_budget.CacheBudget(100)
    sizes = noted_slices(storage)
    state = first_wave(storage, pending_entries=50, budget=budget)
    for number in range(5000):
        state[number] = number
    assert (budget.entries <= 100, len(sizes)) == (True, 5000 // 50)
    assert state[7] == 7
    assert len(state) == 5000


def test_what_is_known_of_another_attempts_commit_is_forgotten() -> None:
    provider = committed_store()
    state = second_wave(provider.open("n"))
    assert state["a"] == 1
    other = second_wave(provider.open("n"), AttemptScope(Fence(1, 3), 1, "c" * 32, 0, "a" * 32))
    other["a"] = "changed"
    other.commit()
    state.begin(AttemptScope(Fence(1, 4), 2, "d" * 32, 1, "c" * 32))
    assert state["a"] == "changed"


def test_a_large_value_put_while_memory_is_short_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_cache, "_PENDING_BYTES", 1000)
    state = first_wave(MemoryStateProvider().open("n"), cache_entries=1)
    for number in range(50):
        state[number] = ["x" * 600]
    state.prepare_commit(0)
    assert dict(state.items()) == {number: ["x" * 600] for number in range(50)}


def test_large_values_are_staged_in_slices_of_some_mib_and_do_not_stay_in_memory_for_ever() -> None:
    storage = MemoryStateProvider().open("n")
    sizes = noted_slices(storage)
    state = first_wave(storage)
    for number in range(150):
        state[number] = [b"x" * 1_000_000]
    assert sizes, "nothing was staged before the wave's end"
    state.commit()
    assert sum(sizes) > 150_000_000
    assert max(sizes) < 6 << 20
    again = second_wave(storage)
    for number in range(150):
        assert again[number] == [b"x" * 1_000_000]
    assert 0 < again.evict(0)[0] < 70
