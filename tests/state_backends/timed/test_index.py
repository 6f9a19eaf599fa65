"""The index by time yields every item once, the earliest first, whatever the waves and the restarts."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from anchorbolt.errors import StateCorrupted
from anchorbolt.serialization.codecs import INDEX_TAG
from anchorbolt.state_backends.timed import index as index_module
from anchorbolt.state_backends.timed.index import IndexClock, Item, TimeIndex

HOUR = 3_600_000


class Store:
    """The committed entries of a namespace, and the reads of an index."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        self.most_read = 0

    def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.most_read = max(self.most_read, len(keys))
        return [self.entries.get(key) for key in keys]

    def apply(self, updates: dict[bytes, bytes | None]) -> None:
        for key, value in updates.items():
            assert key.startswith(INDEX_TAG)
            if value is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = value


class IndexMachine(RuleBasedStateMachine):
    """An index of two clocks beside two lists."""

    @initialize(items=st.sampled_from((1, 2, 3, 4096)), tail=st.sampled_from((1, 3, 256)), tails=st.integers(0, 2))
    def start(self, items: int, tail: int, tails: int) -> None:
        index_module._CHUNK_ITEMS, index_module._TAIL_ITEMS, index_module._TAILS_KEPT = items, tail, tails
        index_module._CHUNKS_AT_ONCE = 2
        self.store = Store()
        self.index = TimeIndex("t", self.store.read)
        self.present = dict.fromkeys(IndexClock, 0)
        self.items: dict[IndexClock, list[Item]] = {clock: [] for clock in IndexClock}
        self.number = 0

    def teardown(self) -> None:
        index_module._CHUNK_ITEMS, index_module._TAIL_ITEMS, index_module._TAILS_KEPT = 4096, 256, 64
        index_module._CHUNKS_AT_ONCE = 16

    @rule(
        clock=st.sampled_from(IndexClock),
        after=st.lists(st.one_of(st.integers(-50, 300), st.integers(0, 30 * 24 * HOUR)), min_size=1, max_size=12),
        is_known=st.booleans(),
    )
    def add(self, clock: IndexClock, after: list[int], is_known: bool) -> None:
        now = self.present[clock]
        items = []
        for each in after:
            self.number += 1
            items.append((now + each, b"%d" % self.number))
        self.index.add(clock, items, now if is_known else None)
        self.items[clock] += items

    @rule(
        clock=st.sampled_from(IndexClock),
        ahead=st.one_of(st.integers(0, 300), st.integers(0, 40 * 24 * HOUR)),
        most=st.integers(1, 30),
    )
    def take(self, clock: IndexClock, ahead: int, most: int) -> None:
        self.present[clock] += ahead
        until = self.present[clock]
        due = sorted(item for item in self.items[clock] if item[0] <= until)
        taken = self.index.take(clock, until, most)
        assert len(taken) == min(most, len(due))
        if len(due) <= 4 * most:
            assert [item[0] for item in taken] == [item[0] for item in due[:most]]
        assert taken == sorted(taken)
        assert set(taken) <= set(due)
        for item in taken:
            self.items[clock].remove(item)

    @rule()
    def flush(self) -> None:
        self.store.apply(self.index.flush())
        for clock, items in self.items.items():
            assert self.index.next_due(clock) == min((item[0] for item in items), default=None)
            assert self.index.size(clock) == len(items)

    @rule()
    def restart(self) -> None:
        self.store.apply(self.index.flush())
        self.index = TimeIndex("t", self.store.read)

    @rule()
    def forget(self) -> None:
        self.store.apply(self.index.flush())
        self.index.forget()

    @invariant()
    def nothing_is_kept_of_an_empty_index(self) -> None:
        if hasattr(self, "index") and not any(self.items.values()):
            self.store.apply(self.index.flush())
            assert not self.store.entries


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


def test_a_million_items_due_at_once_are_taken_in_bounded_parts() -> None:
    store = Store()
    index = TimeIndex("t", store.read)
    keys = list(range(1_000_000))
    random.Random(5).shuffle(keys)
    for start in range(0, len(keys), 100_000):
        index.add(IndexClock.PROCESSING, [(60_000, b"%07d" % key) for key in keys[start : start + 100_000]], 0)
        store.apply(index.flush())
    found = []
    while some := index.take(IndexClock.PROCESSING, 70_000, 100_000):
        assert len(some) == 100_000
        found += some
        store.apply(index.flush())
    assert len(set(found)) == 1_000_000
    assert store.most_read <= 16
    assert not store.entries


def test_times_far_ahead_need_few_buckets() -> None:
    store = Store()
    index = TimeIndex("t", store.read)
    chosen = random.Random(3)
    index.add(IndexClock.PROCESSING, [(chosen.randrange(365 * 24 * HOUR), b"%d" % n) for n in range(50_000)], 0)
    store.apply(index.flush())
    assert sum(key.startswith(INDEX_TAG + b"b") for key in store.entries) < 64 * 36


def test_a_damaged_entry_is_an_error_that_names_it() -> None:
    store = Store()
    index = TimeIndex("orders:bolt-0", store.read)
    index.add(IndexClock.PROCESSING, [(5, b"a")], 0)
    store.apply(index.flush())
    for key in store.entries:
        store.entries[key] = b"\xc1"
    with pytest.raises(StateCorrupted) as caught:
        TimeIndex("orders:bolt-0", store.read).take(IndexClock.PROCESSING, 10, 1)
    assert caught.value.namespace == "orders:bolt-0"
