"""`StatefulBoltExecutor`: a stateful bolt's side of the checkpoint. Knows nothing of Spark."""

from collections.abc import Callable, Mapping
from typing import Any

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.bolts.executor import close_bolt, fail_if_failed, raise_bolt_error
from anchorbolt.checkpoint.custom_state import CustomTaskState
from anchorbolt.checkpoint.forwarder import TaskOutcome
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.scope import AttemptScope
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import Tuple, TupleBatch

TaskState = KeyValueState[Any, Any] | CustomTaskState

KeyFields = Mapping[tuple[str, str], tuple[str, ...]]


class StatefulBoltExecutor:
    """Wraps one instance of a stateful bolt: calls all its hooks, and moves its state on the task's side.

    The bolt's `prepare` is called here, `init_state` with the first INITSTATE. An engine sends INITSTATE before the
    first tuple of every wave, so no tuple and no PREPARE ever comes before it; see docs/decisions/initstate-first.md.
    """

    def __init__(
        self,
        bolt: BaseStatefulBolt[Any],
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: OutputCollector,
        state: TaskState,
        forward: Callable[[CheckpointTuple], None],  # sends PREPARE on to all downstream tasks
        key_fields: KeyFields,  # by source component and stream: the fields that it is grouped by
    ) -> None:
        self._bolt = bolt
        self._context = context
        self._collector = collector
        self._state = state
        self._forward = forward
        self._key_fields = key_fields
        self._own_keys = type(bolt).state_keys is not BaseStatefulBolt.state_keys
        self._is_initialised = False
        try:
            bolt.prepare(conf, context, collector)
        except Exception as error:
            raise_bolt_error(context, "prepare", None, error)

    @property
    def outcome(self) -> TaskOutcome:
        """The numbers of keys that the state read and staged in this round."""
        state = self._state
        counters = state.counters
        return TaskOutcome(counters.keys_read, counters.keys_staged, state.committed, state.seal)

    def begin(self, scope: AttemptScope, decided: str = "") -> None:
        """Start a round: forget what an earlier attempt left unfinished; `decided` as in `CustomTaskState`."""
        if isinstance(self._state, CustomTaskState):
            self._state.begin(scope, decided)
        else:
            self._state.begin(scope)

    def prefetch(self, batch: TupleBatch) -> None:
        """Fetch the state of the keys that executing `batch` will read, in one round trip."""
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
            self._state.prefetch(_distinct(columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))))

    def execute(self, batch: TupleBatch) -> None:
        """Execute the tuples one by one; raises `BoltError`."""
        execute = self._bolt.execute
        tup: Tuple | None = None
        try:
            for tup in batch.tuples():
                execute(tup)
        except Exception as error:
            raise_bolt_error(self._context, "execute", tup, error)
        fail_if_failed(self._context, self._collector)

    def handle(self, checkpoint: CheckpointTuple) -> None:
        """Take a checkpoint tuple. PREPARE has arrived from all upstream tasks, and is forwarded.

        COMMIT and ROLLBACK only call the bolt's hook: the driver moves the state, see `ports.Namespaces`.

        Raises:
            BoltError: A hook raised.
            StateError: The store refused or failed.
        """
        if checkpoint.action is Action.INITSTATE:
            self._initialise()
        elif checkpoint.action is Action.PREPARE:
            self._hook("pre_prepare", checkpoint.txid)
            fail_if_failed(self._context, self._collector)
            self._state.prepare_commit(checkpoint.txid)
            self._collector.flush()
            self._forward(checkpoint)
        elif checkpoint.action is Action.COMMIT:
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
        if self._is_initialised:
            return
        state = self._state
        try:
            self._bolt.init_state(state.state if isinstance(state, CustomTaskState) else state)
        except Exception as error:
            raise_bolt_error(self._context, "init_state", None, error)
        self._is_initialised = True

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
