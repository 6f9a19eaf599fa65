"""Named points in the protocol, at which a test can inject a fault. For tests only.

The engine calls `reach` at each point. Nothing happens there unless a simulation, or `injection`, has set an observer
with `observe`. Without an observer a point costs one comparison; no point is on the path of a single tuple.
"""

from collections.abc import Callable
from contextvars import ContextVar
from enum import Enum
from typing import NamedTuple


class FaultPoint(str, Enum):
    """The points at which a fault can strike, in the order of a run.

    `on_driver` is True for points that the driver reaches. `has_component`, `has_task` and `first_txid` define the
    arguments that a fault at the point can have.
    """

    CLAIMED = "driver.claimed"  # a starting driver has taken a new generation; no other namespace knows of it
    FENCES_RAISED = "driver.fences_raised"  # all namespaces refuse older drivers; nothing is recovered
    RECOVERED = "driver.recovered"  # recovery has ended; no wave has begun
    ROUND_BEGUN = "round.begun"  # the driver is about to run a round of a wave
    TASK_BEGUN = "task.begun"  # a task's attempt has begun, a spout's included; it has executed no tuple
    TASK_EXECUTED = "task.executed"  # a task has executed a blob, or up to 2,048 tuples of it
    TASK_ALIGNED = "task.aligned"  # all barriers have arrived: the task is about to prepare
    SLICE_STAGED = "state.slice_staged"  # a slice of a task's updates is staged
    STAGED = "state.staged"  # all of a task's updates are staged, but not sealed
    SEALED = "state.sealed"  # a task's updates are sealed; its report is not sent
    SINK_FILE_BEGUN = "sink.file_begun"  # a sink's task has opened its outbox file
    SINK_FILE_WRITTEN = "sink.file_written"  # a sink's outbox file is durable; the task's report is not sent
    TASK_PREPARED = "task.prepared"  # a task has prepared; its report is not sent
    ROUND_ENDED = "round.ended"  # the driver has all reports; nothing is decided
    ROUND_FAILED = "round.failed"  # a round has failed; the driver is about to roll it back
    ROLLED_BACK = "rollback.namespaces"  # all namespaces are rolled back, but not the outbox files
    # The decision is durable in the store, but not its copy. The first start stores one decision before any wave.
    DECIDED = "decision.stored"
    DECISION_COPIED = "decision.copied"  # the decision's copy is durable, too; no namespace has committed
    HOOKS_CALLED = "commit.hooks_called"  # `pre_commit` was called on all tasks that have it
    # A namespace has applied a slice of its winner's updates, but has not committed. The memory provider has no
    # slices; Redis has none if one round trip commits everything (up to 4,000 updates).
    SLICE_APPLIED = "commit.slice_applied"
    NAMESPACE_COMMITTED = "commit.namespace"  # one namespace has committed; others may not have
    NAMESPACES_COMMITTED = "commit.namespaces"  # all namespaces have committed; no sink has published
    SINK_PUBLISHING = "sink.publishing"  # the driver is about to publish a sink's rows
    SINK_FILE_MOVED = "sink.file_moved"  # a `ParquetSink` has moved one file; it may not have moved others
    SINK_PUBLISHED = "sink.published"  # a sink's rows are published
    COMMITTED = "commit.recorded"  # COMMITTED is durable in the store; the outbox is not cleaned
    WAVE_ENDED = "wave.ended"  # the wave has ended; Spark does not know yet that its batch is done

    @property
    def on_driver(self) -> bool:
        """Whether the driver reaches this point; otherwise a task does, in a worker."""
        return self not in _OF_TASKS

    @property
    def has_component(self) -> bool:
        """Whether this point is reached for a component, so that a fault can name one."""
        return self.has_task or self in _OF_SINKS

    @property
    def has_task(self) -> bool:
        """Whether this point is reached for one task of a component, so that a fault can name one."""
        return self in _AT_TASK or self is FaultPoint.SINK_FILE_MOVED

    @property
    def first_txid(self) -> int | None:
        """The first transaction in which this point is reached, -1 before any; None if it belongs to none."""
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
"""The points for which `at_task` has set the task: in a worker, and on the driver before each namespace."""
_OF_SINKS = {FaultPoint.SINK_PUBLISHING, FaultPoint.SINK_PUBLISHED}
_BEFORE_ANY = {FaultPoint.RECOVERED, FaultPoint.DECIDED, FaultPoint.DECISION_COPIED}


class PointReached(NamedTuple):
    """A point, and the task and transaction for which it was reached."""

    point: FaultPoint
    component: str  # empty if the point belongs to no component
    task_index: int  # -1 if the point belongs to no task
    txid: int  # -1 before the first transaction


Observer = Callable[[PointReached], None]

_task: ContextVar[tuple[str, int, int]] = ContextVar("anchorbolt_task", default=("", -1, -1))
_observer: Observer | None = None


def at_task(component: str, task_index: int, txid: int) -> None:
    """Set the task for which this thread works from now on, so that `reach` can be called without it."""
    if _observer is not None:
        _task.set((component, task_index, txid))


def reach(point: FaultPoint, component: str = "", task_index: int = -1, txid: int | None = None) -> None:
    """Call the observer, which may raise, or kill or stop this process."""
    if _observer is not None:
        own_component, own_index, own_txid = _task.get() if point in _AT_TASK else ("", -1, -1)
        index = max(task_index, own_index)
        _observer(PointReached(point, component or own_component, index, own_txid if txid is None else txid))


def observe(observer: Observer | None) -> Observer | None:
    """Set the observer of this process's points, or None for no observer; return the previous one."""
    global _observer
    before, _observer = _observer, observer
    return before
