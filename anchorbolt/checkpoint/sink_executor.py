"""The outbox in a sink's task: writes the task's rows of a wave to one Parquet file, named by round and attempt."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from anchorbolt.bolts.sink import DataFrameSink, SinkFile
from anchorbolt.checkpoint.forwarder import TaskOutcome
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.errors import BoltError, SinkUnavailable, TopologyError
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.state_backends.scope import AttemptScope, Fence
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import TupleBatch
from anchorbolt.util.locations import join, open_folder
from anchorbolt.util.messages import shortened

OUTBOX = "anchorbolt/outbox"
"""Folder of the outbox, below the checkpoint location."""


def outbox_folder(fence: Fence) -> str:
    """Return the folder of a round, below the checkpoint location. No other driver or round writes there."""
    return f"{OUTBOX}/{fence.generation}-{fence.seq}"


def outbox_name(fence: Fence, context: TopologyContext, attempt: str) -> str:
    """Return the name of an attempt's file, below the checkpoint location."""
    return f"{outbox_folder(fence)}/{context.this_component_id}-{context.this_task_index}-{attempt}.parquet"


class SinkExecutor:
    """Writes the rows column by column; PREPARE makes the file durable."""

    def __init__(
        self,
        sink: DataFrameSink,
        context: TopologyContext,
        location: str,  # the streaming checkpoint location
        forward: Callable[[CheckpointTuple], None],
    ) -> None:
        self._sink = sink
        self._context = context
        self._location = location
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
        """The file that PREPARE wrote."""
        return TaskOutcome(file=self._file)

    def begin(self, scope: AttemptScope, decided: str = "") -> None:
        """Start a round."""
        self.close()
        self._txid = scope.txid
        self._name = outbox_name(scope.fence, self._context, scope.attempt)
        self._file = self._schema = None
        self._rows = 0

    def prefetch(self, batch: TupleBatch) -> None:
        """Do nothing: a sink has no state."""

    def execute(self, batch: TupleBatch) -> None:
        """Write rows. Raises `BoltError` if a value does not fit its column."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        header = batch.header
        try:
            if self._schema is None:
                self._schema = self._sink.schema or _inferred(header.fields, batch.columns)
                self._sink.refuse_foreign_output(
                    self._txid, self._context.this_component_id, self._context.this_task_index
                )
                self._stream = open_folder(self._location).create(self._name)
                self._writer = pq.ParquetWriter(self._stream, self._schema)
                reach(FaultPoint.SINK_FILE_BEGUN)
            if tuple(self._schema.names) != header.fields:
                raise TopologyError(
                    f"sink {self._context.this_component_id!r} takes the fields {', '.join(self._schema.names)}, but "
                    f"{header.component!r} sends {', '.join(header.fields)}. Give all its inputs, and its schema, "
                    "the same fields.",
                    component=self._context.this_component_id,
                )
            arrays = [
                pa.array(column, type=field.type) for field, column in zip(self._schema, batch.columns, strict=True)
            ]
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        except OSError as error:
            raise self._unwritable(error) from error
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise BoltError(
                f"sink {self._context.this_component_id!r}: {_misfit(batch, self._schema)} of {header.component!r}: "
                f"{error}. Give the sink a schema that fits all values.",
                component=self._context.this_component_id,
                task_index=self._context.this_task_index,
                tuple_text=None,
                user_traceback="",
            ) from error
        self._rows += batch.size

    def _unwritable(self, error: OSError) -> SinkUnavailable:
        return SinkUnavailable(
            f"sink {self._context.this_component_id!r}, task {self._context.this_task_index}, cannot write "
            f"{join(self._location, self._name)}: {error}. Make room, or make it writable on every machine that "
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
                self._context.this_component_id,
                self._context.this_task_index,
                join(self._location, self._name),
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


def _misfit(batch: TupleBatch, schema: Any) -> str:
    """Name the first value that does not fit its column; without a schema, the earlier values make the column."""
    import pyarrow as pa

    def is_fit(values: Any, kind: Any) -> bool:
        try:
            pa.array(values, type=kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return False
        return True

    for position, (field, column) in enumerate(zip(batch.header.fields, batch.columns, strict=True)):
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


def _inferred(fields: tuple[str, ...], columns: Any) -> Any:
    import pyarrow as pa

    types = [pa.array(column).type for column in columns]
    # A column of None throughout says nothing about its type; text reads back as NULL with any reader.
    return pa.schema(
        [(field, pa.string() if pa.types.is_null(kind) else kind) for field, kind in zip(fields, types, strict=True)]
    )
