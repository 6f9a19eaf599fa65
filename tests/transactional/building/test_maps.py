"""The update rules of values, and maps over an outside store, which may fail after any part of a write."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import StateCorrupted, StateError
from anchorbolt.serialization import pack, unpack
from anchorbolt.transactional import (
    OpaqueMap,
    OpaqueValue,
    TransactionalMap,
    TransactionalValue,
    update_opaque,
    update_transactional,
)


class Unplugged(Exception):
    """The store failed in the middle of a write."""


class Store:
    """A backing map that keeps JSON, and counts its calls. `fails` chooses what a failing write still writes."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}
        self.calls: list[str] = []
        self.fails: Callable[[int], set[int] | None] = lambda size: None

    def multi_get(self, keys: Sequence[Any]) -> list[Any]:
        self.calls.append("get")
        found = (self.rows.get(json.dumps(key)) for key in keys)
        return [None if value is None else json.loads(value) for value in found]

    def multi_put(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        self.calls.append("put")
        written = self.fails(len(keys))
        for place, (key, value) in enumerate(zip(keys, values, strict=True)):
            if written is None or place in written:
                self.rows[json.dumps(key)] = json.dumps(value)
        if written is not None:
            raise Unplugged


def opaque(store: Store) -> OpaqueMap:
    return OpaqueMap(store, journal="journal-0")


def adding(number: int) -> Callable[[Any], int]:
    return lambda old: (old or 0) + number


def counts(words: str) -> dict[Any, Callable[[Any], int]]:
    return {word: adding(number) for word, number in Counter(words).items()}


@pytest.mark.parametrize("make", [TransactionalMap, opaque])
def test_values_are_updated_put_and_read_in_the_order_of_the_keys(
    make: Callable[[Store], TransactionalMap | OpaqueMap],
) -> None:
    values = make(Store())
    assert values.multi_update(1, counts("aab")) == {"a": 2, "b": 1}
    assert values.multi_update(2, counts("bc")) == {"b": 2, "c": 1}
    values.multi_put(3, {"c": 10})
    assert values.multi_get(["c", "a", "none", "b", "c"]) == [10, 2, None, 2, 10]


def test_a_transactional_update_needs_one_read_and_one_write_and_a_replay_no_write() -> None:
    store = Store()
    values = TransactionalMap(store)
    values.multi_update(1, counts("abc"))
    values.multi_update(1, counts("abc"))
    values.multi_update(1, {})
    assert store.calls == ["get", "put", "get"]


def test_an_opaque_update_also_writes_its_journal_before() -> None:
    store = Store()
    values = opaque(store)
    values.multi_update(1, counts("abc"))
    values.multi_update(1, counts("abc"))  # the journal has these keys
    assert store.calls == ["get", "put", "put", "get", "put"]
    store.calls.clear()
    values.multi_update(2, {})
    assert store.calls == ["get"]


def test_an_opaque_update_takes_back_keys_that_the_last_try_does_not_have() -> None:
    store = Store()
    opaque(store).multi_update(1, counts("a"))
    opaque(store).multi_update(2, counts("aaxy"))
    opaque(store).multi_update(2, counts("y"))
    opaque(store).multi_update(3, counts("ax"))
    assert opaque(store).multi_get("axy") == [2, 1, 1]


def test_an_opaque_update_without_keys_takes_back_all() -> None:
    store = Store()
    opaque(store).multi_update(1, counts("ab"))
    opaque(store).multi_update(1, {})
    assert opaque(store).multi_get("ab") == [None, None]


def test_the_journal_knows_keys_that_json_made_lists_of() -> None:
    store = Store()
    opaque(store).multi_update(1, {("a", ("b", 1)): adding(1)})
    opaque(store).multi_update(1, {("a", ("b", 1)): adding(5), "c": adding(1)})
    opaque(store).multi_update(1, {"c": adding(1)})
    assert opaque(store).multi_get([("a", ("b", 1)), "c"]) == [None, 1]


# A try is its words and, if its writes fail, which write fails, and what it still writes.
Tries = list[tuple[str, tuple[int, set[int]] | None]]
words = st.text("abcd", max_size=6)
failures = st.tuples(st.integers(0, 1), st.sets(st.integers(0, 5)))


def run_tries(store: Store, make: Callable[[Store], TransactionalMap | OpaqueMap], txid: int, tries: Tries) -> None:
    """Try a batch. The last try always succeeds."""
    for number, (tuples, failure) in enumerate(tries):
        failing = None if number == len(tries) - 1 else failure
        puts = store.calls.count("put")

        def fails(size: int, failing: Any = failing, puts: int = puts) -> set[int] | None:
            return failing[1] if failing and store.calls.count("put") == puts + failing[0] + 1 else None

        store.fails = fails
        try:
            make(store).multi_update(txid, counts(tuples))
        except Unplugged:
            assert failing


@given(st.lists(st.tuples(words, st.lists(st.none() | failures, min_size=1, max_size=3)), max_size=6))
def test_transactional_maps_count_each_batch_once_however_its_writes_fail(
    batches: list[tuple[str, list[tuple[int, set[int]] | None]]],
) -> None:
    store = Store()
    for txid, (tuples, tries) in enumerate(batches, start=1):
        run_tries(store, TransactionalMap, txid, [(tuples, failure) for failure in tries])
    expected = Counter("".join(tuples for tuples, _ in batches))
    assert [value or 0 for value in TransactionalMap(store).multi_get("abcd")] == [expected[word] for word in "abcd"]


@given(st.lists(st.lists(st.tuples(words, st.none() | failures), min_size=1, max_size=4), max_size=6))
def test_opaque_maps_count_the_last_try_of_each_batch_however_writes_fail(batches: list[Tries]) -> None:
    store = Store()
    for txid, tries in enumerate(batches, start=1):
        run_tries(store, opaque, txid, tries)
    expected = Counter("".join(tries[-1][0] for tries in batches))
    assert [value or 0 for value in opaque(store).multi_get("abcd")] == [expected[word] for word in "abcd"]


@pytest.mark.parametrize("make", [TransactionalMap, opaque])
def test_a_store_of_another_history_is_refused_and_not_changed(
    make: Callable[[Store], TransactionalMap | OpaqueMap],
) -> None:
    store = Store()
    make(store).multi_update(9, counts("ab"))
    before = dict(store.rows)
    for functions in (counts("b"), counts("cb")):
        with pytest.raises(StateError):
            make(store).multi_update(8, functions)
    assert store.rows == before


def test_the_error_names_the_key_of_another_history() -> None:
    store = Store()
    TransactionalMap(store).multi_update(9, counts("b"))
    with pytest.raises(StateError, match="key 'b'"):
        TransactionalMap(store).multi_update(8, counts("ab"))


def test_a_value_of_another_kind_is_refused_with_its_key() -> None:
    store = Store()
    store.multi_put(["a", "b"], [TransactionalValue(1, 1).encode(), OpaqueValue(1, 1).encode()])
    with pytest.raises(StateCorrupted, match="key 'b'"):
        TransactionalMap(store).multi_get("ab")
    with pytest.raises(StateCorrupted, match="key 'a'"):
        opaque(store).multi_update(1, counts("ab"))


@pytest.mark.parametrize("stored", [TransactionalValue(7, 1), OpaqueValue(7, 1)])
def test_a_journal_at_the_key_of_a_value_is_refused(stored: TransactionalValue[int] | OpaqueValue[int]) -> None:
    store = Store()
    store.multi_put(["journal-0"], [stored.encode()])
    with pytest.raises(StateCorrupted, match="journal 'journal-0'"):
        opaque(store).multi_update(1, counts("ab"))


def test_a_backing_map_that_returns_too_few_values_is_named() -> None:
    class Short(Store):
        def multi_get(self, keys: Sequence[Any]) -> list[Any]:
            return [value for value in super().multi_get(keys) if value is not None]

    with pytest.raises(StateError, match="Short"):
        TransactionalMap(Short()).multi_get("ab")


def test_a_function_that_raises_writes_nothing() -> None:
    store = Store()
    with pytest.raises(ZeroDivisionError):
        opaque(store).multi_update(1, {"a": adding(1), "b": lambda old: 1 // 0})
    assert store.rows == {}


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
