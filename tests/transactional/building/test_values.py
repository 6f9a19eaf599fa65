"""The update rules of values: each batch counts once, and of several tries of a batch the last one."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import StateCorrupted, StateError
from anchorbolt.serialization import pack, unpack
from anchorbolt.transactional import OpaqueValue, TransactionalValue, update_opaque, update_transactional


def appending(*items: Any) -> Callable[[Any], Any]:
    """Return a function that appends to a list: it shows order and repetition."""
    return lambda old: [*(old or []), *items]


def never(old: Any) -> Any:
    raise AssertionError("called for a batch that is stored")


@given(st.lists(st.tuples(st.lists(st.integers()), st.integers(1, 3)), max_size=6))
def test_transactional_updates_with_any_replays_give_what_each_batch_gives_once(
    batches: list[tuple[list[int], int]],
) -> None:
    stored: TransactionalValue[Any] | None = None
    for txid, (items, tries) in enumerate(batches, start=1):
        for _ in range(tries):
            stored = update_transactional(stored, txid, appending(*items))
    assert (stored.value if stored else []) == [item for items, _ in batches for item in items]


@given(st.lists(st.lists(st.lists(st.integers()), min_size=1, max_size=3), max_size=6))
def test_opaque_updates_with_replays_of_other_tuples_count_the_last_try(batches: list[list[list[int]]]) -> None:
    stored: OpaqueValue[Any] | None = None
    for txid, tries in enumerate(batches, start=1):
        for items in tries:
            stored = update_opaque(stored, txid, appending(*items))
    assert (stored.value if stored else []) == [item for tries in batches for item in tries[-1]]


def test_a_transactional_replay_keeps_what_is_stored_and_does_not_call_the_function() -> None:
    stored = TransactionalValue(5, 3)
    assert update_transactional(stored, 3, never) is stored
    assert update_transactional(stored, 7, lambda old: (old or 0) + 1) == TransactionalValue(6, 7)
    assert update_transactional(None, 1, appending(7)) == TransactionalValue([7], 1)


def test_a_value_that_a_later_batch_updated_is_refused() -> None:
    with pytest.raises(StateError, match="another history"):
        update_transactional(TransactionalValue(1, 9), 8, never)
    with pytest.raises(StateError, match="another history"):
        update_opaque(OpaqueValue(1, 9), 8, never)


@pytest.mark.parametrize("value", [TransactionalValue("a", 3), OpaqueValue(2, 3), OpaqueValue([2], 3, [1])])
def test_values_survive_json_and_msgpack(value: TransactionalValue[Any] | OpaqueValue[Any]) -> None:
    kind = type(value)
    assert kind.decode(json.loads(json.dumps(value.encode()))) == value
    assert kind.decode(unpack(pack(value.encode()))) == value
    assert kind.decode(tuple(value.encode())) == value


@pytest.mark.parametrize("kind", [TransactionalValue, OpaqueValue])
@pytest.mark.parametrize("wrong", [None, 7, "ab", [], [1], ["a", "b"], ["a", True], ["a", 0, None], ["a", 1, 2, 3]])
def test_what_encode_did_not_write_is_refused(
    kind: type[TransactionalValue[Any] | OpaqueValue[Any]], wrong: Any
) -> None:
    with pytest.raises(StateCorrupted):
        kind.decode(wrong)


def test_one_kind_of_value_is_not_read_as_the_other() -> None:
    with pytest.raises(StateCorrupted):
        TransactionalValue.decode(OpaqueValue(1, 1).encode())
    with pytest.raises(StateCorrupted):
        OpaqueValue.decode(TransactionalValue(1, 1).encode())
