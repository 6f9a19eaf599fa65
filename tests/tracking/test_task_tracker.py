"""A task's tracker keeps little of a wave, however many tuples the wave has."""

import gc
import pickle
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from anchorbolt.bolts.tracked_collector import TrackedOutputCollector
from anchorbolt.errors import TopologyError
from anchorbolt.streams.lineage import Lineage, ids_of
from anchorbolt.streams.tuple import StreamHeader, TrackedTuple, TupleHandle, receiver_key
from anchorbolt.streams.tuple_batch import TupleBatch
from anchorbolt.tracking.blob import Contribution, decode_blob
from anchorbolt.tracking.task_tracker import TaskTracker


def a_tracker(*, keeps_failures: bool = False) -> TaskTracker:
    tracker = TaskTracker("join", 1, 3, counts=True, most_tracebacks=2)
    tracker.keeps_failures = keeps_failures
    tracker.begin("attempt")
    return tracker


def a_tuple(id: int, *roots: int) -> TupleHandle:
    return TupleHandle(0, id, roots)


def test_the_first_failure_of_each_tree_is_kept() -> None:
    tracker = a_tracker(keeps_failures=True)
    for id in range(100):
        tracker.fail(a_tuple(id, 5, 6 + id % 2), f"reason {id}")
    assert {root: each.reason for root, each in tracker.failures.items()} == {
        5: "reason 0",
        6: "reason 0",
        7: "reason 1",
    }
    assert {(each.component, each.task_index) for each in tracker.failures.values()} == {("join", 1)}


def test_failures_that_nobody_asks_for_are_not_kept() -> None:
    tracker = a_tracker()
    tracker.fail(a_tuple(1, 5), "late")
    assert not tracker.failures
    assert len(tracker.blobs(1)) == 1


@pytest.mark.parametrize("keeps_failures", [False, True])
def test_the_failures_of_one_tree_do_not_all_want_a_traceback(keeps_failures: bool) -> None:
    tracker = a_tracker(keeps_failures=keeps_failures)
    wanted = []
    for id in range(4):
        wanted.append(tracker.wants_traceback)
        tracker.fail(a_tuple(id, 5), "late")
    assert wanted == [True, True, False, False]


class Value:
    """A value that tells whether its tuple is still in memory."""


@pytest.fixture
def collector() -> TrackedOutputCollector:
    return TrackedOutputCollector(
        "join",
        {},
        lambda stream, rows, items: 1,
        must_anchor=False,
        task_index=1,
        untracked_fail=False,
        strict=True,
        fail_has_effect=True,
    )


def a_blob(base: int, values: Sequence[object], *roots: int, attempt: str = "attempt") -> TupleBatch:
    header = StreamHeader("in", 0, "default", ("value",), receiver_key("join", 1), attempt)
    lineage = Lineage(base, np.array(roots or [7] * len(values), np.uint64))
    return TupleBatch(header, len(values), [values], lineage)


def news_of(tracker: TaskTracker) -> Contribution:
    [blob] = tracker.blobs(1)
    return decode_blob(blob)


@pytest.mark.parametrize("by_handle", [False, True])
def test_tuples_that_are_acked_in_a_later_blob_do_not_stay_in_memory(
    collector: TrackedOutputCollector, *, by_handle: bool
) -> None:
    tracker = a_tracker()
    values: list[weakref.ref[Value]] = []
    before: list[Any] = []
    for number in range(30):
        blob = a_blob(1000 * number, [Value() for _ in range(1000)])
        tuples = blob.tracked_tuples()
        values += [weakref.ref(tup["value"]) for tup in tuples]
        for earlier in before:
            collector.ack(earlier)
        tracker.take_settled(collector, tuples, blob.lineage)
        before = [tup.handle if by_handle else tup for tup in tuples]
    del blob, tuples, earlier
    gc.collect()
    assert sum(value() is not None for value in values) < 10_000
    news = news_of(tracker)
    assert news.held.tolist() == [7]
    assert news.xors.tolist() == [np.bitwise_xor.reduce(ids_of(29_000, 1000))]


def by_object(tup: TrackedTuple) -> TrackedTuple | bytes:
    return tup


def by_handle(tup: TrackedTuple) -> TrackedTuple | bytes:
    return tup.handle


def by_copy(tup: TrackedTuple) -> TrackedTuple | bytes:
    found: TrackedTuple = pickle.loads(pickle.dumps(tup))  # noqa: S301 - as a bolt's own state has it
    return found


WAYS = (by_object, by_handle, by_copy)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("same_blob", [True, False])
def test_what_is_sent_and_acked_in_one_wave_adds_nothing(
    collector: TrackedOutputCollector, way: Callable[[TrackedTuple], Any], *, same_blob: bool
) -> None:
    tracker, blob = a_tracker(), a_blob(5, ["a", "b"], 1, 2)
    tuples = blob.tracked_tuples()
    if not same_blob:
        tracker.take_settled(collector, tuples, blob.lineage)
    collector.ack(way(tuples[0]))
    tracker.take_settled(collector, tuples if same_blob else [], blob.lineage if same_blob else None)
    news = news_of(tracker)
    assert (news.roots.tolist(), news.xors.tolist(), news.held.tolist()) == ([2], [tuples[1].id], [2])
    assert tracker.acked == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_tuple_of_an_earlier_wave_is_released_when_it_is_acked(
    collector: TrackedOutputCollector, way: Callable[[TrackedTuple], Any]
) -> None:
    tracker, blob = a_tracker(), a_blob(5, ["a", "b"], 1, 2, attempt="an earlier one")
    held = blob.tracked_tuples()
    collector.ack(way(held[0]))
    arrived = a_blob(90, ["c"], 3)
    tracker.take_settled(collector, arrived.tracked_tuples(), arrived.lineage)
    news = news_of(tracker)
    assert dict(zip(news.roots.tolist(), news.xors.tolist(), strict=True)) == {1: held[0].id, 3: ids_of(90, 1)[0]}
    assert news.held.tolist() == [3]


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("attempt", ["attempt", "an earlier one"])
@pytest.mark.parametrize("same_blob", [True, False])
def test_a_handle_of_a_tuple_that_was_acked_in_this_wave_is_refused(
    collector: TrackedOutputCollector, first: Callable[[TrackedTuple], Any], attempt: str, *, same_blob: bool
) -> None:
    tracker, blob = a_tracker(), a_blob(5, ["a"], attempt=attempt)
    [tup] = tuples = blob.tracked_tuples()
    arrived, lineage = (tuples, blob.lineage) if attempt == "attempt" else ([], None)
    collector.ack(first(tup))
    if not same_blob:
        tracker.take_settled(collector, arrived, lineage)
        arrived, lineage = [], None
    collector.ack(tup.handle)
    with pytest.raises(TopologyError) as caught:
        tracker.take_settled(collector, arrived, lineage)
    assert caught.value.component == "join"


def test_a_tuple_whose_handle_was_acked_in_this_wave_is_acked(collector: TrackedOutputCollector) -> None:
    tracker, blob = a_tracker(), a_blob(5, ["a"])
    [tup] = tuples = blob.tracked_tuples()
    tracker.take_settled(collector, tuples, blob.lineage)
    collector.ack(tup.handle)
    tracker.take_settled(collector, [], None)
    with pytest.raises(TopologyError):
        collector.ack(tup)
