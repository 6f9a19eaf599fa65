"""Spellings of one key in a state, and namespaces of a version that encoded keys as they were, in every store."""

import datetime as dt
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from anchorbolt.errors import CodecMismatch, UnsupportedValue
from anchorbolt.serialization import MsgpackCodec
from anchorbolt.state_backends.contract import StateProvider
from tests.state_backends.namespaces import Namespace
from tests.support.keys import UTC

FIRST = dt.datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))


@pytest.fixture
def namespace(each_provider: StateProvider) -> Namespace:
    return Namespace(each_provider)


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
    namespace.commit(old)
    state = namespace.wave()
    if reads:
        assert [state.get(key) for key in ("a", ("b", 2), 1.5, None)] == [1, 2, 3, 4]
    state.put_many({"a": 10, ("b", 2): 20, ("c", True): 5})
    namespace.commit(state)
    assert namespace.header() == "keys msgpack/1, values msgpack/1"
    assert dict(namespace.wave()) == {"a": 10, ("b", 2): 20, 1.5: 3, None: 4, ("c", True): 5}


@pytest.mark.parametrize("key", [0.0, Decimal("1.0"), FIRST, dt.time(1, tzinfo=UTC), ("a", (-0.0,)), 0j], ids=repr)
@pytest.mark.parametrize("use", ["get", "put", "delete"])
def test_an_older_namespace_refuses_a_key_of_several_spellings(key: Any, use: str, namespace: Namespace) -> None:
    old = namespace.wave(key_codec=MsgpackCodec())
    old.put("a", 1)
    namespace.commit(old)
    state = namespace.wave()
    with pytest.raises(CodecMismatch, match="migrate copy"):
        state.put(key, 1) if use == "put" else getattr(state, use)(key)
    with pytest.raises(CodecMismatch):  # a bolt that goes on after it
        state.prepare_commit(1)
    state = namespace.wave()
    state.prefetch([key, "a"])  # by its grouping, although the bolt does not use it as a key
    assert state["a"] == 1


def test_a_new_namespace_takes_each_key_and_is_refused_by_an_older_version(namespace: Namespace) -> None:
    state = namespace.wave()
    state.put_many({Decimal("1.0"): 1, "a": 2})
    namespace.commit(state)
    assert namespace.header() == "keys msgpack/2, values msgpack/1"
    assert namespace.wave().get(Decimal("1.00")) == 1
    with pytest.raises(CodecMismatch):
        namespace.wave(key_codec=MsgpackCodec()).get("a")
