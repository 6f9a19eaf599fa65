"""The outbox of the sinks: tasks write their rows of a wave there, and the driver publishes the rows once decided.

Each task writes one Parquet file, named by round and attempt, at the checkpoint location.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anchorbolt.bolts.sink import DataFrameSink, SinkFile, SinkPublisher, SinkRun
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple, Phase
from anchorbolt.checkpoint.wrapped_bolts import TaskOutcome, WrappedBolt
from anchorbolt.errors import AnchorboltError, BoltError, ConfigError, SinkUnavailable, TopologyError
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.state_backends.state import AttemptScope, Fence
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import TupleBatch
from anchorbolt.util.locations import Folder, Locations, join
from anchorbolt.util.messages import shortened, user_traceback
from anchorbolt.util.retry import NO_RETRY, RetryPolicy

if TYPE_CHECKING:
    from anchorbolt.acker.task_tracker import TaskTracker

_log = logging.getLogger("anchorbolt.checkpoint")

_OUTBOX = "anchorbolt/outbox"  # below the checkpoint location


def _round_folder(fence: Fence) -> str:
    """Return the folder of a round, below the checkpoint location. No other driver or round writes there."""
    return f"{_OUTBOX}/{fence.generation}-{fence.seq}"


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
        self._name = f"{_round_folder(scope.fence)}/{self._component}-{self._task_index}-{scope.attempt}.parquet"
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
            self._tracker.ack_all(batch.lineage)

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


class Outbox:
    """The driver's side of the outbox: publishes decided rows, and removes files that are no longer needed."""

    def __init__(
        self,
        folder: Folder,
        sinks: Mapping[str, DataFrameSink],
        read_files: Callable[[Sequence[str]], Any],  # returns a Spark DataFrame of Parquet files
        locations: Locations,
        retry: RetryPolicy = NO_RETRY,
    ) -> None:
        self._folder = folder
        self._sinks = sinks
        self._publishers: dict[str, SinkPublisher] = {}  # of the sinks whose run has begun
        self._read_files = read_files
        self._locations = locations
        self._retry = retry

    def begin_run(self, topology: str, record: DecisionRecord, check_claim: Callable[[], None]) -> None:
        """Let each sink prepare for the waves after `record`, and for that one if it is decided and not committed."""
        is_pending = record.state.phase is Phase.COMMITTING
        for component, sink in self._sinks.items():
            pending = [file for file in record.outbox if is_pending and file.component == component]
            run = SinkRun(topology, component, record.txid, pending, check_claim, self._retry, self._locations)
            self._publishers[component] = sink.begin_run(run)

    def end_run(self) -> None:
        while self._publishers:
            self._publishers.popitem()[1].end_run()

    def publish(self, record: DecisionRecord, check_claim: Callable[[], None]) -> None:
        """Publish the rows of a decided wave, sink by sink; may be repeated. Calls `check_claim` before each sink."""
        by_component: dict[str, list[SinkFile]] = {}
        for file in record.outbox:
            by_component.setdefault(file.component, []).append(file)
        for component, files in by_component.items():
            sink = self._publisher(component)
            if sink is None:
                raise ConfigError(
                    f"the decided txid {record.txid} has rows for sink {component!r}, which the topology "
                    "no longer has. Start it once more with that sink, so that they are published."
                )
            check_claim()
            reach(FaultPoint.SINK_PUBLISHING, component, txid=record.txid)
            try:
                sink.publish(record.txid, files, self._read_files)
            except Exception as error:
                check_claim()  # a newer driver has published these rows, and removed their files
                if isinstance(error, AnchorboltError):
                    raise
                text = user_traceback(error)
                raise BoltError(
                    f"{text}\n\nraised while sink {component!r} published txid {record.txid}. The wave is decided and "
                    "its state committed; the next start publishes the same rows again, before anything else.",
                    component=component,
                    task_index=0,
                    user_traceback=text,
                ) from error
            reach(FaultPoint.SINK_PUBLISHED, component, txid=record.txid)
        for component, publisher in self._publishers.items():
            if component not in by_component:
                publisher.publish_nothing(record.txid)

    def _publisher(self, component: str) -> SinkPublisher | None:
        return self._publishers.get(component, self._sinks.get(component))

    def without_lost(self, record: DecisionRecord) -> DecisionRecord:
        """Return the record without the files that are gone. Warn of each sink whose rows may not have been published.

        Only for a user who accepted a new query although the old checkpoint location is gone.
        """
        there: list[SinkFile] = []
        lost: dict[str, list[SinkFile]] = {}
        for file in record.outbox:
            folder, _, name = file.path.rpartition("/")
            if self._locations.open(folder).exists(name):
                there.append(file)
                continue
            sink = self._publisher(file.component)
            if sink is None or not sink.is_published(record.txid, file):
                lost.setdefault(file.component, []).append(file)
        for component, files in lost.items():
            _log.warning(
                "%d rows of txid %d for sink %r were decided, may not have been published, and are gone with the "
                "checkpoint location (%s): the run continues without them. The state includes these rows.",
                sum(file.rows for file in files),
                record.txid,
                component,
                ", ".join(file.path for file in files),
            )
        return replace(record, outbox=tuple(there))

    def drop_round(self, fence: Fence) -> None:
        """Remove what the tasks of a failed round wrote. What cannot be removed now is removed by `clean`."""
        with _later():
            self._folder.remove_tree(_round_folder(fence))

    def clean(self, record: DecisionRecord, generation: int) -> None:
        """Remove the files of this and older drivers, except the record's own; those that cannot be, the next time."""
        kept = {file.path.split("/")[-2] for file in record.outbox}
        with _later():
            for name in list(self._folder.names(_OUTBOX)):
                owner = name.partition("-")[0]
                if name not in kept and owner.isdigit() and int(owner) <= generation:
                    self._folder.remove_tree(f"{_OUTBOX}/{name}")


@contextmanager
def _later() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _log.info("files of the outbox cannot be removed now: %s", error)


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
