"""Sinks: bolts at the end of a topology, with exactly-once output. Each sink uses an outbox.

In the prepare phase each task of a sink writes its rows to a file at the checkpoint location. The decision
names the files of the winning attempts. In the commit phase the driver publishes exactly these files, and publishes
them again after a crash that follows the decision.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from anchorbolt.bolts.base import Bolt
from anchorbolt.bolts.parquet_folder import tell_columns
from anchorbolt.errors import SinkUnavailable, StateRegressed, TopologyError
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.files import BaseLocation, Folder, Locations, WorkerLocations, join
from anchorbolt.util.retry import NO_RETRY, RetryPolicy

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

_MOVES_AT_ONCE = 8
_HERE = WorkerLocations(BaseLocation())  # locations that any process can open
_OF_DRIVER = ("locations", "_retry")  # attributes


@dataclass(frozen=True)
class SinkFile:
    """Rows that one sink task wrote in a wave: a Parquet file, the only one unless its columns have changed."""

    component: str
    task_index: int
    path: str
    rows: int  # number of rows in the file
    schema: bytes  # the columns, encoded: see `anchorbolt.bolts.column_types`
    number: int = 1  # of this file, among the task's files in the wave
    known: bytes = b""  # all columns of the sink up to this wave; set when the wave is published


@dataclass(frozen=True)
class SinkRun:
    """The driver's information for a sink at the start of a run."""

    topology: str
    component: str
    txid: int  # the last decided wave; -1 before the first
    pending: Sequence[SinkFile]  # the files of that wave that may not be published yet; empty if it is committed
    check_claim: Callable[[], None]  # raises `Fenced` if a newer driver has taken over
    retry: RetryPolicy  # how long to wait while the output does not answer
    locations: Locations = _HERE  # opens files with the run's credentials


class SinkPublisher(Protocol):
    """Publishes the waves of one run of a sink, on the driver. `DataFrameSink` describes the methods."""

    def publish(self, txid: int, files: Sequence[SinkFile], read: Callable[[Sequence[str]], Any]) -> None: ...

    def publish_nothing(self, txid: int) -> None: ...

    def is_published(self, txid: int, file: SinkFile) -> bool: ...

    def end_run(self) -> None: ...


class DataFrameSink(Bolt):
    """Passes each wave's rows to a function, as a Spark DataFrame together with the wave's txid.

    The engine calls the function on the driver, in the commit phase. After a crash it may call it again with the same
    txid and the same rows. So the function must be idempotent by txid: it overwrites its earlier output for that txid,
    or skips the call. It is not called for a wave without rows. If it raises, the run stops; the next run calls it
    again.

    Attributes:
        locations: Opens files with the run's credentials. Set by the engine, on the driver and in tasks.
    """

    locations: Locations = _HERE

    def __init__(self, function: Callable[[DataFrame, int], None], *, schema: pyarrow.Schema | None = None) -> None:
        """Create a sink.

        Args:
            function: Called as `function(dataframe, txid)`; the columns are the fields of the received tuples.
            schema: Types of all columns, or of some. The type of any other column is inferred from its values, once for
                all waves: whole numbers as int64, decimals as decimal128(38, 18), times with a zone in UTC, dicts as
                structs that can get more names; None and empty lists fit any type. docs/sinks.md has the whole table. A
                value that does not fit fails its tuple. Between two runs the schema may get new columns, and wider
                types with which Spark can read the old files; any other change is refused.
        """
        if not callable(function):
            raise TopologyError(
                f"{type(self).__name__}: {function!r} is not a function. Pass function(dataframe, txid)."
            )
        if schema is not None and not hasattr(schema, "field"):
            raise TopologyError(f"{type(self).__name__}: schema is {schema!r}. Pass a pyarrow.schema.")
        self._function = function
        self.schema = schema

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the function, which stays on the driver: it may hold a session or a connection."""
        return {name: value for name, value in self.__dict__.items() if name not in _OF_DRIVER} | {
            "_function": never_called
        }

    def directories(self) -> Sequence[str]:
        """Return the directories into which `publish` moves files. They are checked before the run."""
        return ()

    def exclusive(self, topology: str, component: str) -> Sequence[str]:
        """Return names of resources that only one sink of the topology may use, such as `topic orders`.

        Called when the topology is created, for each component that uses the sink. Equal texts of two sinks are an
        error.
        """
        return ()

    def begin_run(self, run: SinkRun) -> SinkPublisher:
        """Return the publisher for the waves of a run: by default the sink itself.

        Called by the driver when the run has claimed the topology, before anything is published. May raise.
        """
        return self

    def end_run(self) -> None:
        """Called by the driver at the end of a run, if `begin_run` was called."""

    def outbox_columns(
        self, fields: Sequence[str], columns: Sequence[Sequence[Any]]
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Return the names and values of the columns that a task writes for these tuples.

        Called in tasks, before the decision: an exception fails the wave.
        """
        return fields, columns

    def refuse_foreign_output(self, txid: int, component: str, task_index: int) -> None:
        """Called in the prepare phase of a task with rows. Raise if publishing would overwrite another run's rows."""

    def publish(self, txid: int, files: Sequence[SinkFile], read: Callable[[Sequence[str]], Any]) -> None:
        """Publish a decided wave. Called by the driver, and again after a crash.

        Args:
            txid: The wave.
            files: The files of the winning attempts, at least one.
            read: Returns a DataFrame of the files at the given locations.
        """
        self._function(read([file.path for file in files]), txid)

    def publish_nothing(self, txid: int) -> None:
        """Called by the driver instead of `publish`, for a decided wave without rows for this sink."""

    def is_published(self, txid: int, file: SinkFile) -> bool:
        """Return whether a file of a decided wave is known to be published.

        Only called if the file is gone, by a driver that starts without the checkpoint location that held the file.
        """
        return False  # only the function's author knows its effects


class ParquetSink(DataFrameSink):
    """Adds each wave's rows to a directory of Parquet files, exactly once.

    The files are named `part-<txid>-<component>-<task>.parquet`; a file appears only when it is complete. If a column's
    type changes in the middle of a wave, the task writes a second file, `…-<task>-2.parquet`. Read them with
    `spark.read.parquet(path)`: if files have different columns, `_common_metadata` lists all columns for Spark. A
    directory belongs to one topology and one history of its state: a run with a new state needs an empty directory.
    """

    _retry: RetryPolicy = NO_RETRY
    _written = b""  # the columns that this run has written into `_common_metadata`

    def __init__(self, path: str, *, schema: pyarrow.Schema | None = None) -> None:
        """Create a sink that writes to the directory `path`: a path or a URI that Spark accepts."""
        if not isinstance(path, str) or not path:
            raise TopologyError(f"ParquetSink: path is {path!r}. Pass a directory, such as 'out/'.")
        super().__init__(never_called, schema=schema)
        self.path = path

    def begin_run(self, run: SinkRun) -> ParquetSink:
        """Return a copy for the run: another run of the topology may use other credentials."""
        bound = copy.copy(self)
        bound.locations, bound._retry, bound._written = run.locations, run.retry, b""
        return bound

    def directories(self) -> Sequence[str]:
        return (self.path,)

    def refuse_foreign_output(self, txid: int, component: str, task_index: int) -> None:
        """Raise `TopologyError` if the wave's file already exists before the wave is decided."""
        name = self._file_name(txid, SinkFile(component, task_index, "", 0, b""))
        if self.locations.open(self.path).exists(name):
            raise TopologyError(
                f"ParquetSink {component!r}: {join(self.path, name)} already exists: another run or another history "
                "of the state wrote it. No state and no rows were written. Use an empty directory, or continue with "
                "the state that the files belong to.",
                component=component,
            )

    def publish(self, txid: int, files: Sequence[SinkFile], read: Callable[[Sequence[str]], Any]) -> None:
        """Move the files to their final names, at most 8 at a time; skip files that an earlier call moved."""
        folder = self.locations.open(self.path)
        if len(files) == 1:
            self._move(folder, txid, files[0])
        else:
            threads = ThreadPoolExecutor(min(_MOVES_AT_ONCE, len(files)), thread_name_prefix="anchorbolt-move")
            try:
                list(threads.map(partial(self._move, folder, txid), files))
            finally:
                threads.shutdown(wait=True)
        if files[0].known != self._written:
            self._retry.until_available(partial(self._try_to_tell_columns, folder, txid, files))

    def _move(self, folder: Folder, txid: int, file: SinkFile) -> None:
        self._retry.until_available(partial(self._try_to_move, folder, txid, file))
        reach(FaultPoint.SINK_FILE_MOVED, file.component, file.task_index, txid)

    def _try_to_move(self, folder: Folder, txid: int, file: SinkFile) -> None:
        try:
            folder.move_in(file.path, self._file_name(txid, file))
        except FileNotFoundError as error:
            raise StateRegressed(
                f"ParquetSink {file.component!r}: rows of txid {txid} are neither in the outbox ({file.path}) nor in "
                f"{self.path}. Something else changed the checkpoint location or the directory; restore them.",
                expected=file.path,
                found="nothing",
            ) from error
        except OSError as error:
            raise SinkUnavailable(
                f"ParquetSink {file.component!r}: {file.path} cannot be moved to {self.path}: {error}. Make room "
                "there, or make it writable. The rows are decided; the next start publishes them, before anything else."
            ) from error

    def is_published(self, txid: int, file: SinkFile) -> bool:
        """Return whether the directory has the file."""
        return self.locations.open(self.path).exists(self._file_name(txid, file))

    def _try_to_tell_columns(self, folder: Folder, txid: int, files: Sequence[SinkFile]) -> None:
        """Publish the columns of all files to readers, and rewrite earlier files whose lists had no type."""
        first = files[0]
        added = {self._file_name(txid, file): file.schema for file in files}
        try:
            tell_columns(folder, first.component, first.known, added)
        except OSError as error:
            raise SinkUnavailable(
                f"ParquetSink {first.component!r}: the columns of txid {txid} cannot be written to {self.path}: "
                f"{error}. Make room there, or make it readable and writable. The rows are decided; the next start "
                "publishes them, before anything else."
            ) from error
        self._written = first.known

    @staticmethod
    def _file_name(txid: int, file: SinkFile) -> str:
        part = "" if file.number == 1 else f"-{file.number}"
        return f"part-{txid:012d}-{file.component}-{file.task_index:05d}{part}.parquet"


def never_called(dataframe: Any, txid: int) -> None:
    """Placeholder for the function of a sink with its own `publish`, or of a sink that is not on the driver."""
    raise AssertionError("a sink publishes on the driver, and one with its own publish without a function")


def takes_columns(bolt: Bolt) -> bool:
    """Return whether a bolt is a sink that writes the columns which it gets as they are."""
    return isinstance(bolt, DataFrameSink) and type(bolt).outbox_columns is DataFrameSink.outbox_columns
