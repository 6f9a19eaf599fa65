"""`WrappedBolt`, an engine's interface to a bolt, and `CheckpointTupleForwarder`, the wrapper of a plain bolt."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from anchorbolt.bolts.base import BaseBasicBolt
from anchorbolt.bolts.collector import BasicOutputCollector, OutputCollector
from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.errors import AnchorboltError, BoltError, StateError
from anchorbolt.state_backends.contract import Seal
from anchorbolt.state_backends.state import NOTHING_COMMITTED, AttemptScope
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import Tuple, TupleBatch
from anchorbolt.util.messages import user_traceback


@dataclass(frozen=True)
class TaskOutcome:
    """The counts and seals of a task's state and outbox in a round."""

    keys_read: int = 0
    keys_staged: int = 0
    base: int = NOTHING_COMMITTED  # the committed txid that the staged updates are based on
    seal: Seal | None = None  # None if the state did not change
    file: SinkFile | None = None  # a sink's file in the outbox; None if the wave brought no rows


class WrappedBolt(ABC):
    """One instance of a bolt in the wrapper that handles its checkpoint tuples: the only way to its hooks."""

    @property
    def outcome(self) -> TaskOutcome:
        """The task's outcome in this round."""
        return TaskOutcome()

    def begin(self, scope: AttemptScope, decided: str = "") -> None:
        """Start a round; `decided` is the attempt that won it, if the round is decided already."""

    def prefetch(self, batch: TupleBatch) -> None:
        """Fetch in one round trip the state that executing `batch` will read. Called before `execute`."""

    @abstractmethod
    def execute(self, batch: TupleBatch) -> None:
        """Execute the tuples one by one. Raises `BoltError`."""

    @abstractmethod
    def handle(self, checkpoint: CheckpointTuple) -> None:
        """Take a checkpoint tuple; forward PREPARE behind everything emitted before it."""

    @abstractmethod
    def close(self) -> None:
        """Call the bolt's `cleanup`. Raises `BoltError`."""


class CheckpointTupleForwarder(WrappedBolt):
    """Runs a bolt, and forwards PREPARE. A plain bolt has no other part in the checkpoint."""

    def __init__(
        self,
        bolt: Any,  # a BaseRichBolt, BaseBasicBolt or BaseStatefulBolt; its `prepare` is called here
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: OutputCollector,
        forward: Callable[[CheckpointTuple], None],  # sends PREPARE on to all downstream tasks
    ) -> None:
        self._bolt = bolt
        self._context = context
        self._collector = collector
        self._forward = forward
        self._basic = BasicOutputCollector(collector) if isinstance(bolt, BaseBasicBolt) else None
        self._call("prepare", conf, context, *(() if self._basic else (collector,)))

    def execute(self, batch: TupleBatch) -> None:
        execute, basic = self._bolt.execute, self._basic
        tup: Tuple | None = None
        try:
            if basic is None:
                for tup in batch.tuples():
                    execute(tup)
            else:
                for tup in batch.tuples():
                    execute(tup, basic)
        except Exception as error:
            self._fail("execute", tup, error)
        self._raise_if_failed()

    def handle(self, checkpoint: CheckpointTuple) -> None:
        if checkpoint.action is Action.PREPARE:
            self._collector.flush()
            self._forward(checkpoint)

    def close(self) -> None:
        self._call("cleanup")

    def _call(self, hook: str, *arguments: Any) -> None:
        try:
            getattr(self._bolt, hook)(*arguments)
        except Exception as error:
            self._fail(hook, None, error)

    def _raise_if_failed(self) -> None:
        failed = self._collector.failed_tuple
        if failed is not None:
            raise BoltError(
                f"bolt {self._context.this_component_id!r}, task {self._context.this_task_index}, failed the tuple "
                f"{failed!r} with collector.fail(tup). The wave is rolled back and tried again.",
                component=self._context.this_component_id,
                task_index=self._context.this_task_index,
                tuple_text=repr(failed),
            )

    def _fail(self, hook: str, tup: Tuple | None, error: Exception) -> NoReturn:
        """Raise `BoltError` for an exception of a user's hook; its message starts with the user's traceback.

        A `StateError` is raised unchanged: it comes from the store, and only passed through the hook.
        """
        if isinstance(error, StateError):
            raise error
        component, index = self._context.this_component_id, self._context.this_task_index
        text = user_traceback(error)
        while_on = "" if tup is None else f", on the tuple {tup!r}"
        raise BoltError(
            f"{text}\n\nraised by bolt {component!r}, task {index}, in {hook}{while_on}."
            + ("" if isinstance(error, AnchorboltError) else " Fix the bolt, or catch the exception in it."),
            component=component,
            task_index=index,
            tuple_text=None if tup is None else repr(tup),
            user_traceback=text,
        ) from None
