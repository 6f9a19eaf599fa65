"""The task's side of the outbox: writes the rows of a wave to one Parquet file, named by round and attempt.

The file is at the checkpoint location. The driver publishes it once the wave is decided: see `Outbox`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from anchorbolt.bolts.sink import DataFrameSink, SinkFile
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.checkpoint.wrapped_bolts import TaskOutcome, WrappedBolt
from anchorbolt.errors import AnchorboltError, BoltError, SinkUnavailable, TopologyError
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.state_backends.state import AttemptScope, Fence
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import TupleBatch
from anchorbolt.util.locations import Folder, join
from anchorbolt.util.messages import shortened, user_traceback

if TYPE_CHECKING:
    from anchorbolt.acker.task_tracker import TaskTracker

OUTBOX = "anchorbolt/outbox"  # below the checkpoint location


def round_folder(fence: Fence) -> str:
    """Return the folder of a round, below the checkpoint location. No other driver or round writes there."""
    return f"{OUTBOX}/{fence.generation}-{fence.seq}"


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
        self._tracker = tracker
        self._component = context.this_component_id
        self._task_index = context.this_task_index
        self._folder = folder
        self._forward = forward
        self._txid = -1
        self._name = ""
        self._file: SinkFile | None = None
        self._schema: Any = None
        self._writer: Any = None
        self._stream: Any = None
        self._rows = 0

    @property
    def outcome(self) -> TaskOutcome:
        return TaskOutcome(file=self._file)

    def begin(self, scope: AttemptScope, winner: str = "") -> None:
        self.close()
        self._txid = scope.txid
        self._name = f"{round_folder(scope.fence)}/{self._component}-{self._task_index}-{scope.attempt}.parquet"
        self._file = self._schema = None
        self._rows = 0

    def execute(self, batch: TupleBatch) -> None:
        """Write rows. Raises `BoltError` if a value does not fit its column."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        header = batch.header
        fields, columns = self._columns(batch)
        try:
            if self._schema is None:
                self._schema = self._sink.schema or _inferred(fields, columns)
                self._sink.refuse_foreign_output(self._txid, self._component, self._task_index)
                self._stream = self._folder.create(self._name)
                self._writer = pq.ParquetWriter(self._stream, self._schema)
                reach(FaultPoint.SINK_FILE_BEGUN)
            if tuple(self._schema.names) != tuple(fields):
                raise TopologyError(
                    f"sink {self._component!r} takes the fields {', '.join(self._schema.names)}, but "
                    f"{header.component!r} sends {', '.join(fields)}. Give all its inputs, and its schema, "
                    "the same fields.",
                    component=self._component,
                )
            arrays = [pa.array(column, type=field.type) for field, column in zip(self._schema, columns, strict=True)]
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        except OSError as error:
            raise self._unwritable(error) from error
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise BoltError(
                f"sink {self._component!r}: {_misfit(fields, columns, self._schema)} of {header.component!r}: "
                f"{error}. Give the sink a schema that fits all values.",
                component=self._component,
                task_index=self._task_index,
            ) from error
        self._rows += batch.size
        if self._tracker is not None:
            self._tracker.ack_all(batch.size, batch.lineage)

    def _columns(self, batch: TupleBatch) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Return the columns that the sink makes of a batch. Raises `BoltError` if the sink raises."""
        try:
            return self._sink.outbox_columns(batch.header.fields, batch.columns)
        except AnchorboltError:
            raise
        except Exception as error:
            text = user_traceback(error)
            raise BoltError(
                f"{text}\n\nraised while sink {self._component!r} converted tuples of {batch.header.component!r}.",
                component=self._component,
                task_index=self._task_index,
                user_traceback=text,
            ) from error

    def _unwritable(self, error: OSError) -> SinkUnavailable:
        return SinkUnavailable(
            f"sink {self._component!r}, task {self._task_index}, cannot write "
            f"{join(self._folder.location, self._name)}: {error}. Make room, or make it writable on every machine that "
            "runs tasks."
        )

    def handle(self, checkpoint: CheckpointTuple) -> None:
        """Take a checkpoint tuple. PREPARE makes the wave's file durable, and is forwarded."""
        if checkpoint.action is not Action.PREPARE:
            return
        if self._rows:
            try:
                self._writer.close()
                self._stream.close()
            except OSError as error:
                raise self._unwritable(error) from error
            self._file = SinkFile(
                self._component,
                self._task_index,
                join(self._folder.location, self._name),
                self._rows,
                ", ".join(f"{field.name} {field.type}" for field in self._schema),
            )
            self._writer = self._stream = None
            reach(FaultPoint.SINK_FILE_WRITTEN)
        self._forward(checkpoint)

    def close(self) -> None:
        """Close an unfinished file. Nothing reads it, and the driver removes it."""
        # The writer first: one that outlives its stream complains on stderr.
        for unfinished in (self._writer, self._stream):
            if unfinished is not None:
                with suppress(OSError):
                    unfinished.close()
        self._writer = self._stream = None


def _misfit(fields: Sequence[str], columns: Sequence[Sequence[Any]], schema: Any) -> str:
    """Name the first value that does not fit its column; without a schema, the earlier values make the column."""
    import pyarrow as pa

    def is_fit(values: Any, kind: Any) -> bool:
        try:
            pa.array(values, type=kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return False
        return True

    for position, (field, column) in enumerate(zip(fields, columns, strict=True)):
        kind = schema.field(position).type if schema is not None else None
        if is_fit(column, kind):
            continue
        for value in column:
            if not is_fit([value], kind):
                column_type = "" if kind is None else f" ({kind})"
                shown = f"{shortened(value, 100)}, a {type(value).__name__},"
                return f"the value {shown} does not fit the field {field!r}{column_type}"
            if kind is None and value is not None:
                kind = pa.array([value]).type
    return "rows do not fit the columns"


def _inferred(fields: Sequence[str], columns: Any) -> Any:
    import pyarrow as pa

    types = [pa.array(column).type for column in columns]
    # A column of None throughout says nothing about its type; text reads back as NULL with any reader.
    return pa.schema(
        [(field, pa.string() if pa.types.is_null(kind) else kind) for field, kind in zip(fields, types, strict=True)]
    )
