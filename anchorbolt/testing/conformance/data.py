"""Conformance: any bytes, many of them, and large ones."""

import pytest

from anchorbolt.state_backends.contract import StateStorage
from anchorbolt.testing.conformance.base import (
    FIRST,
    ConformanceBase,
    committed,
    entries,
    new_attempt,
    stage,
    stage_slice,
    staged,
)

_MANY = 20_000


class DataConformance(ConformanceBase):
    """Entries are read back as they were written."""

    def test_values_come_in_the_order_of_the_keys(self, storage: StateStorage) -> None:
        committed(storage, [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
        assert storage.get_many([b"c", b"x", b"a", b"c", b"b"]) == [b"3", None, b"1", b"3", b"2"]
        assert storage.get_many([]) == []

    def test_keys_and_values_are_any_bytes(self, storage: StateStorage) -> None:
        single = [bytes([number]) for number in range(256)]
        parts = [b"", *single, bytes(range(256)), b"\x00\x00", b"\xff" * 9]
        parts += [b"$prepare", "ключ".encode(), b"a'\"`;%*?[]\\"]
        updates = dict(zip(parts, reversed(parts), strict=True))
        attempt = staged(storage, list(updates.items()))
        assert entries(storage, attempt) == updates
        assert storage.get_many(parts, attempt) == list(updates.values())
        storage.commit(FIRST, 0, attempt)
        assert entries(storage) == updates
        assert storage.get_many(parts) == list(updates.values())
        committed(storage, [(part, None) for part in parts], txid=1, base=0)
        assert entries(storage) == {}

    def test_keys_may_be_long_and_values_large(self, storage: StateStorage) -> None:
        long_keys = [bytes([number]) * 30_000 for number in range(3)]
        updates = {key: bytes([number]) * 1_000_000 for number, key in enumerate(long_keys)}
        for txid in range(2):
            attempt = staged(storage, *([item] for item in updates.items()), txid=txid, base=txid - 1)
            assert storage.get_many(long_keys, attempt) == list(updates.values())
            storage.commit(FIRST, txid, attempt)
        assert storage.get_many(long_keys) == list(updates.values())
        assert entries(storage, page_size=2) == updates

    def test_a_slice_of_many_large_values_is_committed(self, storage: StateStorage) -> None:
        updates = {b"%d" % number: bytes([number]) * 200_000 for number in range(40)}
        committed(storage, list(updates.items()))
        assert entries(storage, page_size=10) == updates

    @pytest.mark.parametrize("slice_size", [2_000, 7_919])
    def test_many_keys_are_staged_read_committed_and_scanned(self, storage: StateStorage, slice_size: int) -> None:
        keys = [b"key-%d" % number for number in range(_MANY)]
        before = dict.fromkeys(keys[: _MANY // 2], b"old")
        committed(storage, *_sliced(list(before.items()), slice_size))
        # Some are changed, some deleted, some added, some unchanged.
        updates = {key: None if number % 3 == 0 else b"new" for number, key in enumerate(keys) if number % 4}
        expected = {key: value for key, value in {**before, **updates}.items() if value is not None}

        attempt = staged(storage, *_sliced(list(updates.items()), slice_size), txid=1, base=0)
        assert storage.get_many(keys) == [before.get(key) for key in keys]
        assert storage.get_many(keys[::-1], attempt) == [expected.get(key) for key in keys[::-1]]
        assert entries(storage) == before
        assert entries(storage, attempt) == expected

        storage.commit(FIRST, 1, attempt)
        assert storage.get_many(keys) == [expected.get(key) for key in keys]
        assert entries(storage) == expected
        assert len(list(storage.scan(page_size=500))) > 1
        assert storage.head().attempts == {}

    @pytest.mark.parametrize("parts", [1, 2, 7])
    def test_ranges_hold_each_entry_once(self, storage: StateStorage, parts: int) -> None:
        assert [page for each in storage.ranges(parts) for page in storage.scan_range(each)] == []
        keys = [b"", b"\x00", b"\xff\xff\xff", *(b"key-%d" % number for number in range(3_000))]
        for txid, some in enumerate((keys[3:4], keys[3:], keys)):
            committed(storage, [(key, b"v") for key in some], txid=txid, base=txid - 1)
            ranges = storage.ranges(parts)
            assert len(ranges) <= parts
            found = [key for each in ranges for page in storage.scan_range(each, 500) for key, _ in page]
            assert sorted(found) == sorted(some)

    def test_many_losers_leave_nothing_behind(self, storage: StateStorage) -> None:
        for number in range(20):
            stage(storage, [(b"%d-%d" % (number, key), b"x") for key in range(100)])
        assert len(storage.head().attempts) == 20
        committed(storage, [(b"a", b"1")])
        assert storage.head().attempts == {}
        assert entries(storage) == {b"a": b"1"}

    def test_a_store_that_counts_its_entries_counts_those_that_are_committed(self, storage: StateStorage) -> None:
        assert storage.count() in (None, 0)
        attempt = staged(storage, [(b"%d" % number, b"v") for number in range(300)])
        assert storage.count() in (None, 0)
        storage.commit(FIRST, 0, attempt)
        assert storage.count() in (None, 300)
        committed(storage, [(b"0", None), (b"1", b"w"), (b"new", b"v")], txid=1, base=0)
        assert storage.count() in (None, 300)

    def test_a_store_that_tells_its_size_tells_it_in_bytes(self, storage: StateStorage) -> None:
        before = storage.size()
        committed(storage, [(b"%d" % number, b"v" * 1_000) for number in range(300)])
        size = storage.size()
        assert (size is None) == (before is None)
        if size is not None and before is not None:
            assert before < 100_000
            assert 200_000 < size < 3_000_000

    def test_reads_may_stand_between_the_pages_of_a_scan(self, storage: StateStorage) -> None:
        updates = {b"%d" % number: b"v" for number in range(3_000)}
        committed(storage, list(updates.items()))
        attempt = new_attempt()
        found: dict[bytes, bytes] = {}
        for number, page in enumerate(storage.scan(page_size=300)):
            found.update(page)
            assert storage.get_many([page[0][0]]) == [b"v"]
            stage_slice(storage, attempt, number, {b"new-%d" % number: b"w"}, txid=1, base=0)
        assert found == updates


def _sliced(items: list[tuple[bytes, bytes | None]], size: int) -> list[list[tuple[bytes, bytes | None]]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
