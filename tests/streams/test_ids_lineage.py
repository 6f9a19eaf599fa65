"""Ids are unique and never zero; a blob carries its lineage unchanged, whole or sliced."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import SerializationError
from anchorbolt.serialization import pack, unpack
from anchorbolt.streams import lineage as ids_module
from anchorbolt.streams.lineage import IdSource, Lineage, ids_of, lineage_of, mix, number_of
from anchorbolt.streams.tuple import Item, union

ROOTS = st.integers(1, 2**64 - 1)
ITEMS = st.lists(st.one_of(ROOTS, st.lists(ROOTS, max_size=3, unique=True).map(tuple)), max_size=8)


def as_array(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def test_mix_is_the_finaliser_of_splitmix64() -> None:
    # Steele, Lea and Flood; the first outputs of the generator with the seed 0.
    gamma = 0x9E3779B97F4A7C15
    states = as_array(*((gamma * step) % 2**64 for step in (1, 2, 3)))
    assert mix(states).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_mix_can_be_reversed_and_does_not_change_its_argument(numbers: list[int]) -> None:
    given_numbers = as_array(*numbers)
    assert [number_of(mixed) for mixed in mix(given_numbers).tolist()] == numbers == given_numbers.tolist()


def test_a_source_repeats_its_blocks_for_the_same_seed_only() -> None:
    first, same, other = IdSource("attempt 1"), IdSource("attempt 1"), IdSource("attempt 2")
    drawn = [first.draw(3), first.draw(2)]
    assert drawn == [same.draw(3), same.draw(2)]
    found = np.concatenate([ids_of(drawn[0], 3), ids_of(drawn[1], 2), ids_of(other.draw(5), 5)])
    assert len(set(found.tolist())) == 10


@pytest.mark.parametrize("start", [0, 2**64 - 1, 2**64 - 2, 2**64 - 3])
def test_no_id_is_zero_where_the_numbers_begin_again(start: int) -> None:
    source = IdSource("any")
    source._next = start
    bases = [source.draw(2), source.draw(1), source.draw(3)]
    found = np.concatenate([ids_of(base, count) for base, count in zip(bases, (2, 1, 3), strict=True)])
    assert 0 not in found
    assert len(set(found.tolist())) == 6


@given(ITEMS)
def test_a_lineage_arrives_as_it_was_sent(items: list[Item]) -> None:
    lineage = lineage_of(items, IdSource("any"))
    if lineage is None:
        assert all(item == () for item in items)
        return
    arrived = Lineage.from_parts(unpack(pack(lineage.parts())), len(items))
    assert arrived.items() == [item[0] if isinstance(item, tuple) and len(item) == 1 else item for item in items]
    assert arrived.ids().tolist() == lineage.ids().tolist()
    assert len(set(lineage.ids().tolist())) == len(arrived) == len(items)


@given(ITEMS, st.integers(-9, 9), st.integers(-9, 9))
def test_a_slice_has_the_items_and_ids_of_its_tuples(items: list[Item], start: int, stop: int) -> None:
    lineage = lineage_of(items, IdSource("any"))
    if lineage is not None:
        part = lineage[start:stop]
        assert part.items() == lineage.items()[start:stop]
        assert part.ids().tolist() == lineage.ids().tolist()[start:stop]


def test_a_lineage_is_not_sliced_in_other_steps() -> None:
    with pytest.raises(ValueError, match="2"):
        Lineage(1, as_array(1, 2, 3))[::2]


def test_a_blob_without_roots_has_no_lineage_and_takes_no_ids() -> None:
    source = IdSource("any")
    before = source._next
    assert lineage_of([], source) is None
    assert lineage_of([(), ()], source) is None
    assert source._next == before


def test_a_block_of_ids_is_drawn_once_for_each_blob() -> None:
    source = IdSource("any")
    for items in ([5, 6], [5, (6, 7)]):
        base = source._next
        lineage = lineage_of(items, source)
        assert lineage is not None
        assert (lineage.base, source._next) == (base, base + 2)


def test_tuples_with_one_root_each_need_no_counts() -> None:
    lineage = lineage_of([5, (6,), (7, 7)], IdSource("any"))
    assert lineage is not None
    assert lineage.counts is None
    assert lineage.items() == [5, 6, 7]


def test_a_root_that_occurs_twice_in_a_tuple_counts_once() -> None:
    lineage = lineage_of([(5, 6, 5)], IdSource("any"))
    assert lineage is not None
    assert lineage.items() == [(5, 6)]
    assert union([(5, 6), 6, (), (7, 5)]) == (5, 6, 7)
    assert union([5, (5,)]) == 5
    assert union([(), ()]) == ()


ONE, TWO = as_array(1).tobytes(), as_array(1, 2).tobytes()
COUNTS = np.array([2, 0], np.uint32).tobytes()


def test_counts_are_read_with_their_roots() -> None:
    assert Lineage.from_parts([1, TWO, COUNTS], 2).items() == [(1, 2), ()]


@pytest.mark.parametrize(
    ("parts", "size"),
    [
        (None, 1),
        ([1, ONE], 1),
        ([1, ONE, None, None], 1),
        (["1", ONE, None], 1),
        ([-1, ONE, None], 1),
        ([2**64, ONE, None], 1),
        ([True, ONE, None], 1),
        ([1, ONE[:-1], None], 1),
        ([1, "text", None], 1),
        ([1, None, None], 1),
        ([1, TWO, None], 1),
        ([1, ONE, None], 2),
        ([1, TWO, COUNTS], 1),
        ([1, ONE, COUNTS], 2),
        ([1, TWO, COUNTS[:-1]], 2),
        ([1, TWO, "text"], 2),
        ([1, TWO, np.array([2**32 - 1, 3], np.uint32).tobytes()], 2),
    ],
)
def test_a_damaged_lineage_is_refused(parts: object, size: int) -> None:
    with pytest.raises(SerializationError):
        Lineage.from_parts(parts, size)


def test_ids_go_round_at_the_end_of_the_numbers() -> None:
    assert ids_of(2**64 - 1, 2).tolist() == [*ids_of(2**64 - 1, 1), *ids_of(0, 1)]
    assert Lineage(2**64 - 1, as_array(1, 2))[1:].base == 0
    assert ids_module.ids_of(7, 0).tolist() == []
