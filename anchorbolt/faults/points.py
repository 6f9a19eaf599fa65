"""Named points between the steps of the protocol, at which a test can make something go wrong. For tests only.

The engine says where it is by `reach`; nothing happens there unless an observer was set by `observe`: by a simulation,
or by `injection` for faults that reach other processes, too. Without one a point costs one comparison, and none lies
on the path of a single tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from enum import Enum
from typing import NamedTuple


class FaultPoint(str, Enum):
    """Where a fault can strike, in the order of a run.

    `on_driver` says in which process, and `has_component`, `has_task` and `first_txid` what is known there.
    """

    CLAIMED = "driver.claimed"
    """A starting driver has taken a new generation; no other namespace knows of it."""
    FENCES_RAISED = "driver.fences_raised"
    """All namespaces refuse older drivers; nothing is mended yet."""
    RECOVERED = "driver.recovered"
    """Recovery has ended; no wave has begun."""
    ROUND_BEGUN = "round.begun"
    """A round of a wave is about to be run."""
    TASK_BEGUN = "task.begun"
    """A task's attempt has begun; no tuple was executed. Spouts' tasks included."""
    TASK_EXECUTED = "task.executed"
    """A task has executed some tuples: a blob, or a part of a large one."""
    TASK_ALIGNED = "task.aligned"
    """All barriers have arrived: the task is about to prepare."""
    SLICE_STAGED = "state.slice_staged"
    """A slice of a task's updates is staged."""
    STAGED = "state.staged"
    """All of a task's updates are staged, and not sealed."""
    SEALED = "state.sealed"
    """A task's updates are sealed; its report is not sent."""
    SINK_FILE_BEGUN = "sink.file_begun"
    """A sink's task has opened its outbox file."""
    SINK_FILE_WRITTEN = "sink.file_written"
    """A sink's outbox file is durable; the task's report is not sent."""
    TASK_PREPARED = "task.prepared"
    """A task has prepared; its report is not sent."""
    ROUND_ENDED = "round.ended"
    """All reports are in; nothing is decided."""
    ROUND_FAILED = "round.failed"
    """A round has failed and is about to be rolled back."""
    ROLLED_BACK = "rollback.namespaces"
    """All namespaces are rolled back; the round's outbox files are still there."""
    DECIDED = "decision.stored"
    """The decision is durable in the store; its copy is not. A topology's first start decides once before any wave."""
    DECISION_COPIED = "decision.copied"
    """The decision's copy is durable, too; no namespace has committed."""
    HOOKS_CALLED = "commit.hooks_called"
    """`pre_commit` was called on all tasks that have one."""
    SLICE_APPLIED = "commit.slice_applied"
    """A namespace has applied a slice of its winner's updates, and has not committed. The memory provider has no
    slices, and Redis none where a commit takes one round trip: up to 4,000 updates."""
    NAMESPACE_COMMITTED = "commit.namespace"
    """One namespace has committed; others may not have."""
    NAMESPACES_COMMITTED = "commit.namespaces"
    """All namespaces have committed; no sink has published."""
    SINK_PUBLISHING = "sink.publishing"
    """A sink's rows are about to be published."""
    SINK_FILE_MOVED = "sink.file_moved"
    """A `ParquetSink` has moved one file; others may not have been."""
    SINK_PUBLISHED = "sink.published"
    """A sink's rows are published."""
    COMMITTED = "commit.recorded"
    """COMMITTED is durable in the store; the outbox is not cleaned."""
    WAVE_ENDED = "wave.ended"
    """The wave is over; Spark does not know that its batch is done."""

    @property
    def on_driver(self) -> bool:
        """Whether the driver reaches it; else a task does, in a worker."""
        return self not in _OF_TASKS

    @property
    def has_component(self) -> bool:
        """Whether a component is concerned, so that a fault can be for one."""
        return self.has_task or self in _OF_SINKS

    @property
    def has_task(self) -> bool:
        """Whether one task of a component is concerned, so that a fault can be for one."""
        return self in _AT_TASK or self is FaultPoint.SINK_FILE_MOVED

    @property
    def first_txid(self) -> int | None:
        """The first transaction in which it is reached, -1 before any; None where no transaction is concerned."""
        if self in (FaultPoint.CLAIMED, FaultPoint.FENCES_RAISED):
            return None
        return -1 if self in _BEFORE_ANY else 0


_OF_TASKS = {
    FaultPoint.TASK_BEGUN,
    FaultPoint.TASK_EXECUTED,
    FaultPoint.TASK_ALIGNED,
    FaultPoint.SLICE_STAGED,
    FaultPoint.STAGED,
    FaultPoint.SEALED,
    FaultPoint.SINK_FILE_BEGUN,
    FaultPoint.SINK_FILE_WRITTEN,
    FaultPoint.TASK_PREPARED,
}
_AT_TASK = _OF_TASKS | {FaultPoint.SLICE_APPLIED, FaultPoint.NAMESPACE_COMMITTED}
"""Where `at_task` has said which task is concerned: in a worker, and on the driver before each namespace."""
_OF_SINKS = {FaultPoint.SINK_PUBLISHING, FaultPoint.SINK_PUBLISHED}
_BEFORE_ANY = {FaultPoint.RECOVERED, FaultPoint.DECIDED, FaultPoint.DECISION_COPIED}


class PointReached(NamedTuple):
    """Where a point was reached.

    Attributes:
        point: The point.
        component: Id of the component; empty where none is concerned.
        task_index: Index of the task within it; -1 where none is concerned.
        txid: The transaction; -1 before the first.
    """

    point: FaultPoint
    component: str
    task_index: int
    txid: int


Observer = Callable[[PointReached], None]

_task: ContextVar[tuple[str, int, int]] = ContextVar("anchorbolt_task", default=("", -1, -1))
_observer: Observer | None = None


def at_task(component: str, task_index: int, txid: int) -> None:
    """Say for which task the calling thread works from now on, so that `reach` need not be told."""
    if _observer is not None:
        _task.set((component, task_index, txid))


def reach(point: FaultPoint, component: str = "", task_index: int = -1, txid: int | None = None) -> None:
    """Say that a point is reached; may raise, kill or stop this process where a test asked for it."""
    if _observer is not None:
        at_component, at_index, at_txid = _task.get() if point in _AT_TASK else ("", -1, -1)
        _observer(
            PointReached(
                point, component or at_component, max(task_index, at_index), at_txid if txid is None else txid
            )
        )


def observe(observer: Observer | None) -> Observer | None:
    """Have `observer` called at every point that this process reaches, None for nobody; return the one before."""
    global _observer
    before, _observer = _observer, observer
    return before
