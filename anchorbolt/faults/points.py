"""Named points in the protocol, at which a test can inject a fault. For tests only.

The engine calls `reach` at each point. Nothing happens there unless a simulation, or `injection`, has set an observer
with `observe`. Without an observer a point costs one comparison; no point is on the path of a single tuple.
"""

from collections.abc import Callable
from contextvars import ContextVar
from enum import Enum
from typing import NamedTuple


class FaultPoint(str, Enum):
    """The points at which a fault can strike, in the order of a run."""

    on_driver: bool
    """Whether the driver reaches this point; otherwise a task does, in a worker.

    A worker also reaches `SLICE_APPLIED` and `NAMESPACE_COMMITTED` if the provider's commits run on the executors.
    """
    has_component: bool
    """Whether this point is reached for a component, so that a fault can name a component."""
    has_task: bool
    """Whether this point is reached for one task of a component, so that a fault can name a task."""
    first_txid: int | None
    """The first transaction in which this point is reached, -1 before the first; None if it belongs to none."""

    def __new__(cls, value: str, reached_by: str = "driver", first_txid: int | None = 0) -> "FaultPoint":
        point = str.__new__(cls, value)
        point._value_ = value
        point.on_driver = reached_by != "worker"
        point.has_component = reached_by != "driver"
        point.has_task = reached_by in ("worker", "driver, for a task")
        point.first_txid = first_txid
        return point

    CLAIMED = "driver.claimed", "driver", None  # a driver has taken a new generation; no other namespace has it yet
    FENCES_RAISED = "driver.fences_raised", "driver", None  # all namespaces refuse older drivers; nothing is recovered
    RECOVERED = "driver.recovered", "driver", -1  # recovery has ended; no wave has begun
    # A transactional topology's batch: its metadata is stored, or its emitters are about to find it.
    BATCH_BEGUN = "batch.begun", "driver", 1
    METADATA_STORED = "batch.metadata_stored", "driver", 1  # the metadata that the emitters found is durable
    HAND_OFF_WRITTEN = "batch.hand_off_written", "worker", 1  # a late bolt's task has written its hand-off
    BATCH_PROCESSED = "batch.processed", "driver", 1  # the processing phase has ended; the commit phase has not begun
    ROUND_BEGUN = "round.begun"  # the driver is about to run a round of a wave
    TASK_BEGUN = "task.begun", "worker"  # a task's attempt has begun, a spout's included; it has executed no tuple
    TASK_EXECUTED = "task.executed", "worker"  # a task has executed a blob, or up to 2,048 tuples of it
    TASK_ALIGNED = "task.aligned", "worker"  # all input has come: the task is about to prepare
    SLICE_STAGED = "state.slice_staged", "worker"  # a slice of a task's updates is staged
    STAGED = "state.staged", "worker"  # all of a task's updates are staged, but not sealed
    SEALED = "state.sealed", "worker"  # a task's updates are sealed; its report is not sent
    SINK_FILE_BEGUN = "sink.file_begun", "worker"  # a sink's task has opened its outbox file
    SINK_FILE_WRITTEN = "sink.file_written", "worker"  # a sink's outbox file is durable; the task's report is not sent
    TASK_PREPARED = "task.prepared", "worker"  # a task has prepared; its report is not sent
    ROUND_ENDED = "round.ended"  # the driver has all reports; nothing is decided
    ROUND_FAILED = "round.failed"  # a round has failed; the driver is about to roll it back
    ROLLED_BACK = "rollback.namespaces"  # all namespaces are rolled back, but not the outbox files
    # The decision is durable in the store, but not its copy. The first start stores one decision before any wave.
    DECIDED = "decision.stored", "driver", -1
    DECISION_COPIED = "decision.copied", "driver", -1  # the decision's copy is also durable; no namespace has committed
    HOOKS_CALLED = "commit.hooks_called"  # `pre_commit` was called on all tasks that have it
    # A namespace has applied a slice of its winner's updates, but has not committed. The memory provider has no
    # slices; Redis has none if one round trip commits everything (up to 2,000 updates).
    SLICE_APPLIED = "commit.slice_applied", "driver, for a task"
    NAMESPACE_COMMITTED = "commit.namespace", "driver, for a task"  # one namespace has committed; others may not have
    NAMESPACES_COMMITTED = "commit.namespaces"  # all namespaces have committed; no sink has published
    SINK_PUBLISHING = "sink.publishing", "driver, for a component"  # the driver is about to publish a sink's rows
    SINK_FILE_MOVED = "sink.file_moved", "driver, for a task"  # a `ParquetSink` has moved one file, others perhaps not
    # A `KafkaSink` has sent all messages of a wave and the marker; the transaction is not committed.
    SINK_MESSAGES_SENT = "sink.messages_sent", "driver, for a component"
    SINK_PUBLISHED = "sink.published", "driver, for a component"  # a sink's rows are published
    COMMITTED = "commit.recorded"  # COMMITTED is durable in the store; the outbox is not cleaned
    WAVE_ENDED = "wave.ended"  # the wave has ended; Spark has not recorded yet that its batch is done


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
    """Set the current task of this thread, so that `reach` can be called without it."""
    _task.set((component, task_index, txid))


def current_task() -> tuple[str, int, int]:
    """Return component, index and txid of the task that this thread runs; empty, -1 and -1 outside a task."""
    return _task.get()


def reach(point: FaultPoint, component: str = "", task_index: int = -1, txid: int | None = None) -> None:
    """Call the observer, which may raise, or kill or stop this process."""
    if _observer is not None:
        own_txid = -1
        if point.has_task and not component:
            component, task_index, own_txid = _task.get()
        _observer(PointReached(point, component, task_index, own_txid if txid is None else txid))


def observe(observer: Observer | None) -> Observer | None:
    """Set the observer of this process's points, or None for no observer; return the previous one."""
    global _observer
    before, _observer = _observer, observer
    return before
