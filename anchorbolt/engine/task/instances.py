"""The instances of bolts that one process keeps from wave to wave, and the rules for reusing them.

A stateful bolt's instance is reused if its namespace's position is still the one that the instance left, whichever
process ran the waves in between, unless the instance failed or took part in a round that was rolled back. A plain
bolt's instance is reused in any later wave, unless it failed. If tuple trees are tracked, an instance may keep tuples
that are not acked yet. Then a plain bolt's instance is not reused after a round that was rolled back, and a stateful
bolt's instance only if its attempt won the directly preceding wave of its task. In all other cases the instance is
closed, and a new one is built.

An instance that can never be reused is closed when the next round of its run begins in the process. The memory of all
other instances together has a limit per process.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Mapping
from functools import partial
from typing import NamedTuple

from anchorbolt.bolts.arrow import BaseArrowBolt
from anchorbolt.bolts.base import BaseBasicBolt, BaseStatefulBolt
from anchorbolt.bolts.batch import BaseBatchBolt, BatchOutputCollector
from anchorbolt.bolts.sink import DataFrameSink
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.plan.wiring import BatchPhase
from anchorbolt.engine.task.attributes import InitialValues
from anchorbolt.engine.task.emitter import Emitter
from anchorbolt.engine.task.executors.batch_executors import (
    BatchBoltExecutor,
    BlobKeeper,
    EmitterCommit,
    HandingBatchExecutor,
    StatefulBatchExecutor,
)
from anchorbolt.engine.task.executors.sink_executor import SinkExecutor
from anchorbolt.engine.task.executors.wrapped_bolts import CheckpointTupleForwarder, WrappedBolt
from anchorbolt.engine.task.instance import NEVER_CHANGED, Instance, build, open_state
from anchorbolt.errors import AnchorboltError
from anchorbolt.spouts import transactional as spouts
from anchorbolt.state_backends.cache_budget import CacheBudget
from anchorbolt.state_backends.state import NO_FENCE, Fence
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.transactional.batches.spout_calls import called, made

_log = logging.getLogger("anchorbolt.engine")

_RUNS_KEPT = 64
_INSTANCES_KEPT = 512


class KeptEmitter(NamedTuple):
    """The emitter of a task of a transactional topology's spout."""

    emitter: spouts.Emitter
    context: TopologyContext  # the emitter's, with the metrics that it registered


class _Run:
    """The instances and emitters of one run in a process."""

    def __init__(self) -> None:
        self.instances: OrderedDict[TaskKey, Instance] = OrderedDict()  # least recently used first
        self.emitters: dict[TaskKey, KeptEmitter] = {}
        self.initial_values: defaultdict[TaskKey, InitialValues] = defaultdict(InitialValues)
        self.fence: Fence = NO_FENCE  # of the latest round that has begun here
        self.obtained = 0  # instances in that round


class InstanceRegistry:
    """The instances of a process, by run and task.

    Not thread-safe, except `emitter` for different tasks: one bolt's task runs at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._budget = CacheBudget(0)  # of committed entries

    @property
    def cached_entries(self) -> int:
        """The number of committed entries that all states of this process keep."""
        return self._budget.entries

    @property
    def runs(self) -> Collection[str]:
        """The ids of the runs with instances or emitters in this process."""
        return self._runs.keys()

    def instances(self, run_id: str) -> Mapping[TaskKey, Instance]:
        """Return the instances of a run that this process keeps."""
        return self._runs[run_id].instances

    def obtain(self, plan: ExecutionPlan, task: TaskKey, current: Round) -> Instance:
        """Return the kept instance of a task if it may be reused, otherwise a new one."""
        run = self._run(plan)
        self._budget.most_entries = plan.settings.cache_entries
        self._begin_round(plan, run, current)
        instance = run.instances.pop(task, None)
        tracked = (plan.is_tracked or current.isolates) and task[0] != ACKER_ID
        if (
            instance is None
            or (instance.tracker is not None) != tracked
            or not _usable_again(instance, plan, task, current)
        ):
            if instance is not None:
                self._close(instance, task)
            instance = (
                build_for_batches(plan, task, self._budget)
                if plan.wiring.batch_spout
                else build(plan, task, self._budget, tracked=tracked)
            )
            instance.watch_attributes(run.initial_values[task])
        run.instances[task] = instance
        run.obtained += 1
        return instance

    def handle(self, plan: ExecutionPlan, checkpoint: CheckpointTuple, task: TaskKey, current: Round) -> None:
        """Pass COMMIT or ROLLBACK to a task's bolt. Raises `BoltError` and the errors of the store.

        COMMIT goes to the instance that processed the wave if this process keeps it, otherwise to a new one. ROLLBACK
        goes only to an instance of this process that took part in the round.
        """
        instance = self._run(plan).instances.get(task)
        winner = current.task_winners.get(task)
        if checkpoint.action is Action.ROLLBACK:
            if instance is None or instance.fence != current.fence:
                return
        elif instance is None or instance.attempt != winner:
            instance = self.obtain(plan, task, current)
            instance.begin(plan, task, current, uuid.uuid4().hex, winner or "")
        instance.bolt.handle(checkpoint)

    def emitter(self, plan: ExecutionPlan, task: TaskKey) -> KeptEmitter:
        """Return the kept emitter of a task of a transactional topology's spout, or a new one. Raises `SpoutError`."""
        emitters = self._run(plan).emitters
        if task not in emitters:
            context = plan.wiring.context(task)
            emitters[task] = KeptEmitter(new_emitter(plan, task, context), context)
        return emitters[task]

    def close_run(self, run_id: str) -> None:
        run = self._runs.pop(run_id, None)
        if run is None:
            return
        for task, instance in run.instances.items():
            self._close(instance, task)
        for task, kept in run.emitters.items():
            try:
                kept.emitter.close()
            except (Exception, SystemExit) as error:
                _log.warning(
                    "closing the emitter of task %s of %r: %s", task[1], task[0], error, extra=_fields_of(task)
                )

    def _run(self, plan: ExecutionPlan) -> _Run:
        with self._lock:
            run = self._runs.setdefault(plan.run_id, _Run())
            self._runs.move_to_end(plan.run_id)
        while len(self._runs) > _RUNS_KEPT:
            self.close_run(next(iter(self._runs)))
        return run

    def _begin_round(self, plan: ExecutionPlan, run: _Run, current: Round) -> None:
        """Close outdated instances when a round begins in this process, and the longest idle ones above the limit."""
        if current.fence <= run.fence:
            return
        run.fence = current.fence
        self._budget.begin_round()
        for task, instance in list(run.instances.items()):
            if not _usable_again(instance, plan, task, current):
                self._close(run.instances.pop(task), task)
        # A process that runs more tasks in a round keeps more instances, so as not to build them all in each round.
        most = max(_INSTANCES_KEPT, 2 * run.obtained)
        while len(run.instances) > most:
            task, instance = run.instances.popitem(last=False)
            self._close(instance, task)
        run.obtained = 0

    def _close(self, instance: Instance, task: TaskKey) -> None:
        """Close an instance. An error in its `cleanup` is logged."""
        try:
            instance.bolt.close()
        except AnchorboltError as error:
            _log.warning("closing task %s of %r: %s", task[1], task[0], error, extra=_fields_of(task))


def _fields_of(task: TaskKey) -> dict[str, object]:
    return {"component": task[0], "task": task[1]}


def _usable_again(instance: Instance, plan: ExecutionPlan, task: TaskKey, current: Round) -> bool:
    if not instance.attempt:  # it failed or was interrupted, so its attributes are unknown
        return False
    if not instance.is_stateful:
        return not (plan.is_tracked and current.was_rolled_back(instance.fence))
    return not _has_lost(instance, plan, task, current) and (
        instance.position == current.committed.get(plan.wiring.namespace(task), NEVER_CHANGED)
    )


def _has_lost(instance: Instance, plan: ExecutionPlan, task: TaskKey, current: Round) -> bool:
    """Return whether a stateful bolt's last attempt in this instance lost, even if it changed no state."""
    if instance.fence == current.fence or current.was_rolled_back(instance.fence):
        return True
    winner = current.task_winners.get(task)
    if plan.is_tracked and task[0] != ACKER_ID:  # the instance may keep tuples that another one has acked
        return instance.attempt != winner
    return winner not in (None, instance.attempt) and instance.txid == current.txid - 1


def build_for_batches(plan: ExecutionPlan, task: TaskKey, budget: CacheBudget) -> Instance:
    """Build an instance of a transactional topology, for the phase of the plan.

    `budget` limits the memory for states in this process.
    """
    component = task[0]
    emitter = Emitter(plan, task)
    collector = BatchOutputCollector(component, plan.wiring.streams[component], emitter.flush)
    wrapped, is_stateful = _wrapped(plan, task, emitter, collector, budget)
    return Instance(wrapped, is_stateful, collector, emitter)


def _wrapped(
    plan: ExecutionPlan, task: TaskKey, emitter: Emitter, collector: BatchOutputCollector, budget: CacheBudget
) -> tuple[WrappedBolt, bool]:
    component, context, forward = task[0], emitter.context, emitter.forward
    hand_offs, is_late = plan.hand_offs(), component in plan.wiring.late_bolts
    processing = plan.wiring.phase is BatchPhase.PROCESSING
    if component == plan.wiring.batch_spout:
        committing = new_emitter(plan, task, context)
        assert isinstance(committing, spouts.CommitterTransactionalEmitter)
        commit = partial(called, task, "commit", committing.commit)
        return EmitterCommit(commit, partial(called, task, "close", committing.close)), False
    bolt = plan.unpickle_bolt(component)
    if isinstance(bolt, BaseBatchBolt):
        kind = HandingBatchExecutor if is_late and processing else BatchBoltExecutor
        new_bolt = partial(_new_batch_bolt, plan, component)
        return kind(new_bolt, plan.conf, context, collector, forward, hand_offs), False
    if not isinstance(bolt, BaseStatefulBolt) and isinstance(bolt, BaseBasicBolt | BaseArrowBolt):
        return CheckpointTupleForwarder(bolt, plan.conf, context, collector, forward), False
    if processing:
        return BlobKeeper(context, forward, hand_offs), False
    if isinstance(bolt, DataFrameSink):
        return SinkExecutor(bolt, context, plan.open_location(), forward), False
    assert isinstance(bolt, BaseStatefulBolt), "the builder refuses any other bolt"
    state, time, timers = open_state(plan, task, bolt, budget), plan.times[component], plan.settings.timers_per_wave
    return StatefulBatchExecutor(bolt, plan.conf, context, collector, forward, state, time, timers), True


def _new_batch_bolt(plan: ExecutionPlan, component: str) -> BaseBatchBolt:
    bolt = plan.unpickle_bolt(component)
    assert isinstance(bolt, BaseBatchBolt)
    return bolt


def new_emitter(plan: ExecutionPlan, task: TaskKey, context: TopologyContext) -> spouts.Emitter:
    """Return a new emitter of a task. Raises `SpoutError` if the user's method raises or returns no emitter."""
    spout = plan.unpickle_spout()
    kind = spouts.kind_of(spout)
    assert kind is not None
    assert kind.emitter is not None
    make = spout.emitter  # type: ignore[attr-defined]
    emitter: spouts.Emitter = made(task, "emitter", kind.emitter, make, plan.conf, context)
    return emitter
