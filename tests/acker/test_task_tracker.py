"""A task's tracker keeps little of a wave, however many tuples the wave has."""

import gc
import weakref
from typing import Any

import pytest

from anchorbolt.acker.blob import decode_blob
from anchorbolt.acker.task_tracker import TaskTracker
from anchorbolt.bolts.tracked_collector import TrackedOutputCollector
from anchorbolt.streams.tuple import StreamHeader, TrackedTuple, TupleHandle, receiver_key


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


@pytest.mark.parametrize("by_handle", [False, True])
def test_tuples_that_are_acked_in_a_later_blob_do_not_stay_in_memory(by_handle: bool) -> None:
    tracker = a_tracker()
    collector = TrackedOutputCollector(
        "join",
        {},
        lambda stream, rows, items: 1,
        must_anchor=False,
        task_index=1,
        untracked_fail=False,
        strict=True,
        fail_has_effect=True,
    )
    header = StreamHeader("in", 0, "default", ("value",), receiver_key("join", 1))
    values: list[weakref.ref[Value]] = []
    before: list[Any] = []
    for blob in range(30):
        tuples = [TrackedTuple((Value(),), header, 7, 1000 * blob + number + 1) for number in range(1000)]
        values += [weakref.ref(tup["value"]) for tup in tuples]
        for earlier in before:
            collector.ack(earlier)
        tracker.take_settled(collector, tuples, None)
        before = [tup.handle if by_handle else tup for tup in tuples]
    del tuples, earlier
    gc.collect()
    assert sum(value() is not None for value in values) < 10_000
    [news] = [decode_blob(blob) for blob in tracker.blobs(1)]
    assert news.held.tolist() == [7]
