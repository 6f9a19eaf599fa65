"""Executes blocks of tuples by a vectorised bolt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anchorbolt.bolts.arrow import ArrowOutputCollector, BaseArrowBolt, BaseStatefulArrowBolt
from anchorbolt.bolts.base import FailedException, ReportedFailedException
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.bolts.tracked_collector import TrackedOutputCollector
from anchorbolt.engine.task.executors.tracked_execution import ISOLATED, reason_of
from anchorbolt.errors import StateError, UnsupportedValue
from anchorbolt.streams.columns import as_arrow
from anchorbolt.streams.tuple import Item, StreamHeader, TupleHandle
from anchorbolt.streams.tuple_batch import TupleBatch
from anchorbolt.util.messages import counted

if TYPE_CHECKING:
    import pyarrow

    from anchorbolt.state_backends.timed.timers import Timer
    from anchorbolt.tracking.task_tracker import TaskTracker


class Block:
    """A block of tuples in an error message."""

    def __init__(self, batch: TupleBatch) -> None:
        self._batch = batch

    def __repr__(self) -> str:
        header, first = self._batch.header, self._batch.part(0, 1)
        fields = header.fields[len(header.fields) - len(first.columns) :]
        shown = StreamHeader(header.component, header.task, header.stream, fields)
        [tup] = first._replace(header=shown).tuples()
        return f"of {counted(self._batch.size, 'tuple')}, the first: {tup!r}"


class ArrowExecution:
    """Runs one instance of a vectorised bolt.

    Attributes:
        current: The block on which the bolt has raised.
        isolates: Whether an exception fails only the trees of the tuple that causes it.
    """

    def __init__(
        self,
        bolt: BaseArrowBolt,
        collector: OutputCollector,
        tracker: TaskTracker | None,
        *,
        must_anchor: bool,
        may_isolate: bool,
    ) -> None:
        """Create it; if a round `may_isolate`, a block of several tuples fails there only, tuple by tuple."""
        self._untracked_fail = isinstance(collector, TrackedOutputCollector) and collector.untracked_fail
        self._bolt = bolt
        self._may_isolate = may_isolate
        self._collector = collector
        self._tracker = tracker
        self._arrow = ArrowOutputCollector(collector, is_tracked=tracker is not None, must_anchor=must_anchor)
        self.current: Block | None = None
        self.isolates = False

    def tick(self) -> None:
        self._arrow.begin_block(0, None, ("", "", -1))
        self._bolt.execute_tick(self._arrow)

    def fire(self, timers: Sequence[Timer]) -> None:
        assert isinstance(self._bolt, BaseStatefulArrowBolt), "other bolts have no timers"
        self._arrow.begin_block(0, None, ("", "", -1))
        if timers:
            self._bolt.on_timers(timers, self._arrow)

    def execute(self, batch: TupleBatch) -> None:
        """Execute a block. Raises any exception of the bolt."""
        lineage = batch.lineage
        self.current = Block(batch)
        items = ids = None
        if lineage is not None:
            items, ids = lineage.items(), lineage.ids().tolist()
        elif self._tracker is not None:
            items, ids = [()] * batch.size, [0] * batch.size
        self._execute(batch, items, ids)

    def _execute(self, batch: TupleBatch, items: Sequence[Item] | None, ids: Sequence[int] | None) -> None:
        size, header = batch.size, batch.header
        self._arrow.begin_block(size, items, (header.component, header.stream, header.task))
        failing = ISOLATED if self.isolates else FailedException
        failure: BaseException
        try:
            self._bolt.execute_batch(_record_batch(batch), self._arrow)
        except failing as error:
            failure = error
        else:
            if self._tracker is not None:
                self._tracker.acked += size
            return
        if self._tracker is None:
            if self._collector.fail_has_effect:
                raise failure
            return
        assert items is not None
        assert ids is not None
        if isinstance(failure, StateError):
            raise failure  # the store is to blame
        if size == 1 or not (self.isolates or self._may_isolate) or not any(items):
            if () in items and (self._untracked_fail or not isinstance(failure, FailedException)):
                raise failure  # a tuple cannot be left out
            self._fail(failure, header, items, ids)
        elif not self.isolates:
            raise failure  # so that a round isolates
        else:
            for start, stop in ((0, size // 2), (size // 2, size)):
                part = slice(start, stop)
                self._execute(batch.part(start, stop), items[part], ids[part])
            if not self._tracker.failures:
                raise failure  # no tuple raises alone; what the block did before it raised must not be committed

    def _fail(self, error: BaseException, header: StreamHeader, items: Sequence[Item], ids: Sequence[int]) -> None:
        """Fail the trees of all tuples of a block."""
        assert self._tracker is not None
        if isinstance(error, ReportedFailedException):
            self._collector.report_error(error)
            self._collector.failures_reported += 1
        for item, id in zip(items, ids, strict=True):
            self._tracker.fail(TupleHandle(header.receiver, id, item), *reason_of(error, self._tracker))


def _record_batch(batch: TupleBatch) -> pyarrow.RecordBatch:
    """Return the columns of a block, without the attempt. Raises `UnsupportedValue`."""
    import pyarrow as pa

    fields = batch.header.fields
    names, arrays = fields[len(fields) - len(batch.columns) :], []
    for name, column in zip(names, batch.columns, strict=True):
        try:
            arrays.append(as_arrow(column))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise UnsupportedValue(
                f"the values of the field {name!r} of {batch.header.component!r} have no Arrow type in common: "
                f"{error}. Give the field a type where it is declared, or convert the values there."
            ) from error
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.size, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, list(names))
