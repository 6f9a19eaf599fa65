"""Single rules of the ledger, which the model in `test_ledger_model` reaches seldom or not at all."""

import pickle
import tracemalloc
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from anchorbolt.errors import SerializationError
from anchorbolt.streams.lineage import ids_of
from anchorbolt.tracking import ledger
from anchorbolt.tracking.blob import Contribution, decode_blob
from anchorbolt.tracking.contributions import Contributions
from anchorbolt.tracking.ledger import merge
from anchorbolt.tracking.stored_trees import OpenTree
from anchorbolt.tracking.verdict import Failure, Verdict

BEFORE = OpenTree(ack_val=5, spout_task=1, holder=4, msg_id=b"m")


class Trees:
    """Open trees in a dictionary, and what was asked for."""

    def __init__(self, trees: Mapping[int, OpenTree] | None = None) -> None:
        self.trees = dict(trees or {})
        self.asked: list[int] = []
        self.writes = 0

    def get_many(self, roots: Sequence[int]) -> Mapping[int, OpenTree]:
        self.asked += roots
        return {root: self.trees[root] for root in roots if root in self.trees}

    def put(self, root: int, tree: OpenTree) -> None:
        self.writes += 1
        self.trees[root] = tree

    def delete(self, root: int) -> None:
        self.writes += 1
        del self.trees[root]


def as_array(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def sent(news: Contributions, task_id: int) -> Contribution:
    (blob,) = news.blobs(1, task_id)
    return decode_blob(blob)


def a_spout(*roots: int, msg_ids: Sequence[bytes] = ()) -> Contributions:
    """Open trees."""
    news = Contributions()
    news.open_trees(as_array(*roots), msg_ids or [b"m"] * len(roots))
    return news


def a_bolt(*roots: int) -> Contributions:
    """Hold one tuple of each tree, whose id is ten times its root."""
    news = Contributions()
    news.hold(as_array(*roots), as_array(*roots) * np.uint64(10))
    return news


def is_empty(verdict: Verdict) -> bool:
    arrays = (verdict.opened, verdict.completed, verdict.timed_out, verdict.reset)
    return not (verdict.failed or any(map(len, arrays)))


def test_a_wave_that_acks_all_it_opened_reads_writes_and_reports_nothing() -> None:
    trees = Trees()
    verdict = merge([sent(a_spout(7, 8), 1), sent(Contributions(), 3)], trees)
    assert is_empty(verdict)
    assert (trees.asked, trees.writes) == ([], 0)


def test_the_highest_task_that_holds_a_tree_is_its_holder_whatever_the_order() -> None:
    for tasks in ((3, 5, 4), (5, 4, 3)):
        bolts = []
        for task in tasks:
            bolts.append(sent(a_bolt(7), task))
        trees = Trees()
        verdict = merge([sent(a_spout(7, msg_ids=[b"id"]), 1), *bolts], trees)
        assert verdict.opened.tolist() == [7]
        assert trees.trees == {7: OpenTree(70, 1, 5, b"id")}


def test_the_lowest_task_that_failed_a_tree_gives_the_reason_whatever_the_order() -> None:
    bolts = []
    for index in (2, 0, 1):
        bolt = Contributions()
        bolt.fail(7, "join", index, f"reason {index}")
        bolts.append(sent(bolt, 3 + index))
    verdict = merge([sent(a_spout(7), 1), *bolts], Trees())
    assert verdict.failed == [Failure(7, "join", 0, "reason 0")]


@pytest.mark.parametrize("is_acked", [True, False])
def test_a_tree_that_fails_in_the_wave_that_opens_it_is_never_stored(is_acked: bool) -> None:
    spout, bolt, trees = a_spout(7), Contributions() if is_acked else a_bolt(7), Trees()
    bolt.fail(7, "join", 0, "late")
    verdict = merge([sent(spout, 1), sent(bolt, 3)], trees)
    assert verdict.failed == [Failure(7, "join", 0, "late")]
    assert verdict.opened.tolist() == []
    assert (trees.asked, trees.writes) == ([], 0)


@pytest.mark.parametrize("is_expired", [True, False])
@pytest.mark.parametrize("is_reset", [True, False])
@pytest.mark.parametrize("is_acked", [True, False])
@pytest.mark.parametrize("is_failed", [True, False])
def test_of_failed_complete_and_timed_out_the_first_counts(
    is_failed: bool, is_acked: bool, is_reset: bool, is_expired: bool
) -> None:
    news, trees = Contributions(), Trees({7: BEFORE})
    if is_expired:
        news.expire(as_array(7))
    if is_reset:
        news.reset(7)
    if is_acked:
        news.release(as_array(7), as_array(5))
    if is_failed:
        news.fail(7, "join", 0, "late")
    verdict = merge([sent(news, 3)], trees)
    times_out = is_expired and not is_reset and not is_acked and not is_failed
    assert verdict.failed == [Failure(7, "join", 0, "late", BEFORE.spout_task, BEFORE.msg_id)] * is_failed
    assert verdict.completed.tolist() == [7] * (is_acked and not is_failed)
    assert verdict.timed_out.tolist() == [7] * times_out
    assert [tree.holder for tree in verdict.timed_out_trees] == [4] * times_out
    stays = not (is_failed or is_acked or times_out)
    assert verdict.reset.tolist() == [7] * (stays and is_reset)
    assert trees.trees == ({7: BEFORE} if stays else {})


def test_news_of_trees_that_are_not_open_any_more_are_ignored() -> None:
    news, trees = Contributions(), Trees()
    news.release(as_array(1), as_array(5))
    news.hold(as_array(2), as_array(6))
    news.reset(3)
    news.expire(as_array(4))
    news.fail(5, "join", 0, "late")
    assert is_empty(merge([sent(news, 3)], trees))
    assert (trees.asked, trees.writes) == ([1, 2, 3, 4, 5], 0)


def test_a_tree_of_an_earlier_wave_that_does_not_change_is_not_written() -> None:
    trees = Trees({7: BEFORE, 8: BEFORE})
    assert is_empty(merge([sent(Contributions(), 3), sent(Contributions(), 4)], trees))
    assert (trees.asked, trees.writes) == ([], 0)


def test_a_tree_cannot_expire_in_the_wave_that_opens_it() -> None:
    news = a_spout(7)
    news.expire(as_array(7))
    news.reset(7)
    verdict = merge([sent(news, 1), sent(a_bolt(7), 3)], Trees())
    assert (verdict.opened.tolist(), verdict.timed_out.tolist(), verdict.reset.tolist()) == ([7], [], [])


def test_a_tree_that_is_opened_twice_is_refused() -> None:
    with pytest.raises(SerializationError):
        merge([sent(a_spout(7), 1), sent(a_spout(7, 8), 2)], Trees())


def test_many_trees_are_merged_range_by_range_into_one_report(monkeypatch: pytest.MonkeyPatch) -> None:
    roots = np.sort(ids_of(1, 1000))
    spout, bolt, trees = Contributions(), Contributions(), Trees()
    spout.open_trees(roots[::-1], [b"%d" % root for root in roots[::-1]])
    bolt.hold(roots[1::2], ids_of(5000, 1000)[1::2])
    news = [sent(spout, 1), sent(bolt, 3)]
    whole = merge(news, Trees())
    monkeypatch.setattr(ledger, "_RANGE_ROOTS", 100)
    verdict = merge(news, trees)
    assert verdict.opened.tolist() == whole.opened.tolist() == roots[1::2].tolist()
    assert {tree.holder for tree in trees.trees.values()} == {3}
    assert {root: tree.msg_id for root, tree in trees.trees.items()} == {
        root: b"%d" % root for root in roots[1::2].tolist()
    }
    done = Contributions()
    done.release(roots[1::2], ids_of(5000, 1000)[1::2])
    monkeypatch.setattr(ledger, "_LOOKUP_ROOTS", 7)
    assert merge([sent(done, 3)], trees).completed.tolist() == roots[1::2].tolist()
    assert trees.asked == roots[1::2].tolist()
    assert trees.trees == {}


def test_a_verdict_is_pickled_without_an_object_for_each_tree() -> None:
    roots = np.sort(ids_of(1, 10_000))
    verdict = Verdict(opened=roots)
    pickled = pickle.dumps(verdict)
    assert len(pickled) < 10_000 * 10 + 1000
    assert pickle.loads(pickled).opened.tolist() == roots.tolist()  # noqa: S301 - pickled above
    assert len(pickle.dumps(Verdict())) < 1000


class Discarded(Trees):
    def put(self, root: int, tree: OpenTree) -> None:
        self.writes += 1


def test_the_memory_for_trees_that_stay_open_is_that_of_the_report() -> None:
    count = 100_000
    roots = ids_of(1, count)
    spout, bolt = Contributions(), Contributions()
    spout.open_trees(roots, [b"12345678"] * count)
    bolt.hold(roots, ids_of(1 << 32, count))
    news = [sent(spout, 1), sent(bolt, 3)]
    trees = Discarded()
    tracemalloc.start()
    try:
        verdict = merge(news, trees)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(verdict.opened), trees.writes) == (count, count)
    assert peak < 16 * count + (12 << 20)  # the report has 8 bytes for each, twice for a moment
