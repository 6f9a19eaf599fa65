"""Spellings of one key in a state, and namespaces of a version that encoded keys as they were, in every store."""

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from anchorbolt.errors import CodecMismatch, UnsupportedValue
from anchorbolt.serialization import MsgpackCodec
from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.contract import Fence, StateProvider, StateStorage
from anchorbolt.state_backends.state import AttemptScope
from tests.support.keys import UTC

FIRST = dt.datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))


class Namespace:
    """One namespace, wave by wave, each by a state of its own."""

    def __init__(self, provider: StateProvider) -> None:
        self.provider = provider
        self.opened: list[StateStorage] = []
        self.waves = 0

    def open(self) -> StateStorage:
        self.opened.append(self.provider.open("t:count-0"))
        return self.opened[-1]

    def wave(self, **options: Any) -> KeyValueState[Any, Any]:
        state: KeyValueState[Any, Any] = KeyValueState(self.open(), **options)
        winner = f"{self.waves:032x}" if self.waves else ""
        self.waves += 1
        state.begin(AttemptScope(Fence(1, self.waves), self.waves - 1, f"{self.waves:032x}", self.waves - 2, winner))
        return state

    @property
    def header(self) -> str:
        return self.open().head().codec


@pytest.fixture
def namespace(each_provider: StateProvider) -> Iterator[Namespace]:
    namespace = Namespace(each_provider)
    yield namespace
    for storage in namespace.opened:
        storage.close()


def test_equal_keys_of_several_types_stay_apart_in_a_state(namespace: Namespace) -> None:
    state = namespace.wave()
    keys = [1, 1.0, True, Decimal(1), ("x", 1), ("x", True), ("x", 1.0)]
    for number, key in enumerate(keys):
        state[key] = number
    state.prefetch(set(keys))
    assert [state[key] for key in keys] == list(range(7))
    assert state.get_many([1, ("x", True), 2]) == {1: 0, ("x", True): 5}
    with pytest.raises(UnsupportedValue, match="get_many"):
        state.get_many([1, True])
    assert state.delete(True) == 2
    assert len(state) == 6
    assert (state.get(True), state[1], state[1.0]) == (None, 0, 1)


@pytest.mark.parametrize("reads", [True, False])
def test_an_older_namespace_goes_on_with_keys_of_one_spelling(reads: bool, namespace: Namespace) -> None:
    old = namespace.wave(key_codec=MsgpackCodec())
    old.put_many({"a": 1, ("b", 2): 2, 1.5: 3, None: 4})
    old.commit()
    state = namespace.wave()
    if reads:
        assert [state.get(key) for key in ("a", ("b", 2), 1.5, None)] == [1, 2, 3, 4]
    state.put_many({"a": 10, ("b", 2): 20, ("c", True): 5})
    state.commit()
    assert namespace.header == "keys msgpack/1, values msgpack/1"
    assert dict(namespace.wave()) == {"a": 10, ("b", 2): 20, 1.5: 3, None: 4, ("c", True): 5}


@pytest.mark.parametrize("key", [0.0, Decimal("1.0"), FIRST, dt.time(1, tzinfo=UTC), ("a", (-0.0,)), 0j], ids=repr)
@pytest.mark.parametrize("use", ["get", "put", "delete"])
def test_an_older_namespace_refuses_a_key_of_several_spellings(key: Any, use: str, namespace: Namespace) -> None:
    old = namespace.wave(key_codec=MsgpackCodec())
    old.put("a", 1)
    old.commit()
    state = namespace.wave()
    with pytest.raises(CodecMismatch, match="migrate copy"):
        state.put(key, 1) if use == "put" else getattr(state, use)(key)
    with pytest.raises(CodecMismatch):  # a bolt that goes on after it
        state.prepare_commit(1)
    namespace.waves -= 1
    state = namespace.wave()
    state.prefetch([key, "a"])  # by its grouping, although the bolt does not use it as a key
    assert state["a"] == 1


def test_a_new_namespace_takes_each_key_and_is_refused_by_an_older_version(namespace: Namespace) -> None:
    state = namespace.wave()
    state.put_many({Decimal("1.0"): 1, "a": 2})
    state.commit()
    assert namespace.header == "keys msgpack/2, values msgpack/1"
    assert namespace.wave().get(Decimal("1.00")) == 1
    with pytest.raises(CodecMismatch):
        namespace.wave(key_codec=MsgpackCodec()).get("a")
