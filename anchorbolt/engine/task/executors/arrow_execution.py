"""Executes blocks of tuples by a vectorised bolt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anchorbolt.bolts.arrow import ArrowOutputCollector, BaseArrowBolt
from anchorbolt.bolts.base import FailedException, ReportedFailedException
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.engine.task.executors.tracked_execution import ISOLATED, reason_of
from anchorbolt.errors import StateError, UnsupportedValue
from anchorbolt.streams.columns import as_arrow
from anchorbolt.streams.tuple import Item, StreamHeader, TupleHandle
from anchorbolt.streams.tuple_batch import TupleBatch

if TYPE_CHECKING:
    import pyarrow

    from anchorbolt.tracking.task_tracker import TaskTracker


class ArrowExecution:
    """Runs one instance of a vectorised bolt.

    Attributes:
        isolates: Whether an exception fails only the trees of the tuple that causes it.
    """

    def __init__(
        self, bolt: BaseArrowBolt, collector: OutputCollector, tracker: TaskTracker | None, *, must_anchor: bool
    ) -> None:
        self._bolt = bolt
        self._collector = collector
        self._tracker = tracker
        self._arrow = ArrowOutputCollector(collector, is_tracked=tracker is not None, must_anchor=must_anchor)
        self.isolates = False

    def tick(self) -> None:
        self._arrow.begin_block(0, None, ("", "", -1))
        self._bolt.execute_tick(self._arrow)

    def execute(self, batch: TupleBatch) -> None:
        """Execute a block. Raises any exception of the bolt."""
        header, lineage = batch.header, batch.lineage
        block = _record_batch(batch)
        items = ids = None
        if lineage is not None:
            items, ids = lineage.items(), lineage.ids().tolist()
        self._execute(block, header, items, ids)

    def _execute(
        self, block: pyarrow.RecordBatch, header: StreamHeader, items: Sequence[Item] | None, ids: Sequence[int] | None
    ) -> None:
        size, tracker = block.num_rows, self._tracker
        self._arrow.begin_block(size, items, (header.component, header.stream, header.task))
        failing = ISOLATED if self.isolates else FailedException
        try:
            self._bolt.execute_batch(block, self._arrow)
        except failing as error:
            if tracker is None:
                if self._collector.fail_has_effect:
                    raise
                return
            if not isinstance(error, FailedException):
                if isinstance(error, StateError) or items is None:
                    raise  # the store is to blame, or no tuple can be left out
                if size > 1:
                    assert ids is not None
                    for part in (slice(0, size // 2), slice(size // 2, size)):
                        start, stop, _ = part.indices(size)
                        self._execute(block.slice(start, stop - start), header, items[part], ids[part])
                    return
            self._fail(error, header, size, items, ids)
        else:
            if tracker is not None:
                tracker.acked += size

    def _fail(
        self,
        error: BaseException,
        header: StreamHeader,
        size: int,
        items: Sequence[Item] | None,
        ids: Sequence[int] | None,
    ) -> None:
        """Fail the trees of all tuples of a block. Raises the error if one of them has none."""
        assert self._tracker is not None
        if isinstance(error, ReportedFailedException):
            self._collector.report_error(error)
            self._collector.failures_reported += 1
        if not self._collector.fail_has_effect:
            return
        if items is None or ids is None or () in items:
            raise error
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
