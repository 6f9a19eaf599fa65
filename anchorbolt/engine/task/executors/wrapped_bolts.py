"""`WrappedBolt`, an engine's interface to a bolt, and the wrapper of plain bolts. Without Spark."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from sys import getrefcount
from typing import TYPE_CHECKING, Any, NoReturn

from anchorbolt.bolts.arrow import BaseArrowBolt
from anchorbolt.bolts.base import BaseBasicBolt, FailedException
from anchorbolt.bolts.collector import BasicOutputCollector, OutputCollector
from anchorbolt.bolts.sink import SinkFile
from anchorbolt.bolts.tracked_collector import TrackedOutputCollector
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.checkpoint.times import NO_TIMES, TimesOfWave
from anchorbolt.errors import AnchorboltError, BoltError, StateError
from anchorbolt.state_backends.attempt import StateCounters
from anchorbolt.state_backends.contract import Seal
from anchorbolt.state_backends.state import NOTHING_COMMITTED, AttemptScope
from anchorbolt.streams.calls import others_may_call
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import Tuple
from anchorbolt.streams.tuple_batch import TupleBatch
from anchorbolt.util.messages import user_traceback

if TYPE_CHECKING:
    from anchorbolt.checkpoint.ports import BatchTry, HandOff
    from anchorbolt.engine.task.executors.arrow_execution import ArrowExecution, Block
    from anchorbolt.engine.task.executors.tracked_execution import TrackedExecution
    from anchorbolt.tracking.task_tracker import TaskTracker
    from anchorbolt.tracking.verdict import Verdict

_log = logging.getLogger("anchorbolt.checkpoint")

OF_A_HOOK = (Exception, SystemExit)
"""What fails a hook. A bolt that calls `sys.exit` fails: it must not end the worker."""


@dataclass(frozen=True)
class TaskOutcome:
    """The counts and seals of a task's state and outbox in a round."""

    counters: StateCounters = field(default_factory=StateCounters)
    base: int = NOTHING_COMMITTED  # the committed txid that the staged updates are based on
    seal: Seal | None = None  # None if the state did not change
    files: tuple[SinkFile, ...] = ()  # a sink's files in the outbox; empty if the wave had no rows
    verdict: Verdict | None = None  # an acker's
    hand_off: HandOff | None = None  # of a late bolt, in the processing phase of a batch
    keeps_journal: bool = False  # whether the bolt has updated an `anchorbolt.transactional.OpaqueMap`
    times: TimesOfWave = NO_TIMES  # its timers, event times and TTLs
    timers_fired: int = 0
    keys_swept: int = 0  # entries deleted because they had expired


class WrappedBolt(ABC):
    """One instance of a bolt in the wrapper that handles its checkpoint tuples: the only way to its hooks."""

    isolates = False
    """Whether an exception of the bolt fails only the trees of its tuple. Set by the engine for each round."""

    keeps_blobs = False
    """Whether the task keeps its blobs for the commit phase of its batch instead of executing them."""

    takes_txid = False
    """Whether the first value of a batch's tuples is its txid, and not its attempt."""

    takes_blocks = False
    """Whether it executes each blob as a whole, in any form of its columns. Without `takes_txid`, none has the attempt.
    """

    @property
    def outcome(self) -> TaskOutcome:
        return TaskOutcome()

    @property
    def kept_bolt(self) -> object | None:
        """The user's bolt, if it executes the tuples of more than one wave."""
        return None

    def begin_batch(self, batch: BatchTry, attempt: str) -> None:
        """Start a phase of a batch under a new attempt. Called before `begin`, only in a transactional topology."""

    def begin(self, scope: AttemptScope, winner: str = "") -> None:
        """Start a round; `winner` is the attempt that won the round if COMMIT follows, otherwise empty."""

    def keep(self, payload: bytes) -> None:
        """Keep a blob for the commit phase. Called only if `keeps_blobs`."""

    def prefetch(self, batch: TupleBatch) -> None:
        """Fetch in one round trip the state that executing `batch` will read. Called before `execute`."""

    @abstractmethod
    def execute(self, batch: TupleBatch) -> None:
        """Execute the tuples, whose columns are lists unless it `takes_blocks`. Raises `BoltError`."""

    def tick(self, batch: TupleBatch) -> None:
        """Execute a tick tuple. Raises `BoltError`."""
        self.execute(batch)

    def fire(self) -> Iterator[None]:
        """Call the bolt for each timer that is due, in portions; send what it emits after each. Raises `BoltError`."""
        yield from ()

    def contribute(self, blob: bytes, moves: bytes) -> None:
        """Take a task's contribution to the tuple trees. Only for ackers. Raises `SerializationError`."""

    @abstractmethod
    def handle(self, checkpoint: CheckpointTuple) -> None:
        """Take a checkpoint tuple; forward PREPARE after all tuples emitted before it."""

    @abstractmethod
    def close(self) -> None:
        """Call the bolt's `cleanup`. Raises `BoltError`."""


class CheckpointTupleForwarder(WrappedBolt):
    """Runs a bolt, and forwards PREPARE. A plain bolt has no other part in the checkpoint."""

    _calling_hooks: Collection[str] = ("init_state", "pre_prepare", "finish_batch", "execute_tick")
    """The hooks, besides `execute`, that may call the collector."""

    def __init__(
        self,
        bolt: Any,  # a BaseRichBolt, BaseBasicBolt or BaseStatefulBolt; its `prepare` is called here
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: OutputCollector,
        forward: Callable[[CheckpointTuple], None],  # sends PREPARE on to all downstream tasks
        tracker: TaskTracker | None = None,  # None if tuple trees are not tracked
        *,
        must_anchor: bool = False,  # whether a vectorised bolt must say which tuples its own result from
        may_isolate: bool = False,  # whether a round may isolate
    ) -> None:
        self._bolt = bolt
        self._context = context
        self._collector = collector
        self._forward = forward
        self._process = os.getpid()
        basic = isinstance(bolt, BaseBasicBolt)
        self._tracked: TrackedExecution | None = None
        self._arrow: ArrowExecution | None = None
        if isinstance(bolt, BaseArrowBolt):
            from anchorbolt.engine.task.executors.arrow_execution import ArrowExecution

            self.takes_blocks = True
            self._arrow = ArrowExecution(bolt, collector, tracker, must_anchor=must_anchor, may_isolate=may_isolate)
        elif tracker is not None:
            from anchorbolt.engine.task.executors.tracked_execution import (
                TrackedExecution,  # NumPy: only where it is needed
            )

            assert isinstance(collector, TrackedOutputCollector)
            self._tracked = TrackedExecution(bolt, collector, tracker, basic=basic)
        tracked_basic = None if self._tracked is None else self._tracked.basic
        self._basic = tracked_basic or (BasicOutputCollector(collector) if basic else None)
        self._is_new = True  # it has not executed a blob yet
        collector.close()
        self._prepare(conf)

    @property
    def kept_bolt(self) -> object | None:
        bolt: object = self._bolt
        return bolt

    def _prepare(self, conf: Mapping[str, Any]) -> None:
        self._call("prepare", conf, self._context, *(() if self._basic or self._arrow else (self._collector,)))

    def tick(self, batch: TupleBatch) -> None:
        if self._arrow is None:
            self.execute(batch)
        else:
            self._in_hook("execute_tick", self._arrow.tick)

    def execute(self, batch: TupleBatch) -> None:
        if self._arrow is not None:
            self._execute_block(self._arrow, batch)
            return
        execute, basic = self._bolt.execute, self._basic
        tup: Tuple | None = None
        # The first blob is always checked, to refuse a bolt that uses threads only within `execute`.
        self._collector.open(checks=self._is_new or others_may_call())
        self._is_new = False
        try:
            if self._tracked is not None:
                self._tracked.isolates = self.isolates
                self._tracked.execute(batch)
            elif batch.size:
                header, rows = batch.header, batch.rows()
                tup = Tuple((), header)
                alone = getrefcount(tup)
                for row in rows:
                    # A new object only if the bolt keeps the last one. To make one takes longer than many an `execute`.
                    if getrefcount(tup) == alone:
                        tup.values = row
                    else:
                        tup = Tuple(row, header)
                    try:
                        if basic is None:
                            execute(tup)
                        else:
                            execute(tup, basic)
                    except FailedException:
                        if self._collector.fail_has_effect:
                            raise
        except OF_A_HOOK as error:
            self._fail("execute", self._tracked.current if self._tracked else tup, error)
        finally:
            self._collector.close()
            self._end_if_forked("execute")
        self._raise_if_failed()

    def _execute_block(self, arrow: ArrowExecution, batch: TupleBatch) -> None:
        arrow.isolates = self.isolates
        self._collector.open()
        try:
            arrow.execute(batch)
        except OF_A_HOOK as error:
            self._fail("execute_batch", arrow.current, error)
        finally:
            self._collector.close()
            self._end_if_forked("execute_batch")
        self._raise_if_failed()

    def handle(self, checkpoint: CheckpointTuple) -> None:
        if checkpoint.action is Action.PREPARE:
            self._flush()
            if self._tracked is not None:
                self._tracked.take_rest()
            self._forward(checkpoint)

    def _flush(self) -> None:
        try:
            self._collector.flush()
        except Exception:
            self._raise_if_refused_late()
            raise

    def close(self) -> None:
        self._call("cleanup")

    def _call(self, hook: str, *arguments: Any) -> None:
        self._in_hook(hook, getattr(self._bolt, hook), *arguments)

    def _in_hook(self, hook: str, call: Callable[..., None], *arguments: Any) -> None:
        if hook in self._calling_hooks:
            self._collector.open()
        try:
            call(*arguments)
        except OF_A_HOOK as error:
            self._fail(hook, None, error)
        finally:
            self._collector.close()
            self._end_if_forked(hook)

    def _end_if_forked(self, hook: str) -> None:
        """End a process that the bolt has forked once it leaves the hook: it would run the rest of the task again."""
        if os.getpid() != self._process:
            task = self._context.this_component_id, self._context.this_task_index
            _log.error("bolt %r, task %d: a process that it forked left %s and is ended. End it there.", *task, hook)
            os._exit(1)

    def _raise_if_failed(self) -> None:
        self._raise_if_refused_late()
        failed = self._collector.failed_tuple
        if failed is not None:
            raise BoltError(
                f"bolt {self._context.this_component_id!r}, task {self._context.this_task_index}, failed the tuple "
                f"{failed!r} with collector.fail(tup). See why it does.",
                component=self._context.this_component_id,
                task_index=self._context.this_task_index,
                tuple_text=repr(failed),
            )

    def _raise_if_refused_late(self) -> None:
        """Raise the error of a refused buffer, if any. Its rows come from any tuples of the wave."""
        error = self._collector.refused_late
        if error is None:
            return
        if isinstance(error, AnchorboltError):
            raise error
        component, index = self._context.this_component_id, self._context.this_task_index
        text = user_traceback(error)  # of a grouping
        late = BoltError(
            f"{text}\n\nraised while tuples of bolt {component!r}, task {index}, were sent.",
            component=component,
            task_index=index,
            user_traceback=text,
        )
        late.found_late = True
        raise late from None

    def _fail(self, hook: str, tup: Tuple | Block | None, error: BaseException) -> NoReturn:
        """Raise `BoltError` for an exception of a user's hook; its message starts with the user's traceback.

        A `StateError` is raised unchanged: it comes from the store, not from the hook.
        """
        if isinstance(error, StateError):
            raise error
        self._raise_if_refused_late()
        component, index = self._context.this_component_id, self._context.this_task_index
        text = user_traceback(error)
        while_on = "" if tup is None else f", on the {'tuple' if isinstance(tup, Tuple) else 'block'} {tup!r}"
        raise BoltError(
            f"{text}\n\nraised by bolt {component!r}, task {index}, in {hook}{while_on}."
            + ("" if isinstance(error, AnchorboltError) else " Fix the bolt, or catch the exception in it."),
            component=component,
            task_index=index,
            tuple_text=None if tup is None else repr(tup),
            user_traceback=text,
        ) from None
