"""`StatefulBoltExecutor`: a stateful bolt's side of the checkpoint. Knows nothing of Spark."""

from collections.abc import Callable, Mapping
from typing import Any

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.checkpoint.custom_state import CustomTaskState
from anchorbolt.checkpoint.forwarder import CheckpointTupleForwarder, TaskOutcome
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import Tuple, TupleBatch

TaskState = KeyValueState[Any, Any] | CustomTaskState


class StatefulBoltExecutor(CheckpointTupleForwarder):
    """Wraps one instance of a stateful bolt: calls all its hooks, and moves its state on the task's side.

    The bolt's `init_state` is called with the first INITSTATE. An engine sends INITSTATE before the first tuple of
    every wave, so no tuple and no PREPARE ever comes before it; see docs/decisions/initstate-first.md.
    """

    def __init__(
        self,
        bolt: BaseStatefulBolt[Any],
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: OutputCollector,
        forward: Callable[[CheckpointTuple], None],
        state: TaskState,
        key_fields: Mapping[tuple[str, str], tuple[str, ...]],  # by source and stream: the fields of the grouping
    ) -> None:
        self._state = state
        self._key_fields = key_fields
        self._own_keys = type(bolt).state_keys is not BaseStatefulBolt.state_keys
        self._is_initialised = False
        super().__init__(bolt, conf, context, collector, forward)

    @property
    def outcome(self) -> TaskOutcome:
        counters = self._state.counters
        return TaskOutcome(counters.keys_read, counters.keys_staged, self._state.committed, self._state.seal)

    def begin(self, scope: AttemptScope, decided: str = "") -> None:
        if isinstance(self._state, CustomTaskState):
            self._state.begin(scope, decided)
        else:
            self._state.begin(scope)

    def prefetch(self, batch: TupleBatch) -> None:
        if self._own_keys:
            tup: Tuple | None = None
            keys: list[Any] = []
            try:
                for tup in batch.tuples():
                    keys.extend(self._bolt.state_keys(tup))
                tup = None
                distinct = dict.fromkeys(keys)
            except Exception as error:
                self._fail("state_keys", tup, error)
            self._state.prefetch(distinct)
            return
        header = batch.header
        fields = self._key_fields.get((header.component, header.stream), ())
        columns = [batch.columns[header.index[field]] for field in fields]
        if columns:
            self._state.prefetch(_distinct(columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))))

    def handle(self, checkpoint: CheckpointTuple) -> None:
        """Take a checkpoint tuple. PREPARE has arrived from all upstream tasks, and is forwarded.

        COMMIT and ROLLBACK only call the bolt's hook: the driver moves the state, see `namespaces`.
        """
        state = self._state
        if checkpoint.action is Action.INITSTATE:
            if not self._is_initialised:
                self._call("init_state", state.state if isinstance(state, CustomTaskState) else state)
                self._is_initialised = True
        elif checkpoint.action is Action.PREPARE:
            self._call("pre_prepare", checkpoint.txid)
            self._raise_if_failed()
            state.prepare_commit(checkpoint.txid)
            super().handle(checkpoint)
        elif checkpoint.action is Action.COMMIT:
            self._call("pre_commit", checkpoint.txid)
        else:
            self._release()
            self._call("pre_rollback")

    def close(self) -> None:
        self._release()
        try:
            super().close()
        finally:
            self._state.close()

    def _release(self) -> None:
        # The store may have lost what was staged, or be further on: `pre_rollback` and `cleanup` read what is there.
        if isinstance(self._state, KeyValueState):
            self._state.release()


def _distinct(values: Any) -> Any:
    try:
        return set(values)
    except TypeError:  # an unhashable value: the state refuses it when the bolt puts it, naming the key
        return ()
