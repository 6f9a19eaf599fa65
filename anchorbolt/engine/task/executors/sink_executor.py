"""The task's side of the outbox: writes the rows of a wave to one Parquet file, named by round and attempt.

The file is at the checkpoint location. The driver publishes it once the wave is decided: see `Outbox`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from anchorbolt.bolts.column_types import read_schema
from anchorbolt.bolts.sink import DataFrameSink, SinkFile, takes_columns
from anchorbolt.checkpoint.outbox import round_folder
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.task.executors.sink_rows import Refusal, SinkRows, without
from anchorbolt.engine.task.executors.wrapped_bolts import TaskOutcome, WrappedBolt
from anchorbolt.errors import AnchorboltError, SinkUnavailable
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.files import Folder, join
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple_batch import TupleBatch

if TYPE_CHECKING:
    from anchorbolt.tracking.task_tracker import TaskTracker


_GROUP_ROWS = 1 << 16
_GROUP_BYTES = 8 << 20
"""So much waits until it is written together: Parquet's encoding by row groups of one blob takes a third longer."""


class SinkExecutor(WrappedBolt):
    """Writes the rows column by column; PREPARE makes the file durable."""

    takes_txid = True  # no column can hold an attempt

    def __init__(
        self,
        sink: DataFrameSink,
        context: TopologyContext,
        folder: Folder,  # the streaming checkpoint location
        forward: Callable[[CheckpointTuple], None],
        tracker: TaskTracker | None = None,
    ) -> None:
        self._sink = sink
        self.takes_blocks = takes_columns(sink)
        self._tracker = tracker
        self._component = context.this_component_id
        self._task_index = context.this_task_index
        self._folder = folder
        self._forward = forward
        self._txid = -1
        self._name = ""  # of the current file
        self._beginning = ""  # prefix of the names of the wave's files
        self._files: list[SinkFile] = []  # finished in the current wave
        self._columns = self._new_columns(b"")
        self._writer: Any = None
        self._stream: Any = None
        self._written: Any = None  # the columns of the current file
        self._rows = 0  # in the current file
        self._waiting: list[Any] = []  # tables for it that are not written yet, with so many rows and bytes
        self._waiting_rows = self._waiting_bytes = 0

    @property
    def outcome(self) -> TaskOutcome:
        return TaskOutcome(files=tuple(self._files))

    def know(self, columns: bytes) -> None:
        """Take the columns of the sink in earlier waves, from the decision record. Called after `begin`."""
        self._columns = self._new_columns(columns)

    def begin(self, scope: AttemptScope, winner: str = "") -> None:
        self.close()
        self._txid = scope.txid
        self._beginning = f"{round_folder(scope.fence)}/{self._component}-{self._task_index}-{scope.attempt}"
        self._files = []
        self._columns = self._new_columns(b"")
        self._rows = 0

    def _new_columns(self, recorded: bytes) -> SinkRows:
        known = read_schema(recorded, self._component) if recorded else None
        return SinkRows(self._component, self._task_index, self._sink.outbox_columns, self._sink.schema, known)

    def execute(self, batch: TupleBatch) -> None:
        """Write rows. Raises `BoltError` if a value does not fit. In a round that isolates, its tuple fails instead."""
        rows, refused = self._columns, 0
        try:
            table = rows.table(batch)
        except AnchorboltError:
            raise
        except Exception as error:
            refusals = self._failed_rows(batch, error)
            refused = len(refusals)
            table = None if refused == batch.size else rows.table(without(batch, refusals))
        if table is not None:
            self._write(table)
            self._rows += batch.size - refused
        if self._tracker is not None:
            self._tracker.acked += batch.size - refused

    def _failed_rows(self, batch: TupleBatch, error: Exception) -> Mapping[int, Refusal]:
        """Fail the trees of the tuples that do not fit. Raises `BoltError` for the first tuple that has none."""
        refusals, tuples = self._columns.refused(batch), batch.tracked_tuples()
        if not refusals:
            raise self._columns.error(Refusal(f"sink {self._component!r}: {error}"), None) from error
        for position, refusal in refusals.items():
            tup = tuples[position]
            if self._tracker is None or not self.isolates or tup.roots == ():
                raise self._columns.error(refusal, repr(tup)) from error
            self._tracker.fail(tup, refusal.reason)
        return refusals

    def _write(self, table: Any) -> None:
        import pyarrow.parquet as pq

        try:
            if self._writer is not None and self._written != table.schema:
                self._finish_file()  # a later value has extended a column's type
            if self._writer is None:
                if not self._files:
                    self._sink.refuse_foreign_output(self._txid, self._component, self._task_index)
                part = f"-{len(self._files) + 1}" if self._files else ""
                self._name = f"{self._beginning}{part}.parquet"
                self._stream = self._folder.create(self._name)
                self._writer, self._written = pq.ParquetWriter(self._stream, table.schema), table.schema
                reach(FaultPoint.SINK_FILE_BEGUN)
            self._waiting.append(table)
            self._waiting_rows += table.num_rows
            self._waiting_bytes += table.nbytes
            if self._waiting_rows >= _GROUP_ROWS or self._waiting_bytes >= _GROUP_BYTES:
                self._write_waiting()
        except OSError as error:
            raise self._unwritable(error) from error

    def _write_waiting(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting))
        self._forget_waiting()

    def _forget_waiting(self) -> None:
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def _unwritable(self, error: OSError) -> SinkUnavailable:
        return SinkUnavailable(
            f"sink {self._component!r}, task {self._task_index}, cannot write "
            f"{join(self._folder.location, self._name)}: {error}. Make room, or make it writable on every machine that "
            "runs tasks."
        )

    def handle(self, checkpoint: CheckpointTuple) -> None:
        """Take a checkpoint tuple. On PREPARE, make the wave's file durable, then forward it."""
        if checkpoint.action is not Action.PREPARE:
            return
        if self._writer is not None:
            try:
                self._finish_file()
            except OSError as error:
                raise self._unwritable(error) from error
            reach(FaultPoint.SINK_FILE_WRITTEN)
        self._forward(checkpoint)

    def _finish_file(self) -> None:
        self._write_waiting()
        self._writer.close()
        self._stream.close()
        place = join(self._folder.location, self._name)
        number = len(self._files) + 1
        self._files.append(SinkFile(self._component, self._task_index, place, self._rows, self._columns.schema, number))
        self._writer = self._stream = None
        self._rows = 0

    def close(self) -> None:
        """Close an unfinished file. Nothing reads it, and the driver removes it."""
        # The writer first: without its stream, it would write an error to stderr.
        for unfinished in (self._writer, self._stream):
            if unfinished is not None:
                with suppress(OSError):
                    unfinished.close()
        self._writer = self._stream = None
        self._forget_waiting()
