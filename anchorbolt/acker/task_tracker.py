"""Collects what one task adds to the tuple trees of a wave, while it sends, acks and fails tuples."""

from collections.abc import Sequence

import numpy as np

from anchorbolt.acker.contributions import Contributions
from anchorbolt.acker.verdict import Failure
from anchorbolt.bolts.tracked_collector import Anchor, TrackedOutputCollector, roots_of
from anchorbolt.streams.ids import IdSource
from anchorbolt.streams.lineage import Lineage, Roots, lineage_of
from anchorbolt.streams.tuple import Item, TrackedTuple, TupleHandle
from anchorbolt.util.messages import printable

_FEW_WAITING = 4_096  # tuples that wait to be settled; among so few, it is not worth while to look for settled ones


class TaskTracker:
    """Kept from wave to wave with the instance of its task.

    Attributes:
        keeps_failures: Whether the task's report needs `failures`. Set by the engine for each round.
        failures: By root: the first failure of each tree in this round.
        acked: How many tuples the task has acked in this round, those of earlier waves included.
        failed: How many it has failed.
    """

    def __init__(
        self, component: str, task_index: int, task_id: int, *, counts: bool, most_tracebacks: int = 0
    ) -> None:
        """Create it.

        Args:
            component: Id of the task's component.
            task_index: Index of the task in it.
            task_id: Id of the task.
            counts: False if it only notes which trees fail, for a topology in which no tree stays open.
            most_tracebacks: How many failures of a round may keep a traceback.
        """
        self._most_tracebacks = most_tracebacks
        self._counts = counts
        self.keeps_failures = False
        self._component = component
        self._task_index = task_index
        self._task_id = task_id
        self.begin("")

    def begin(self, attempt: str) -> None:
        """Start a round under a new attempt."""
        self._news = Contributions()
        self._ids = IdSource(attempt)
        self._waiting: list[TrackedTuple] = []
        self._most_waiting = _FEW_WAITING
        self._acked_by_handle: set[int] = set()
        self.failures: dict[int, Failure] = {}
        self.acked = self.failed = 0

    def send(self, items: Sequence[Item]) -> Lineage | None:
        """Return the lineage of tuples that are sent to one task; None if none of them is tracked."""
        lineage = lineage_of(items, self._ids)
        if lineage is not None and self._counts:
            self._news.add(*lineage.pairs())
        return lineage

    def open_trees(self, roots: Roots, packed_msg_ids: Sequence[bytes]) -> None:
        """Open the trees of messages that this task of a spout emits."""
        self._news.open_trees(roots, packed_msg_ids)

    def expire(self, roots: Roots) -> None:
        """End the time of trees that are open since earlier waves."""
        self._news.expire(roots)

    def ack_all(self, tuples: int, lineage: Lineage | None) -> None:
        """Ack a blob; `tuples` of it did not fail."""
        self.acked += tuples
        self._ack_all(lineage)

    def _ack_all(self, lineage: Lineage | None) -> None:
        if lineage is not None and self._counts:
            self._news.add(*lineage.pairs())

    def take_settled(
        self, collector: TrackedOutputCollector, tuples: list[TrackedTuple], lineage: Lineage | None
    ) -> None:
        """Take what a bolt acked, failed and reset while it executed the tuples of a blob."""
        acked, collector.acked = collector.acked, []
        self.acked += len(acked)
        if acked and acked == tuples:  # compares by identity
            self._ack_all(lineage)
        else:
            if acked:
                self._add(acked)
                self._acked_by_handle.update(anchor.id for anchor in acked if isinstance(anchor, TupleHandle))
            self._waiting += [tup for tup in tuples if not tup.status and tup.roots]
            if len(self._waiting) > self._most_waiting:  # most may have been settled since
                self._waiting = self._unsettled()
                self._most_waiting = max(_FEW_WAITING, 2 * len(self._waiting))
        if not (collector.failed or collector.reset):
            return
        for anchor in collector.failed:
            self.fail(anchor, "it called collector.fail")
        for root in roots_of(collector.reset):
            self._news.reset(root)
        collector.failed, collector.reset = [], []

    def fail(self, anchor: Anchor, reason: str) -> None:
        """Fail all trees of a tuple."""
        self.failed += 1
        for root in roots_of([anchor]):
            self._news.fail(root, self._component, self._task_index, reason)
            if self.keeps_failures and root not in self.failures:
                self.failures[root] = Failure(root, self._component, self._task_index, printable(reason))

    @property
    def wants_traceback(self) -> bool:
        """Whether the next failure may keep a traceback: if a bolt raises on each tuple, they would fill the memory."""
        return self.failed < self._most_tracebacks

    def blobs(self, ackers: int) -> list[bytes]:
        """Return what this task contributes to each acker, at the end of a wave."""
        self._news.hold(np.fromiter(roots_of(self._unsettled()), np.uint64))
        self._waiting = []
        return self._news.blobs(ackers, self._task_id)

    def _unsettled(self) -> list[TrackedTuple]:
        return [tup for tup in self._waiting if not tup.status and tup.id not in self._acked_by_handle]

    def _add(self, anchors: Sequence[Anchor]) -> None:
        single = [anchor for anchor in anchors if isinstance(anchor.roots, int)]
        roots, ids = [anchor.roots for anchor in single], [anchor.id for anchor in single]
        if len(single) < len(anchors):
            pairs = [(root, each.id) for each in anchors if isinstance(each.roots, tuple) for root in each.roots]
            roots += [root for root, _ in pairs]
            ids += [id for _, id in pairs]
        self._news.add(np.array(roots, np.uint64), np.array(ids, np.uint64))
