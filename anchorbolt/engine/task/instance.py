"""One instance of a bolt with its wrapper, collector and emitter, and its construction in an ordinary topology."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.bolts.batch import BatchOutputCollector
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.bolts.sink import DataFrameSink
from anchorbolt.bolts.tracked_collector import TrackedOutputCollector
from anchorbolt.checkpoint.custom_state import CustomTaskState
from anchorbolt.checkpoint.decision import Committed
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.attributes import AttributeWatch, InitialValues
from anchorbolt.engine.task.emitter import Emitter
from anchorbolt.engine.task.executors.sink_executor import SinkExecutor
from anchorbolt.engine.task.executors.stateful_executor import StatefulBoltExecutor, TaskState
from anchorbolt.engine.task.executors.wrapped_bolts import CheckpointTupleForwarder, TaskOutcome, WrappedBolt
from anchorbolt.errors import ConfigError
from anchorbolt.maintenance.live_savepoint import SavepointFiles
from anchorbolt.serialization.codecs import Schema
from anchorbolt.state_backends.cache_budget import CacheBudget
from anchorbolt.state_backends.contract import StagedSlice, StateStorage
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.state import NO_FENCE, NOTHING_COMMITTED, AttemptScope, Fence
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.streams.tuple_batch import TupleBatch
from anchorbolt.tracking.blob import Contribution, decode_blob
from anchorbolt.tracking.ledger import merge
from anchorbolt.tracking.placement import apply_moves
from anchorbolt.tracking.stored_trees import tree_state
from anchorbolt.tracking.verdict import Verdict

if TYPE_CHECKING:
    from anchorbolt.tracking.task_tracker import TaskTracker

_log = logging.getLogger("anchorbolt.engine")

FIRST_PORTION = 64
"""How many tuples a new instance executes before it sends what it has emitted."""

NEVER_CHANGED = Committed(NOTHING_COMMITTED, "")
"""The position of a namespace that no wave has changed."""


@dataclass
class Instance:
    """One bolt instance with its wrapper, collector and emitter."""

    bolt: WrappedBolt
    is_stateful: bool
    collector: OutputCollector
    emitter: Emitter
    tracker: TaskTracker | None = None  # None if its tuples are not tracked
    portion: int = FIRST_PORTION  # tuples that it executes before it sends
    attempt: str = ""  # the last attempt that it prepared; empty if it failed since
    fence: Fence = NO_FENCE  # of the round that it was last used in
    txid: int = NOTHING_COMMITTED  # of that round
    base: Committed = NEVER_CHANGED  # its namespace's position when that round began
    watch: AttributeWatch | None = None  # None if its attributes are not watched
    _position: Committed | None = None

    @property
    def position(self) -> Committed:
        """The namespace's position, assuming that this instance's last prepared attempt won."""
        if self._position is None:
            self._position = self.base if self.bolt.outcome.seal is None else Committed(self.txid, self.attempt)
        return self._position

    def begin(self, plan: ExecutionPlan, task: TaskKey, current: Round, attempt: str, winner: str = "") -> None:
        """Start a round; `winner` is the attempt that won the round if COMMIT follows, otherwise empty."""
        self.attempt, self._position = "", None
        self.fence, self.txid = current.fence, current.txid
        self.collector.most_bytes = plan.settings.most_buffer_bytes
        self.collector.unread = self.emitter.unread
        self.collector.begin(self.emitter.check if current.checks else None)
        self.emitter.begin(attempt)
        if self.tracker is not None:
            self.tracker.keeps_failures = current.isolates or not plan.wiring.ackers
        self.base = position = current.committed.get(plan.wiring.namespace(task), NEVER_CHANGED)
        scope = AttemptScope(
            current.fence,
            current.txid,
            attempt,
            position.txid,
            position.attempt,
            current.clock,
            current.watermarks.get(task[0]),
            task[0] in current.expiring,
            _keeper(plan, task, current.savepoint) if current.savepoint and self.is_stateful else None,
        )
        self.bolt.isolates = current.isolates
        if current.batch is not None:
            assert isinstance(self.collector, BatchOutputCollector)
            self.collector.attempt = current.batch.attempt
            self.bolt.begin_batch(current.batch, attempt)
        self.bolt.begin(scope, winner)
        if isinstance(self.bolt, SinkExecutor):
            self.bolt.know(current.columns.get(task[0], b""))
        self.bolt.handle(CheckpointTuple(current.txid - 1, Action.INITSTATE))
        if self.watch is not None:
            self.watch.begin(current)

    def watch_attributes(self, initial_values: InitialValues) -> None:
        """Watch the bolt's attributes, unless the bolt's class is part of Anchorbolt.

        Args:
            initial_values: The task's; used only for a stateful bolt.
        """
        bolt = self.bolt.kept_bolt
        if bolt is not None and not type(bolt).__module__.startswith("anchorbolt."):
            self.watch = AttributeWatch(bolt, initial_values if self.is_stateful else None)


def _keeper(plan: ExecutionPlan, task: TaskKey, savepoint: str) -> Callable[[StagedSlice], None]:
    """Return a function that keeps a staged slice for a savepoint. A failure does no harm to the wave."""
    files, namespace = SavepointFiles(plan.open_location()), plan.wiring.namespace(task)

    def keep(staged: StagedSlice) -> None:
        try:
            files.keep(savepoint, namespace, staged)
        except OSError as error:  # the command finds out: the slices are not those that were sealed
            _log.warning("changes of %s are missing in a savepoint, which will fail: %s", namespace, error)

    return keep


def build(plan: ExecutionPlan, task: TaskKey, budget: CacheBudget, *, tracked: bool) -> Instance:
    """Build an instance of a bolt, or of an acker, with its wrapper, collector and emitter.

    `budget` limits the memory for states in this process.
    """
    component, index = task
    if component == ACKER_ID:
        return _build_acker(plan, task, budget)
    tracker = None
    if tracked:
        from anchorbolt.tracking.task_tracker import TaskTracker  # NumPy: only where tuple trees are tracked

        tracker = TaskTracker(
            component,
            index,
            plan.wiring.task_id(task),
            counts=plan.wiring.ackers > 0,
            most_tracebacks=plan.settings.most_dead_letters,
            mask=plan.masking.text,
        )
    bolt = plan.unpickle_bolt(component)
    emitter = Emitter(plan, task, tracker)
    context = emitter.context
    collector = _collector(plan, emitter, tracked=tracked)
    wrapped: WrappedBolt
    if isinstance(bolt, BaseStatefulBolt):
        state = open_state(plan, task, bolt, budget)
        wrapped = StatefulBoltExecutor(
            bolt,
            plan.conf,
            context,
            collector,
            emitter.forward,
            state,
            plan.times[component],
            plan.settings.timers_per_wave,
            tracker,
            must_anchor=plan.is_tracked,
            may_isolate=plan.keeps_dead_letters,
        )
    elif isinstance(bolt, DataFrameSink):
        wrapped = SinkExecutor(bolt, context, plan.open_location(), emitter.forward, tracker)
    else:
        wrapped = CheckpointTupleForwarder(
            bolt,
            plan.conf,
            context,
            collector,
            emitter.forward,
            tracker,
            must_anchor=plan.is_tracked,
            may_isolate=plan.keeps_dead_letters,
        )
    return Instance(wrapped, isinstance(bolt, BaseStatefulBolt), collector, emitter, tracker)


def _build_acker(plan: ExecutionPlan, task: TaskKey, budget: CacheBudget) -> Instance:

    emitter = Emitter(plan, task)
    storage = plan.provider.open(plan.wiring.namespace(task))
    acker = AckerExecutor(storage, emitter.forward, budget)
    return Instance(acker, True, OutputCollector(ACKER_ID, {}, emitter.flush, must_anchor=False), emitter)


def _collector(plan: ExecutionPlan, emitter: Emitter, *, tracked: bool) -> OutputCollector:
    context, must_anchor = emitter.context, bool(plan.wiring.stateful_bolts)
    component = context.this_component_id
    streams = plan.wiring.streams[component]
    if not tracked:
        # As in Storm, nothing fails in a topology of rich spouts without ackers.
        return OutputCollector(
            component, streams, emitter.flush, must_anchor=must_anchor, fail_has_effect=plan.wiring.has_other_spouts
        )
    return TrackedOutputCollector(
        component,
        streams,
        emitter.flush,
        must_anchor=must_anchor,
        task_index=context.this_task_index,
        untracked_fail=plan.wiring.has_other_spouts,
        strict=plan.is_tracked,
        fail_has_effect=plan.is_tracked or plan.wiring.has_other_spouts,
    )


def open_state(plan: ExecutionPlan, task: TaskKey, bolt: BaseStatefulBolt[Any], budget: CacheBudget) -> TaskState:
    custom = plan.new_state(task)
    storage = plan.provider.open(plan.wiring.namespace(task))
    if custom is not None:
        if plan.has_time(task[0]):
            raise ConfigError(
                f"bolt {task[0]!r} has a state of its own class, and timers, event time or a TTL, which need a "
                "KeyValueState. Let new_state return None for it.",
                key="topology.state.provider",
            )
        return CustomTaskState(custom, storage)
    return KeyValueState(
        storage,
        key_codec=plan.key_codec,
        value_codec=plan.value_codec,
        schema=Schema(bolt.state_schema_version, bolt.upcast),
        cache_entries=plan.settings.cache_entries,
        pending_entries=plan.settings.pending_entries,
        budget=budget,
        ttl_ms=plan.ttl_ms(task[0]),
    )


class AckerExecutor(WrappedBolt):
    """One task of `__acker`. The contributions come with the PREPARE of each task."""

    def __init__(
        self, storage: StateStorage, forward: Callable[[CheckpointTuple], None], budget: CacheBudget | None = None
    ) -> None:
        self._state = tree_state(storage, budget)
        self._forward = forward
        self._contributions: list[Contribution] = []
        self._verdict = Verdict()

    @property
    def outcome(self) -> TaskOutcome:
        return TaskOutcome(self._state.counters, self._state.base, self._state.seal, verdict=self._verdict)

    def begin(self, scope: AttemptScope, winner: str = "") -> None:
        self._state.begin(scope)
        self._contributions = []

    def contribute(self, blob: bytes, moves: bytes) -> None:
        """Take the contributions of one task, and the open trees that must move; each may be empty.

        Raises `SerializationError` if they are damaged.
        """
        if blob:
            self._contributions.append(decode_blob(blob))
        if moves:
            apply_moves(moves, self._state)

    def execute(self, batch: TupleBatch) -> None:
        raise AssertionError("an acker takes no tuples")

    def handle(self, checkpoint: CheckpointTuple) -> None:
        if checkpoint.action is Action.PREPARE:
            self._verdict = merge(self._contributions, self._state)
            self._contributions = []
            self._state.prepare_commit(checkpoint.txid)
            self._forward(checkpoint)

    def close(self) -> None:
        self._state.close()
