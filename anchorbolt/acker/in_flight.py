"""What the driver knows of the tuple trees of a run: the messages of the current wave, and the trees that are open.

Pure: no threads, no clock. The caller says what time it is.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from anchorbolt.acker.sorted_roots import NO_ROOTS, Roots, is_in, union_of
from anchorbolt.acker.stored_tree import OpenTree
from anchorbolt.acker.verdict import Failure, Verdict
from anchorbolt.serialization import unpack
from anchorbolt.spouts.intake import Chunk
from anchorbolt.streams.ids import IdSource, ids_of


class RootedChunk(NamedTuple):
    """A chunk of a spout's tuples, with the root of each."""

    chunk: Chunk
    roots: Roots  # 0 for an untracked tuple


@dataclass
class Settlement:
    """What becomes of the messages of one spout task, or of trees of an earlier run, when a wave has committed."""

    acked: list[Any] = field(default_factory=list)  # message ids
    failed: list[tuple[Any, str]] = field(default_factory=list)  # message ids, each with the reason


class _Cohort(NamedTuple):
    """Trees that expire together."""

    deadline: float  # in seconds, on the caller's clock
    roots: Roots  # in ascending order


Emitter = tuple[str, int | None]
"""Id of a spout and index of its task; no index for a tree that an earlier run has opened."""


class InFlight:
    """The trees of one run. A wave is one `begin`, a `judge` for each round, and a `settle` if it has committed."""

    def __init__(
        self, run_id: str, tasks: Mapping[int, tuple[str, int]], timeout_s: float | None, *, excludes: bool
    ) -> None:
        """Create it.

        Args:
            run_id: Differs from that of each other run of the topology.
            tasks: The tasks of rich spouts, by task id.
            timeout_s: How long a tree may stay open after the wave that opened it; None for any time.
            excludes: Whether a round with failed trees is repeated without them.
        """
        self._ids = IdSource(f"{run_id}-roots")
        self._timeout_s = timeout_s
        self._excludes = excludes
        self._chunks: dict[int, list[RootedChunk]] = {}
        self._cohorts: deque[_Cohort] = deque()  # by deadline
        self._open = 0
        self._tasks = tasks
        self._inherited: dict[int, str] = {}  # by root: the spout
        self._excluded: dict[int, Failure] = {}
        self._verdicts: Sequence[Verdict] = ()
        self._settlements: Mapping[Emitter, Settlement] | None = None
        self.expired: Roots = NO_ROOTS  # trees of earlier waves whose time is over in this wave

    def inherit(self, trees: Iterable[tuple[int, str, OpenTree]], now: float) -> None:
        """Take over the trees that earlier runs left open: the root, the spout's id and the tree."""
        by_time: defaultdict[int, list[int]] = defaultdict(list)
        for root, component, tree in trees:
            self._inherited[root] = component
            by_time[tree.remaining_ms].append(root)
        self._open += len(self._inherited)
        if self._timeout_s is not None:
            for remaining_ms, roots in sorted(by_time.items()):
                self._cohorts.append(_Cohort(now + remaining_ms / 1000, np.sort(np.array(roots, np.uint64))))

    @property
    def excluded(self) -> frozenset[int]:
        """Roots of this wave that failed in an earlier round of it."""
        return frozenset(self._excluded)

    @property
    def next_deadline(self) -> float | None:
        """When the next open trees expire; None if no tree is open, or none expires."""
        return self._cohorts[0].deadline if self._cohorts and self._open else None

    def begin(self, chunks: Mapping[int, Sequence[Chunk]], now: float) -> Mapping[int, Sequence[RootedChunk]]:
        """Draw the roots of a wave's messages, by the id of the spout's task."""
        self._excluded, self._verdicts, self._settlements = {}, (), None
        self._chunks = {task: [self._rooted(chunk) for chunk in each] for task, each in chunks.items()}
        self.expired = union_of(cohort.roots for cohort in self._cohorts if cohort.deadline <= now)
        return self._chunks

    def judge(self, verdicts: Sequence[Verdict]) -> bool:
        """Take the verdicts of a round; return whether it is to be repeated without the trees that failed in it."""
        self._verdicts, self._settlements = verdicts, None
        failed = {failure.root: failure for verdict in verdicts for failure in verdict.failed if failure.msg_id is None}
        if self._excludes:
            self._excluded.update(failed)
        return self._excludes and bool(failed)

    def settlements(self) -> Mapping[Emitter, Settlement]:
        """Return what becomes of the messages if the wave commits with its last round."""
        if self._settlements is None:
            failed = dict(self._excluded)
            for verdict in self._verdicts:
                failed.update((failure.root, failure) for failure in verdict.failed if failure.msg_id is None)
            opened = union_of(verdict.opened for verdict in self._verdicts)
            settled: defaultdict[Emitter, Settlement] = defaultdict(Settlement)
            for task, chunks in self._chunks.items():
                for chunk, roots in chunks:
                    _settle_chunk(settled[self._tasks[task]], chunk.msg_ids, roots, opened, failed)
            self._settle_earlier(settled)
            self._settlements = settled
        return self._settlements

    def settle(self, now: float) -> Mapping[Emitter, Settlement]:
        """Return what becomes of the messages. To be called when the wave has committed."""
        settlements = self.settlements()
        gone = 0
        for verdict in self._verdicts:
            failed = [failure.root for failure in verdict.failed if failure.msg_id is not None]
            for root in [*verdict.completed.tolist(), *verdict.timed_out.tolist(), *failed]:
                self._inherited.pop(root, None)
                gone += 1
        self._open -= gone
        self._keep_time(union_of(verdict.opened for verdict in self._verdicts), now)
        return settlements

    def _settle_earlier(self, settled: defaultdict[Emitter, Settlement]) -> None:
        """Settle the trees of earlier waves."""
        for verdict in self._verdicts:
            for root, tree in zip(verdict.completed.tolist(), verdict.completed_trees, strict=True):
                settled[self._emitter(root, tree.spout_task)].acked.append(unpack(tree.msg_id))
            for root, tree in zip(verdict.timed_out.tolist(), verdict.timed_out_trees, strict=True):
                reason = f"timed out after {self._timeout_s} s; the task with the id {tree.holder} held it last"
                settled[self._emitter(root, tree.spout_task)].failed.append((unpack(tree.msg_id), reason))
            for failure in verdict.failed:
                if failure.msg_id is not None:
                    emitter = self._emitter(failure.root, failure.spout_task)
                    settled[emitter].failed.append((unpack(failure.msg_id), _described(failure)))

    def _emitter(self, root: int, spout_task: int) -> Emitter:
        inherited = self._inherited.get(root)
        return self._tasks[spout_task] if inherited is None else (inherited, None)

    def _keep_time(self, opened: Roots, now: float) -> None:
        self._open += len(opened)
        if self._timeout_s is None:
            return
        reset = union_of(verdict.reset for verdict in self._verdicts)
        gone = union_of([self.expired, reset])
        if len(gone):
            kept = (cohort._replace(roots=cohort.roots[~is_in(cohort.roots, gone)]) for cohort in self._cohorts)
            self._cohorts = deque(cohort for cohort in kept if len(cohort.roots))
        renewed = union_of([opened, reset])
        if len(renewed):
            self._cohorts.append(_Cohort(now + self._timeout_s, renewed))

    def _rooted(self, chunk: Chunk) -> RootedChunk:
        roots = ids_of(self._ids.draw(chunk.size), chunk.size)
        untracked = [position for position, msg_id in enumerate(chunk.msg_ids) if msg_id is None]
        if untracked:
            roots[untracked] = 0
        return RootedChunk(chunk, roots)


def _settle_chunk(
    settlement: Settlement, msg_ids: Sequence[Any], roots: Roots, still_open: Roots, failed: dict[int, Failure]
) -> None:
    if not failed and not len(still_open):
        settlement.acked += msg_ids if roots.all() else [msg_id for msg_id in msg_ids if msg_id is not None]
        return
    for msg_id, root, is_open in zip(msg_ids, roots.tolist(), is_in(roots, still_open).tolist(), strict=True):
        if root in failed:
            settlement.failed.append((msg_id, _described(failed[root])))
        elif root and not is_open:
            settlement.acked.append(msg_id)


def _described(failure: Failure) -> str:
    return f"bolt {failure.component!r}, task {failure.task_index}: {failure.reason}"
