"""Merges the contributions of all tasks to one acker's trees in one wave, and decides the fate of each tree.

All tuples of a wave have been executed when it ends, so most trees are complete by then. The ledger does not report
them: the driver knows the emitted messages. It reports exceptions: trees that stay open, trees of earlier waves that
are complete now, failures and time-outs. Trees that stay open are written to the acker's state, in the transaction of
the wave. So an XOR is applied exactly once for each committed wave, and a round that is rolled back changes nothing.

The result does not depend on the order of the contributions. There is no clock here: the driver decides which trees
have expired, and sends their roots in a wave.

The roots are merged in ranges, so that even a million trees need no more memory than the report.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from anchorbolt.errors import SerializationError
from anchorbolt.tracking.blob import Contribution
from anchorbolt.tracking.sorted_roots import (
    NO_ROOTS,
    Roots,
    highest_by_root,
    is_ascending,
    is_in,
    union_of,
    value_of,
    xor_by_root,
)
from anchorbolt.tracking.stored_trees import OpenTree
from anchorbolt.tracking.verdict import Failure, Verdict

_RANGE_ROOTS = 32_768
"""The approximate number of roots that are merged at a time."""

_LOOKUP_ROOTS = 4_096
"""The number that the state reads in one round trip. With more, the cache would drop trees before they are changed."""

_NOBODY = -1


class OpenTrees(Protocol):
    """The trees of one acker that are open since earlier waves."""

    def get_many(self, roots: Sequence[int], /) -> Mapping[int, OpenTree]:
        """Return the open trees among the `roots`."""

    def put(self, root: int, tree: OpenTree, /) -> None:
        """Add or replace a tree."""

    def delete(self, root: int, /) -> object:
        """Remove a tree that is open."""


def merge(contributions: Sequence[Contribution], trees: OpenTrees) -> Verdict:
    """Apply a wave's contributions to the open trees of an acker.

    - A tree that was opened in this wave is reported if it failed or is not complete; in the latter case it is stored.
    - A tree of an earlier wave that is not in `trees` has failed, timed out or completed before: it is ignored.
    - Any other tree is removed and reported if it failed, is complete, or has expired without a reset; the first of
        these that applies is reported. Otherwise it stays open, and is stored if it has changed.

    Args:
        contributions: One of each task, in any order.
        trees: The trees that are open since earlier waves. Each is looked up at most once.

    Raises:
        SerializationError: A tree was opened twice, so the contributions are damaged. `trees` may have changed.
    """
    merger = _Merger(trees)
    for part in _ranges(contributions):
        merger.merge(part)
    return merger.verdict()


class _Merger:
    """Merges the ranges of roots one by one."""

    def __init__(self, trees: OpenTrees) -> None:
        self._trees = trees
        self._opened: list[Roots] = []
        self._completed: list[int] = []
        self._completed_trees: list[OpenTree] = []
        self._timed_out: list[int] = []
        self._timed_out_trees: list[OpenTree] = []
        self._reset: list[int] = []
        self._failed: list[Failure] = []

    def merge(self, part: Sequence[Contribution]) -> None:
        news = _News(part)
        self._open(news)
        self._change(news)

    def verdict(self) -> Verdict:
        return Verdict(
            np.concatenate([NO_ROOTS, *self._opened]),
            np.array(self._completed, np.uint64),
            self._completed_trees,
            np.array(self._timed_out, np.uint64),
            self._timed_out_trees,
            np.array(self._reset, np.uint64),
            self._failed,
        )

    def _open(self, news: "_News") -> None:
        """Store the trees that were opened in this wave and are neither complete nor failed."""
        put = self._trees.put
        opened = [NO_ROOTS]
        for spout_task, each in news.opened:
            ack_vals = value_of(each.roots, news.roots, news.xors, 0)
            failed = is_in(each.roots, news.failed_roots)
            self._failed += map(news.failures.__getitem__, each.roots[failed].tolist())
            places = np.flatnonzero((ack_vals != 0) & ~failed)
            roots = each.roots[places]
            holders = value_of(roots, news.held, news.holders, _NOBODY)
            columns = roots.tolist(), ack_vals[places].tolist(), holders.tolist(), each.msg_ids_at(places)
            for root, ack_val, holder, msg_id in zip(*columns, strict=True):
                put(root, OpenTree(ack_val, spout_task, holder, msg_id))
            opened.append(roots)
        self._opened.append(np.sort(np.concatenate(opened)))

    def _change(self, news: "_News") -> None:
        """Change or remove the trees of earlier waves."""
        roots = news.earlier()
        for start in range(0, len(roots), _LOOKUP_ROOTS):
            asked = roots[start : start + _LOOKUP_ROOTS]
            trees = self._trees.get_many(asked.tolist())
            if not trees:
                continue
            for root, xor, holder, is_reset, is_expired in zip(
                asked.tolist(),
                value_of(asked, news.roots, news.xors, 0).tolist(),
                value_of(asked, news.held, news.holders, _NOBODY).tolist(),
                is_in(asked, news.reset).tolist(),
                is_in(asked, news.expired).tolist(),
                strict=True,
            ):
                tree = trees.get(root)
                if tree is not None:
                    after = tree._replace(
                        ack_val=tree.ack_val ^ xor, holder=tree.holder if holder == _NOBODY else holder
                    )
                    failure = news.failures.get(root)
                    self._decide(root, tree, after, failure, is_reset, is_expired)

    def _decide(
        self, root: int, before: OpenTree, after: OpenTree, failure: Failure | None, is_reset: bool, is_expired: bool
    ) -> None:
        if failure is not None:
            self._trees.delete(root)
            self._failed.append(failure._replace(spout_task=before.spout_task, msg_id=before.msg_id))
        elif after.ack_val == 0:
            self._trees.delete(root)
            self._completed.append(root)
            self._completed_trees.append(before)
        elif is_expired and not is_reset:
            self._trees.delete(root)
            self._timed_out.append(root)
            self._timed_out_trees.append(after)
        else:
            if after != before:
                self._trees.put(root, after)
            if is_reset:
                self._reset.append(root)


class _News:
    """The contributions of all tasks to one range of roots, merged. Roots are in ascending order, each once."""

    def __init__(self, part: Sequence[Contribution]) -> None:
        self.roots, self.xors = xor_by_root(_joined(news.roots for news in part), _joined(news.xors for news in part))
        tasks = [np.full(len(news.held), news.task_id, np.int64) for news in part]
        self.held, self.holders = highest_by_root(
            _joined(news.held for news in part), np.concatenate([np.empty(0, np.int64), *tasks])
        )
        self.reset = union_of(news.reset for news in part)
        self.expired = union_of(news.expired for news in part)
        self.failures = _failures(part)
        self.failed_roots = np.sort(np.fromiter(self.failures, np.uint64, len(self.failures)))
        self.opened = [(news.task_id, news.opened) for news in part if news.opened is not None]  # with the spout's task
        self.opened_roots = np.sort(_joined(opened.roots for _, opened in self.opened))
        if not is_ascending(self.opened_roots):
            raise SerializationError(
                "a tuple tree was opened twice in one wave. This is a fault of Anchorbolt; please report it."
            )

    def earlier(self) -> Roots:
        """Return the roots in the contributions that were not opened in this wave."""
        mentioned = union_of((self.roots, self.held, self.reset, self.expired, self.failed_roots))
        return mentioned[~is_in(mentioned, self.opened_roots)]


def _failures(part: Sequence[Contribution]) -> dict[int, Failure]:
    failures: dict[int, Failure] = {}
    for news in part:
        for each in news.failed:
            for root in each.roots.tolist():
                failure = Failure(root, each.component, each.task_index, each.reason)
                failures[root] = min(failure, failures.get(root, failure))
    return failures


def _joined(arrays: Iterable[Roots]) -> Roots:
    filled = [roots for roots in arrays if len(roots)]
    return filled[0] if len(filled) == 1 else np.concatenate([NO_ROOTS, *filled])


def _ranges(contributions: Sequence[Contribution]) -> Iterator[Sequence[Contribution]]:
    """Divide the contributions by root. Roots look random, so equally wide ranges hold about equally many."""
    count = sum(news.size for news in contributions) // _RANGE_ROOTS + 1
    if count == 1:
        yield contributions
        return
    edges: list[int | None] = [(part << 64) // count for part in range(count)]
    for first, end in pairwise([*edges, None]):
        yield [news.between(first, end) for news in contributions]
