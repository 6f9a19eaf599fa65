"""`StatefulBoltExecutor`, the wrapper of a stateful bolt in a topology of any kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.checkpoint.custom_state import CustomTaskState
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.checkpoint.times import TimesOfWave
from anchorbolt.engine.task.executors.wrapped_bolts import OF_A_HOOK, CheckpointTupleForwarder, TaskOutcome
from anchorbolt.errors import BoltError
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.streams.columns import Coded, as_list, rows_of
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import Tuple
from anchorbolt.streams.tuple_batch import TupleBatch
from anchorbolt.topology.time import NO_TIME, TimeSpec
from anchorbolt.util.times import are_instants, instant_ms, instants_in
from anchorbolt.windows.by_key import WindowsByKey
from anchorbolt.windows.keyed import BaseWindowBolt

if TYPE_CHECKING:
    from anchorbolt.tracking.task_tracker import TaskTracker

_TIMERS_PER_SEND = 2048

TaskState = KeyValueState[Any, Any] | CustomTaskState


class StatefulBoltExecutor(CheckpointTupleForwarder):
    """Wraps one instance of a stateful bolt: calls all its hooks, and stages its state.

    Calls the bolt's `init_state` at the first INITSTATE. An engine sends INITSTATE before the first tuple of every
    wave, so `init_state` is never called after a tuple or a PREPARE; see docs/decisions/initstate-first.md.
    """

    def __init__(
        self,
        bolt: BaseStatefulBolt[Any],
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: OutputCollector,
        forward: Callable[[CheckpointTuple], None],
        state: TaskState,
        time: TimeSpec = NO_TIME,
        timers_per_wave: int = 1,
        tracker: TaskTracker | None = None,
        *,
        must_anchor: bool = False,
        may_isolate: bool = False,
    ) -> None:
        self._state = state
        self._time = time
        self._timers_per_wave = timers_per_wave
        self._clock = 0  # of the wave
        self._seen: dict[tuple[str, str], int] = {}  # the largest event times of the wave, by stream
        self._own_keys = type(bolt).state_keys is not BaseStatefulBolt.state_keys
        self._is_initialised = False
        super().__init__(
            bolt, conf, context, collector, forward, tracker, must_anchor=must_anchor, may_isolate=may_isolate
        )

    @property
    def outcome(self) -> TaskOutcome:
        state = self._state
        outcome = TaskOutcome(state.counters, state.base, state.seal)
        if isinstance(state, CustomTaskState):  # has no time, see `open_state`
            return outcome
        timed = state.timed
        times = TimesOfWave(timed.next_due, self._seen, timed.waiting)
        return replace(outcome, times=times, timers_fired=timed.fired, keys_swept=timed.swept)

    def begin(self, scope: AttemptScope, winner: str = "") -> None:
        self._seen, self._clock = {}, scope.clock
        if isinstance(self._state, CustomTaskState):
            self._state.begin(scope, winner)
        else:
            self._state.begin(scope)

    def prefetch(self, batch: TupleBatch) -> None:
        if self._time.event_time is not None:
            self._note_event_times(batch, self._time.event_time)
        if self.takes_blocks:
            return  # the methods that take columns fetch what they need
        if isinstance(self._bolt, BaseWindowBolt):
            self._bolt.prefetch(batch)
            return
        if self._own_keys:
            self._state.prefetch(self._keys(batch))
            return
        header = batch.header
        fields = self._context.grouping_fields.get((header.component, header.stream), ())
        columns = [batch.columns[header.index[field]] for field in fields]
        if len(columns) == 1 and type(columns[0]) is Coded:
            self._state.prefetch(columns[0].values, are_distinct=True)
        elif columns:
            self._state.prefetch(_distinct(as_list(columns[0]) if len(columns) == 1 else rows_of(batch.size, columns)))

    def _note_event_times(self, batch: TupleBatch, field: str) -> None:
        """Note the largest event time of a blob. A round that isolates leaves wrong ones to `execute`."""
        header = batch.header
        if field not in header.index:
            return  # a tick
        column = batch.columns[header.index[field] - len(header.fields)]  # blocks lack the first one, for the attempt
        horizon = max(self._clock, int(time.time() * 1000)) + self._time.max_ahead_ms
        instants = instants_in(column) if self.takes_blocks and not isinstance(column, Coded | list) else None
        if instants is not None:
            past = instants[instants <= horizon]
            latest = int(past.max()) if len(past) else None
        else:
            values = as_list(column)
            if set(map(type, values)) - {int} or not are_instants(values):
                values = self._instants(batch, field, values)
            latest = max(values, default=None)
            if latest is not None and latest > horizon:
                latest = max((each for each in values if each <= horizon), default=None)
        if latest is not None:
            stream = header.component, header.stream
            self._seen[stream] = max(latest, self._seen.get(stream, latest))

    def _instants(self, batch: TupleBatch, field: str, values: Sequence[Any]) -> list[int]:
        instants = []
        for row, value in enumerate(values):
            try:
                instants.append(instant_ms(value))
            except ValueError as error:
                if not self.isolates:
                    tup = next(islice(batch.in_lists().tuples(), row, None))
                    component, index = self._context.this_component_id, self._context.this_task_index
                    raise BoltError(
                        f"bolt {component!r}, task {index}: field {field!r} of {tup!r} is not an event time: {error}. "
                        "Fix the component that emits it, or put a bolt in between that drops such tuples.",
                        component=component,
                        task_index=index,
                        tuple_text=repr(tup),
                    ) from None
        return instants

    def _keys(self, batch: TupleBatch) -> dict[Any, None]:
        """Return the keys that the bolt names, in their order."""
        isolating = self._tracked if self.isolates else None
        keys: dict[Any, None] = {}
        tup: Tuple | None = None
        try:
            if isolating is not None:
                return isolating.state_keys(batch)
            for tup in batch.tuples():
                keys.update(dict.fromkeys(self._bolt.state_keys(tup)))
        except OF_A_HOOK as error:
            self._fail("state_keys", tup if isolating is None else isolating.current, error)
        return keys

    def handle(self, checkpoint: CheckpointTuple) -> None:
        """Take a checkpoint tuple. PREPARE has arrived from all upstream tasks, and is forwarded.

        COMMIT and ROLLBACK only call the bolt's hook: the driver commits or rolls back the state, see `namespaces`.
        """
        state = self._state
        if checkpoint.action is Action.INITSTATE:
            if not self._is_initialised:
                self._call("init_state", state.state if isinstance(state, CustomTaskState) else state)
                if self._time.has_timers:
                    assert isinstance(state, KeyValueState), "`open_state` refuses timers without one"
                    if self._time.event_time is None:
                        state.timed.timers.clocks = ("processing",)
                    self._call("init_timers", state.timed.timers)
                self._is_initialised = True
        elif checkpoint.action is Action.PREPARE:
            self._call("pre_prepare", checkpoint.txid)
            self._raise_if_failed()
            state.prepare_commit(checkpoint.txid)
            super().handle(checkpoint)
        elif checkpoint.action is Action.COMMIT:
            self._call("pre_commit", checkpoint.txid)
        else:
            self._stop_checking_reads()
            self._call("pre_rollback")

    def fire(self) -> Iterator[None]:
        state = self._state
        if not self._time.has_timers:
            return
        assert isinstance(state, KeyValueState), "`open_state` refuses timers without one"
        if isinstance(self._bolt, WindowsByKey):
            self._call("flush_windows")
        due = state.timed.take_due(self._timers_per_wave)
        for start in range(0, len(due), _TIMERS_PER_SEND):
            part = due[start : start + _TIMERS_PER_SEND]
            self._collector.open()
            timer = None
            try:
                state.prefetch({key: None for timer in part for key in self._bolt.timer_keys(timer)})
                if self._arrow is not None:
                    self._arrow.fire([timer for timer in part if state.timed.timers.fire(timer)])
                else:
                    for timer in part:
                        if state.timed.timers.fire(timer):
                            self._bolt.on_timer(timer)
            except OF_A_HOOK as error:
                self._fail(f"on_timer({timer!r})" if self._arrow is None else "on_timers", None, error)
            finally:
                self._collector.close()
                self._end_if_forked("on_timer")
            self._raise_if_failed()
            yield

    def close(self) -> None:
        self._stop_checking_reads()
        try:
            super().close()
        finally:
            self._state.close()

    def _stop_checking_reads(self) -> None:
        # Staged updates may be gone or superseded: `pre_rollback` and `cleanup` read the store as it is.
        if isinstance(self._state, KeyValueState):
            self._state.stop_checking_reads()


def _distinct(values: Any) -> Any:
    try:
        return dict.fromkeys(values)
    except TypeError:  # an unhashable value: when the bolt puts it, the state refuses it and names the key
        return ()
