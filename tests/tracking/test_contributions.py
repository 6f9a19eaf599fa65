"""What a task collects in a wave reaches the right acker, and a damaged blob is refused."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import SerializationError
from anchorbolt.serialization import pack, unpack
from anchorbolt.tracking.blob import Contribution, decode_blob
from anchorbolt.tracking.contributions import Contributions
from anchorbolt.tracking.placement import acker_of, apply_moves, moves_to
from anchorbolt.tracking.stored_trees import OpenTree

NUMBERS = st.integers(0, 2**64 - 1)
FEW_ROOTS = st.sampled_from([1, 2, 3, 4, 2**63, 2**64 - 1])


def as_array(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def sent(news: Contributions, ackers: int = 1, task_id: int = 3) -> list[Contribution]:
    return [decode_blob(blob) for blob in news.blobs(ackers, task_id)]


@given(st.lists(st.lists(st.tuples(FEW_ROOTS, NUMBERS), max_size=6), max_size=6), st.integers(1, 4))
def test_each_acker_gets_the_xor_of_its_roots(blobs: list[list[tuple[int, int]]], ackers: int) -> None:
    news = Contributions()
    expected: dict[int, int] = {}
    for place, pairs in enumerate(blobs):
        add = news.hold if place % 2 else news.release
        add(as_array(*(root for root, _ in pairs)), as_array(*(number for _, number in pairs)))
        for root, number in pairs:
            expected[root] = expected.get(root, 0) ^ number
    for acker, each in enumerate(sent(news, ackers)):
        assert dict(zip(each.roots.tolist(), each.xors.tolist(), strict=True)) == {
            root: xor for root, xor in expected.items() if xor and acker_of(root, ackers) == acker
        }


def test_news_other_than_xors_reach_the_acker_of_their_root() -> None:
    news = Contributions()
    news.hold(as_array(7, 4, 7), as_array(1, 2, 3))
    news.hold(as_array(4), as_array(5))
    news.reset(9)
    news.reset(2)
    news.reset(9)
    news.expire(as_array(6, 1))
    news.fail(5, "join", 0, "late")
    news.fail(8, "join", 0, "late")
    news.fail(3, "join", 0, "late")
    news.fail(5, "join", 1, "a later reason")
    even, odd = sent(news, 2)
    assert (even.held.tolist(), odd.held.tolist()) == ([4], [7])
    assert (even.reset.tolist(), odd.reset.tolist()) == ([2], [9])
    assert (even.expired.tolist(), odd.expired.tolist()) == ([6], [1])
    assert [(*each[:3], each.roots.tolist()) for each in even.failed] == [("join", 0, "late", [8])]
    assert [(*each[:3], each.roots.tolist()) for each in odd.failed] == [("join", 0, "late", [3, 5])]
    assert (even.task_id, odd.task_id) == (3, 3)


def test_opened_trees_reach_their_acker_with_their_message_ids() -> None:
    news = Contributions()
    news.open_trees(as_array(9, 4), [b"nine", b""])
    news.open_trees(as_array(3), [b"3"])
    even, odd = sent(news, 2)
    assert opened_of(even) == {4: b""}
    assert opened_of(odd) == {9: b"nine", 3: b"3"}


def opened_of(news: Contribution) -> dict[int, bytes]:
    opened = news.opened
    assert opened is not None
    msg_ids = opened.msg_ids_at(np.arange(len(opened.roots)))
    return dict(zip(opened.roots.tolist(), msg_ids, strict=True))


@pytest.mark.parametrize("ackers", [1, 3, 300])
def test_an_acker_without_news_gets_a_few_bytes(ackers: int) -> None:
    news = Contributions()
    blobs = news.blobs(ackers, 65_535)
    assert len(blobs) == ackers
    assert max(map(len, blobs)) <= 16
    assert decode_blob(blobs[-1]).size == 0


def test_a_reason_is_cut_and_may_hold_half_characters() -> None:
    news = Contributions()
    news.fail(5, "join", 0, "\ud800" + "x" * 10_000)
    reason = sent(news)[0].failed[0].reason
    assert reason.startswith("\\ud800xxx")
    assert len(reason) < 5_000


def a_blob() -> list[Any]:
    news = Contributions()
    news.hold(as_array(1, 2), as_array(8, 9))
    news.expire(as_array(1, 2))
    news.reset(1)
    news.fail(1, "join", 0, "late")
    news.open_trees(as_array(1, 2), [b"one", b"two"])
    (blob,) = news.blobs(1, 3)
    fields: list[Any] = unpack(blob)
    return fields


TWICE = as_array(1, 1).tobytes()
TWO = as_array(1, 2).tobytes()


def smalls(*numbers: int) -> bytes:
    return np.array(numbers, "<u4").tobytes()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, -1),
        (0, 65_536),
        (0, "3"),
        (0, True),
        (1, as_array(1).tobytes()),
        (1, b"1234567"),
        (1, TWICE),
        (1, as_array(2, 1).tobytes()),
        (1, None),
        (2, as_array(8).tobytes()),
        (2, "text"),
        (2, as_array(8, 0).tobytes()),
        *((place, value) for place in (3, 4, 5) for value in (TWICE, b"1", None)),
        (6, 7),
        (6, [[1]]),
        (6, [["join", 0, "late", TWICE]]),
        (6, [[b"join", 0, "late", TWO]]),
        (6, [["join", 0, None, TWO]]),
        (6, [["join", -1, "late", TWO]]),
        (7, 7),
        (7, []),
        (7, [TWO, smalls(0, 1), smalls(0, 3, 6)]),
        (7, [TWICE, smalls(0, 1), smalls(0, 3, 6), b"onetwo"]),
        (7, [TWO, smalls(0), smalls(0, 3, 6), b"onetwo"]),
        (7, [TWO, smalls(0, 2), smalls(0, 3, 6), b"onetwo"]),
        (7, [TWO, smalls(0, 1), smalls(0, 6), b"onetwo"]),
        (7, [TWO, smalls(0, 1), smalls(1, 3, 6), b"onetwo"]),
        (7, [TWO, smalls(0, 1), smalls(0, 3, 5), b"onetwo"]),
        (7, [TWO, smalls(0, 1), smalls(0, 7, 6), b"onetwo"]),
        (7, [TWO, smalls(0, 1), smalls(0, 3, 6), "onetwo"]),
        (7, [b"", b"", b"", b""]),
    ],
)
def test_a_damaged_blob_is_refused(place: int, value: object) -> None:
    fields = a_blob()
    assert fields[7] == [TWO, smalls(0, 1), smalls(0, 3, 6), b"onetwo"]
    decode_blob(pack(fields))
    fields[place] = value
    with pytest.raises(SerializationError):
        decode_blob(pack(fields))


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x00", pack([3]), pack([*a_blob(), 1])])
def test_bytes_that_are_no_blob_are_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        decode_blob(data)


@given(st.data())
def test_random_damage_is_refused_or_gives_a_blob(data: st.DataObject) -> None:
    blob = bytearray(pack(a_blob()))
    for _ in range(data.draw(st.integers(1, 3))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    with suppress(SerializationError):
        decode_blob(bytes(blob))


def test_moves_bring_each_tree_to_the_acker_that_keeps_it_now() -> None:
    class Trees(dict[int, OpenTree]):
        put, delete = dict.__setitem__, dict.__delitem__

    trees = {root: OpenTree(root, 1, 2, b"id") for root in range(1, 40)}
    for before in (1, 2, 5):
        for after in (1, 3, 4):
            kept = [Trees() for _ in range(max(before, after))]
            for root, tree in trees.items():
                kept[acker_of(root, before)].put(root, tree)
            found = [(acker, *entry) for acker, each in enumerate(kept) for entry in each.items()]
            for acker, moves in moves_to(after, found).items():
                apply_moves(moves, kept[acker])
            assert all(acker_of(root, after) == acker for acker, each in enumerate(kept) for root in each)
            assert {root: tree for each in kept for root, tree in each.items()} == trees


def test_damaged_moves_are_refused() -> None:
    with pytest.raises(SerializationError):
        apply_moves(pack([1, []]), None)  # type: ignore[arg-type]
