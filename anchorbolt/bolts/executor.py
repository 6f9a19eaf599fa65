"""Executes the tuples of one task with a plain bolt. Errors of the user's code become `BoltError`."""

from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

from anchorbolt.bolts.base import BaseBasicBolt, BaseRichBolt
from anchorbolt.bolts.collector import BasicOutputCollector, OutputCollector
from anchorbolt.errors import AnchorboltError, BoltError, StateError
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import Tuple, TupleBatch
from anchorbolt.util.user_traceback import user_traceback


class BoltExecutor(Protocol):
    """The methods of a bolt's executor that an engine calls during a wave."""

    def prefetch(self, batch: TupleBatch) -> None:
        """Fetch in one round trip the state that executing `batch` will read. Called before `execute`."""

    def execute(self, batch: TupleBatch) -> None: ...

    def close(self) -> None:
        """Call the bolt's `cleanup`."""


class PlainBoltExecutor:
    """Hosts one instance of a `BaseRichBolt` or `BaseBasicBolt`; the constructor calls its `prepare`."""

    def __init__(
        self,
        bolt: BaseRichBolt | BaseBasicBolt,
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: OutputCollector,
    ) -> None:
        self._bolt = bolt
        self._context = context
        self._collector = collector
        self._basic = BasicOutputCollector(collector)
        try:
            if isinstance(bolt, BaseBasicBolt):
                bolt.prepare(conf, context)
            else:
                bolt.prepare(conf, context, collector)
        except Exception as error:
            raise_bolt_error(context, "prepare", None, error)

    def prefetch(self, batch: TupleBatch) -> None:
        pass  # a plain bolt has no state

    def execute(self, batch: TupleBatch) -> None:
        bolt = self._bolt
        tup: Tuple | None = None
        try:
            if isinstance(bolt, BaseBasicBolt):
                basic = self._basic
                run = bolt.execute
                for tup in batch.tuples():
                    run(tup, basic)
            else:
                execute = bolt.execute
                for tup in batch.tuples():
                    execute(tup)
        except Exception as error:
            raise_bolt_error(self._context, "execute", tup, error)
        fail_if_failed(self._context, self._collector)

    def close(self) -> None:
        close_bolt(self._bolt, self._context)


def close_bolt(bolt: Any, context: TopologyContext) -> None:
    try:
        bolt.cleanup()
    except Exception as error:
        raise_bolt_error(context, "cleanup", None, error)


def fail_if_failed(context: TopologyContext, collector: OutputCollector) -> None:
    """Raise `BoltError` if the bolt has failed a tuple."""
    failed = collector.failed_tuple
    if failed is not None:
        raise BoltError(
            f"bolt {context.this_component_id!r}, task {context.this_task_index}, failed the tuple {failed!r} with "
            "collector.fail(tup). The wave is rolled back and tried again.",
            component=context.this_component_id,
            task_index=context.this_task_index,
            tuple_text=repr(failed),
        )


def raise_bolt_error(context: TopologyContext, hook: str, tup: Tuple | None, error: Exception) -> NoReturn:
    """Raise `BoltError` for an exception that a user's hook raised; its message starts with the user's traceback.

    A `StateError` is raised unchanged: it comes from the store, and only passed through the hook.
    """
    if isinstance(error, StateError):
        raise error
    text = user_traceback(error)
    while_on = "" if tup is None else f", on the tuple {tup!r}"
    raise BoltError(
        f"{text}\n\nraised by bolt {context.this_component_id!r}, task {context.this_task_index}, in {hook}{while_on}."
        + ("" if isinstance(error, AnchorboltError) else " Fix the bolt, or catch the exception in it."),
        component=context.this_component_id,
        task_index=context.this_task_index,
        tuple_text=None if tup is None else repr(tup),
        user_traceback=text,
    ) from None
