"""`StatefulBoltExecutor`: all that a stateful bolt's side of the checkpoint consists of. Knows nothing of Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.bolts.executor import close_bolt, fail_if_failed, raise_bolt_error
from anchorbolt.checkpoint.custom_state import CustomTaskState
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.errors import StateError
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.scope import AttemptScope
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import Tuple, TupleBatch

TaskState = KeyValueState[Any, Any] | CustomTaskState

KeyFields = Mapping[tuple[str, str], tuple[str, ...]]


class StatefulBoltExecutor:
    """Hosts one instance of a stateful bolt; `prepare` is called as it is made, `init_state` with INITSTATE.

    Storm's rules: tuples before INITSTATE are queued; PREPARE before it fails the checkpoint; COMMIT and ROLLBACK
    before it still apply; a repeated INITSTATE is ignored, but forwarded.
    """

    def __init__(
        self,
        bolt: BaseStatefulBolt[Any],
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: OutputCollector,
        state: TaskState,
        forward: Callable[[CheckpointTuple], None],
        key_fields: KeyFields,
    ) -> None:
        """Make the executor of one task.

        Args:
            bolt: The instance, not used by anyone else.
            conf: The configuration that `prepare` gets.
            context: Who the task is.
            collector: Where the bolt emits.
            state: The task's state.
            forward: Sends a checkpoint tuple on to all downstream tasks.
            key_fields: By source component and stream, the fields that it is grouped by.
        """
        self._bolt = bolt
        self._context = context
        self._collector = collector
        self._state = state
        self._forward = forward
        self._key_fields = key_fields
        self._own_keys = type(bolt).state_keys is not BaseStatefulBolt.state_keys
        self._initialised = False
        self._queued: list[TupleBatch] = []
        try:
            bolt.prepare(conf, context, collector)
        except Exception as error:
            raise_bolt_error(context, "prepare", None, error)

    @property
    def state(self) -> TaskState:
        """The task's state."""
        return self._state

    def begin(self, scope: AttemptScope, decided: str = "") -> None:
        """Start a wave: what an earlier attempt left unfinished is forgotten; `decided` as in `CustomTaskState`."""
        if isinstance(self._state, CustomTaskState):
            self._state.begin(scope, decided)
        else:
            self._state.begin(scope)
        self._queued.clear()

    def prefetch(self, batch: TupleBatch) -> None:
        """Fetch the state of the keys that executing `batch` will read, in one go."""
        if not self._initialised:
            return
        if self._own_keys:
            tup: Tuple | None = None
            keys: list[Any] = []
            try:
                for tup in batch.tuples():
                    keys.extend(self._bolt.state_keys(tup))
                tup = None
                distinct = dict.fromkeys(keys)
            except Exception as error:
                raise_bolt_error(self._context, "state_keys", tup, error)
            self._state.prefetch(distinct)
            return
        header = batch.header
        fields = self._key_fields.get((header.component, header.stream), ())
        columns = [batch.columns[header.index[field]] for field in fields]
        if columns:
            self._state.prefetch(
                _distinct(columns[0] if len(columns) == 1 else list(zip(*columns, strict=True)))
            )

    def execute(self, batch: TupleBatch) -> None:
        """Execute the tuples one by one, or queue them before INITSTATE; raises `BoltError`."""
        if not self._initialised:
            self._queued.append(batch)
            return
        execute = self._bolt.execute
        tup: Tuple | None = None
        try:
            for tup in batch.tuples():
                execute(tup)
        except Exception as error:
            raise_bolt_error(self._context, "execute", tup, error)
        fail_if_failed(self._context, self._collector)

    def handle(self, checkpoint: CheckpointTuple) -> None:
        """Take a checkpoint tuple that has arrived from all upstream tasks, and forward it.

        Raises:
            BoltError: A hook raised.
            StateError: PREPARE came before INITSTATE, or the store refused or failed.
        """
        action = checkpoint.action
        if action is Action.INITSTATE:
            self._initialise()
        elif action is Action.PREPARE:
            if not self._initialised:
                raise StateError(
                    f"task {self._context.this_task_index} of {self._context.this_component_id!r} was "
                    f"asked to prepare txid {checkpoint.txid} before INITSTATE; the checkpoint fails."
                )
            self._hook("pre_prepare", checkpoint.txid)
            fail_if_failed(self._context, self._collector)
            self._state.prepare_commit(checkpoint.txid)
            self._collector.flush()
        elif action is Action.COMMIT:
            self.call_hook(checkpoint)
            self._state.commit(checkpoint.txid)
        else:
            self.call_hook(checkpoint)
            self._state.rollback()
        self._forward(checkpoint)

    def call_hook(self, checkpoint: CheckpointTuple) -> None:
        """Call `pre_commit` or `pre_rollback` if the bolt is initialised, and leave the state alone."""
        if not self._initialised:
            return
        if checkpoint.action is Action.COMMIT:
            self._hook("pre_commit", checkpoint.txid)
        else:
            self._release()
            self._hook("pre_rollback")

    def close(self) -> None:
        """Call the bolt's `cleanup` and close its state; raises `BoltError`."""
        self._release()
        try:
            close_bolt(self._bolt, self._context)
        finally:
            self._state.close()

    def _initialise(self) -> None:
        if self._initialised:
            return
        state = self._state
        try:
            self._bolt.init_state(state.state if isinstance(state, CustomTaskState) else state)
        except Exception as error:
            raise_bolt_error(self._context, "init_state", None, error)
        self._initialised = True
        queued, self._queued = self._queued, []
        for batch in queued:
            self.prefetch(batch)
            self.execute(batch)

    def _release(self) -> None:
        # The store may have lost what was staged, or be further on: `pre_rollback` and `cleanup` read what is there.
        if isinstance(self._state, KeyValueState):
            self._state.release()

    def _hook(self, name: str, *arguments: int) -> None:
        try:
            getattr(self._bolt, name)(*arguments)
        except Exception as error:
            raise_bolt_error(self._context, name, None, error)


def _distinct(values: Any) -> Any:
    try:
        return set(values)
    except TypeError:  # an unhashable value: the state refuses it when the bolt puts it, naming the key
        return ()
