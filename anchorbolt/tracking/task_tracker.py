"""Collects one task's additions to the tuple trees of a wave, while it acks and fails tuples."""

from collections.abc import Callable, Sequence

import numpy as np

from anchorbolt.bolts.tracked_collector import Anchor, TrackedOutputCollector, roots_of
from anchorbolt.errors import TopologyError
from anchorbolt.streams.lineage import IdSource, Lineage, Roots, lineage_of, number_of
from anchorbolt.streams.tuple import ACKED, Item, TrackedTuple
from anchorbolt.tracking.contributions import Contributions
from anchorbolt.tracking.verdict import Failure
from anchorbolt.util.messages import bounded, printable

_REASON_CHARACTERS = 4_000  # of the text that a bolt gave a failure
_FEW_WAITING = 4_096  # up to this many waiting tuples, searching them for settled ones does not pay


class TaskTracker:
    """Tracks the tuples of one task. Kept from wave to wave with the task's instance.

    Attributes:
        keeps_failures: Whether the task's report needs `failures`. Set by the engine for each round.
        failures: The first failure of each tree in this round, by root.
        acked: How many tuples the task has acked in this round, including tuples of earlier waves.
        failed: How many tuples the task has failed in this round.
    """

    def __init__(
        self,
        component: str,
        task_index: int,
        task_id: int,
        *,
        counts: bool,
        most_tracebacks: int = 0,
        mask: Callable[[str], str] = str,
    ) -> None:
        """Create it.

        Args:
            component: Id of the task's component.
            task_index: Index of the task in it.
            task_id: Id of the task.
            counts: False to note only which trees fail, for a topology where no tree stays open.
            most_tracebacks: How many failures of a round may keep a traceback.
            mask: Removes secrets from the reasons of failures, before they are cut.
        """
        self._mask = mask
        self._most_tracebacks = most_tracebacks
        self._counts = counts
        self.keeps_failures = False
        self._component = component
        self._task_index = task_index
        self._task_id = task_id
        self.begin("")

    def begin(self, attempt: str) -> None:
        """Start a round under a new attempt."""
        self._attempt = attempt
        self._news = Contributions()
        self._ids = IdSource(attempt)
        self._blocks: list[tuple[int, int]] = []  # base and size of the blocks of ids of this round's tuples
        self._waiting: dict[int, TrackedTuple] = {}  # by id: tuples of this round that were not settled with their blob
        self._most_waiting = _FEW_WAITING
        self._released: set[int] = set()  # ids of tuples of earlier waves that this round has acked
        self.failures: dict[int, Failure] = {}
        self.acked = self.failed = 0

    def send(self, items: Sequence[Item]) -> Lineage | None:
        """Return the lineage of tuples that are sent to one task; None if all are untracked."""
        return lineage_of(items, self._ids)

    def open_trees(self, roots: Roots, packed_msg_ids: Sequence[bytes]) -> None:
        """Open the trees of messages that this task of a spout emits."""
        self._news.open_trees(roots, packed_msg_ids)

    def expire(self, roots: Roots) -> None:
        """Time out trees that are open since earlier waves."""
        self._news.expire(roots)

    def take_settled(
        self, collector: TrackedOutputCollector, tuples: list[TrackedTuple], lineage: Lineage | None
    ) -> None:
        """Take the tuples that a bolt acked, failed and reset while it executed the tuples of a blob.

        Raises `TopologyError` if it acked a handle of a tuple that it had already acked or failed in this wave.
        """
        acked, collector.acked = collector.acked, []
        self.acked += len(acked)
        if self._counts:
            if lineage is not None:
                self._blocks.append((lineage.base, len(lineage)))
            if not acked or acked != tuples:  # compares by identity
                self._settle(acked, tuples)
        if not (collector.failed or collector.reset):
            return
        for anchor in collector.failed:
            self.fail(anchor, "it called collector.fail")
        for root in roots_of(collector.reset):
            self._news.reset(root)
        collector.failed, collector.reset = [], []

    def _settle(self, acked: Sequence[Anchor], tuples: list[TrackedTuple]) -> None:
        self._waiting.update((tup.id, tup) for tup in tuples if not tup.status and tup.roots)
        attempt, released = self._attempt, []
        for anchor in acked:
            if type(anchor) is TrackedTuple and anchor._header.attempt == attempt:
                continue  # its status already says so
            if not anchor.roots:
                continue
            own = self._waiting.pop(anchor.id, None)  # a tuple of this round, acked by its handle or a copy
            if own is not None and not own.status:
                own.status = ACKED
            elif own is not None or anchor.id in self._released or self._has_come(anchor.id):
                raise TopologyError(
                    f"bolt {self._component!r} acked a tuple by its handle, but has already acked or failed "
                    "that tuple. Ack or fail each tuple once: remove its handle from where you keep it.",
                    component=self._component,
                )
            else:
                self._released.add(anchor.id)
                released.append(anchor)
        if released:
            self._news.release(*_pairs(released))
        if len(self._waiting) > self._most_waiting:  # most may have been settled since
            self._waiting = {id: tup for id, tup in self._waiting.items() if not tup.status}
            self._most_waiting = max(_FEW_WAITING, 2 * len(self._waiting))

    def _has_come(self, id: int) -> bool:
        """Return whether the tuple with this id came in this round."""
        number = number_of(id)
        return any((number - base) % (1 << 64) < size for base, size in self._blocks)

    def fail(self, anchor: Anchor, reason: str, most: int = _REASON_CHARACTERS) -> None:
        """Fail all trees of a tuple. `most` characters of the reason are kept."""
        self.failed += 1
        reason = bounded(self._mask(reason), most)
        for root in roots_of([anchor]):
            self._news.fail(root, self._component, self._task_index, reason)
            if self.keeps_failures and root not in self.failures:
                self.failures[root] = Failure(root, self._component, self._task_index, printable(reason))

    @property
    def wants_traceback(self) -> bool:
        """Whether the next failure may keep a traceback: one for each tuple would fill the memory."""
        return self.failed < self._most_tracebacks

    def blobs(self, ackers: int) -> list[bytes]:
        """Return this task's contribution to each acker, at the end of a wave."""
        held = [tup for tup in self._waiting.values() if not tup.status]
        if held:
            self._news.hold(*_pairs(held))
        self._waiting = {}
        return self._news.blobs(ackers, self._task_id)


def _pairs(anchors: Sequence[Anchor]) -> tuple[Roots, Roots]:
    """Return each root of each tuple, and an array with the tuple's id for each root."""
    pairs = [(root, anchor.id) for anchor in anchors for root in roots_of([anchor])]
    roots, ids = zip(*pairs, strict=True)
    return np.array(roots, np.uint64), np.array(ids, np.uint64)
