"""The driver's view of the tuple trees of a run: the messages of the current wave, and the open trees.

Pure: no threads, no clock. The caller passes the time.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from anchorbolt.serialization import unpack
from anchorbolt.spouts.intake import Chunk
from anchorbolt.streams.lineage import IdSource, ids_of
from anchorbolt.tracking.emission_times import EmissionTimes
from anchorbolt.tracking.settlements import FailedMessage, Settlement, SpoutTask
from anchorbolt.tracking.sorted_roots import NO_ROOTS, Roots, is_in, union_of
from anchorbolt.tracking.verdict import Failure, Verdict


class RootedChunk(NamedTuple):
    """A chunk of a spout's tuples, with the root of each."""

    chunk: Chunk
    roots: Roots  # 0 for an untracked tuple


class _Cohort(NamedTuple):
    """Trees that expire together."""

    deadline: float  # in seconds, on the caller's clock
    roots: Roots  # in ascending order


class InFlight:
    """The trees of one run. A wave is one `begin`, a `judge` for each round, and a `settle` if it has committed."""

    def __init__(
        self, run_id: str, tasks: Mapping[int, tuple[str, int]], timeout_s: float | None, *, excludes: bool
    ) -> None:
        """Create it.

        Args:
            run_id: Unique among the runs of the topology.
            tasks: All tasks with an id, by id.
            timeout_s: How long a tree may stay open after the wave that opened it, in seconds; None for no limit.
            excludes: Whether a round with failed trees is repeated without them.
        """
        self._ids = IdSource(f"{run_id}-roots")
        self._timeout_s = timeout_s
        self._excludes = excludes
        self._chunks: dict[int, list[RootedChunk]] = {}
        self._cohorts: deque[_Cohort] = deque()  # by deadline
        self._closed: list[Roots] = []  # trees that have ended, perhaps still in a cohort
        self._closed_count = 0
        self._open = 0
        self._tasks = tasks
        self._inherited: dict[int, str] = {}  # by root: the spout
        self._emission_times = EmissionTimes()
        self._wave_since: float | None = None  # emit time of the wave's oldest message; None between two waves
        self._excluded: dict[int, Failure] = {}
        self._hopeless: set[int] = set()  # the excluded roots that must not be tried again
        self._verdicts: Sequence[Verdict] = ()
        self._settlements: Mapping[SpoutTask, Settlement] | None = None
        self.expired: Roots = NO_ROOTS  # trees of earlier waves that time out in this wave

    def inherit(self, trees: Iterable[tuple[int, str]], now: float, absent: Container[str] = ()) -> None:
        """Take over the trees that earlier runs left open: the root and the spout's id.

        A tree of an `absent` spout completes when its tuples are acked, but never expires, because the spout could not
        emit its message again.
        """
        self._inherited = dict(trees)
        timed = [root for root, component in self._inherited.items() if component not in absent]
        self._open += len(self._inherited)
        roots = np.sort(np.array(timed, np.uint64))
        self._emission_times.keep(roots, [(roots, now)])
        if self._timeout_s is not None and len(roots):
            self._cohorts.append(_Cohort(now + self._timeout_s, roots))

    @property
    def excluded(self) -> frozenset[int]:
        """Roots of this wave that failed in one of its earlier rounds."""
        return frozenset(self._excluded)

    def has_expired(self, now: float) -> bool:
        """Return whether a tree has timed out. Called between two waves."""
        if self._cohorts and self._cohorts[0].deadline <= now:
            self._drop(self._closed)
        return bool(self._cohorts) and self._cohorts[0].deadline <= now

    @property
    def oldest_since(self) -> float | None:
        """The emit time of the oldest message that is neither acked nor failed; None without one. For any thread.

        The messages of earlier runs are as old as this run.
        """
        known = (self._wave_since, self._emission_times.oldest)
        return min((since for since in known if since is not None), default=None)

    def begin(self, chunks: Mapping[int, Sequence[Chunk]], now: float) -> Mapping[int, Sequence[RootedChunk]]:
        """Draw the roots of a wave's messages, by the id of the spout's task."""
        self._excluded, self._verdicts, self._settlements, self._hopeless = {}, (), None, set[int]()
        count = sum(chunk.size for each in chunks.values() for chunk in each)
        # All at once: while spouts emit on other threads, each operation on an array may wait for them.
        roots = ids_of(self._ids.draw(count), count)
        self._chunks, start = {}, 0
        for task, each in chunks.items():
            rooted = self._chunks[task] = list[RootedChunk]()
            for chunk in each:
                rooted.append(_rooted(chunk, roots[start : start + chunk.size]))
                start += chunk.size
        self._wave_since = min((chunk.since for each in chunks.values() for chunk in each), default=None)
        self.has_expired(now)  # so that closed trees are dropped
        self.expired = union_of(cohort.roots for cohort in self._cohorts if cohort.deadline <= now)
        return self._chunks

    def forget(self, task: int) -> list[Any]:
        """Forget the wave's messages of a spout's task, which was lost; return their ids."""
        return [msg_id for chunk, _ in self._chunks.pop(task, ()) for msg_id in chunk.tracked_ids]

    def leave_out(self, is_dead: Callable[[int, Any], FailedMessage | None]) -> None:
        """Exclude messages of the wave from its first round on.

        `is_dead` gets the id of the spout's task and the message id. It returns the message's last failure, or None.
        """
        for task, chunks in self._chunks.items():
            for chunk, roots in chunks:
                for msg_id, root in zip(chunk.msg_ids, roots.tolist(), strict=True):
                    failed = is_dead(task, msg_id) if root else None
                    if failed is not None:
                        self._excluded[root] = Failure(root, failed.component, failed.task_index, failed.reason)

    def exclude(self, failed: Mapping[int, Failure]) -> dict[int, Failure]:
        """Exclude trees of the wave from its next round on; return the trees that are not in the wave."""
        chunks = [roots for each in self._chunks.values() for _, roots in each]
        asked = np.array(list(failed), np.uint64)
        ours = set(asked[is_in(asked, union_of(chunks))].tolist())
        self._excluded.update((root, failure) for root, failure in failed.items() if root in ours)
        return {root: failure for root, failure in failed.items() if root not in ours}

    def exclude_for_good(self, root: int, reason: str) -> bool:
        """Exclude a tree of the wave from its next round on, without another try; return whether the wave has it."""
        is_ours = not self.exclude({root: Failure(root, "", -1, reason)})
        if is_ours:
            self._hopeless.add(root)
        return is_ours

    def judge(self, verdicts: Sequence[Verdict]) -> bool:
        """Take the verdicts of a round; return whether it must be repeated without the trees that failed in it."""
        self._verdicts, self._settlements = verdicts, None
        failed = {failure.root: failure for verdict in verdicts for failure in verdict.failed if failure.msg_id is None}
        if self._excludes:
            self._excluded.update(failed)
        return self._excludes and bool(failed)

    def settlements(self) -> Mapping[SpoutTask, Settlement]:
        """Return the acks and fails of messages if the wave commits with its last round."""
        if self._settlements is None:
            failed = dict(self._excluded)
            for verdict in self._verdicts:
                failed.update((failure.root, failure) for failure in verdict.failed if failure.msg_id is None)
            opened = union_of(verdict.opened for verdict in self._verdicts)
            settled: defaultdict[SpoutTask, Settlement] = defaultdict(Settlement)
            for task, chunks in self._chunks.items():
                for chunk, roots in chunks:
                    _settle_chunk(settled[self._tasks[task]], chunk, roots, opened, failed, self._hopeless)
            self._settle_earlier(settled)
            self._settlements = settled
        return self._settlements

    def settle(self, now: float) -> Mapping[SpoutTask, Settlement]:
        """Return the acks and fails of messages. Call this when the wave has committed."""
        settlements = self.settlements()
        closed = union_of(map(_closed, self._verdicts))
        opened = union_of(verdict.opened for verdict in self._verdicts)
        self._open += len(opened) - len(closed)
        for root in closed.tolist() if self._inherited else ():
            self._inherited.pop(root, None)
        chunks = ((roots, chunk.since) for each in self._chunks.values() for chunk, roots in each)
        self._emission_times.forget(closed)
        self._emission_times.keep(opened, chunks)
        self._wave_since = None
        self._keep_deadlines(opened, closed, now)
        return settlements

    def _settle_earlier(self, settled: defaultdict[SpoutTask, Settlement]) -> None:
        """Settle the trees of earlier waves."""
        for verdict in self._verdicts:
            times = self._emission_times.times_of(verdict.completed).tolist()
            for root, tree, at in zip(verdict.completed.tolist(), verdict.completed_trees, times, strict=True):
                emitter = self._emitter(root, tree.spout_task)
                settled[emitter].acked.append(unpack(tree.msg_id))
                if emitter[1] is not None:  # the emit time of an earlier run's message is unknown
                    settled[emitter].emitted_at.append((at, 1))
            for root, tree in zip(verdict.timed_out.tolist(), verdict.timed_out_trees, strict=True):
                holder = self._tasks.get(tree.holder)
                held = "" if holder is None else f"; {holder[0]!r}, task {holder[1]}, held a tuple of it last"
                reason = f"timed out after {self._timeout_s} s{held}"
                settled[self._emitter(root, tree.spout_task)].failed.append(
                    FailedMessage(unpack(tree.msg_id), "", -1, reason, holder=holder, timed_out=True)
                )
            for failure in verdict.failed:
                if failure.msg_id is not None:
                    emitter = self._emitter(failure.root, failure.spout_task)
                    settled[emitter].failed.append(FailedMessage(unpack(failure.msg_id), *failure[1:4]))

    def _emitter(self, root: int, spout_task: int) -> SpoutTask:
        inherited = self._inherited.get(root)
        return self._tasks[spout_task] if inherited is None else (inherited, None)

    def _keep_deadlines(self, opened: Roots, closed: Roots, now: float) -> None:
        if self._timeout_s is None:
            return
        reset = union_of(verdict.reset for verdict in self._verdicts)
        self._closed.append(closed)
        self._closed_count += len(closed)
        # Not after each wave: the cost grows with the open trees. The cohorts hold at most twice as many trees as are
        # open.
        if self._closed_count > self._open or len(self.expired) or len(reset):
            self._drop([*self._closed, self.expired, reset])
        renewed = union_of([opened, reset])
        if len(renewed):
            self._cohorts.append(_Cohort(now + self._timeout_s, renewed))

    def _drop(self, trees: Sequence[Roots]) -> None:
        """Forget the deadlines of these trees, which include those closed since the last call."""
        gone = union_of(trees)
        self._closed, self._closed_count = [], 0
        if len(gone):
            kept = (cohort._replace(roots=cohort.roots[~is_in(cohort.roots, gone)]) for cohort in self._cohorts)
            self._cohorts = deque(cohort for cohort in kept if len(cohort.roots))


def _closed(verdict: Verdict) -> Roots:
    """Return the trees of earlier waves that have ended."""
    failed = [failure.root for failure in verdict.failed if failure.msg_id is not None]
    return np.concatenate((verdict.completed, verdict.timed_out, np.array(failed, np.uint64)))


def _rooted(chunk: Chunk, roots: Roots) -> RootedChunk:
    if None in chunk.msg_ids:
        roots[[position for position, msg_id in enumerate(chunk.msg_ids) if msg_id is None]] = 0
    return RootedChunk(chunk, roots)


def _settle_chunk(
    settlement: Settlement,
    chunk: Chunk,
    roots: Roots,
    still_open: Roots,
    failed: dict[int, Failure],
    hopeless: set[int],
) -> None:
    msg_ids, before = chunk.msg_ids, len(settlement.acked)
    if not failed and not len(still_open):
        settlement.acked += msg_ids if roots.all() else [msg_id for msg_id in msg_ids if msg_id is not None]
    else:
        are_open = is_in(roots, still_open).tolist()
        for position, (msg_id, root, is_open) in enumerate(zip(msg_ids, roots.tolist(), are_open, strict=True)):
            if root in failed:
                settlement.failed.append(FailedMessage(msg_id, *failed[root][1:4], chunk, position, root in hopeless))
            elif root and not is_open:
                settlement.acked.append(msg_id)
    if len(settlement.acked) > before:
        settlement.emitted_at.append((chunk.since, len(settlement.acked) - before))
