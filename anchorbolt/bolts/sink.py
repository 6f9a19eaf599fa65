"""Sinks: bolts at the end of a topology whose output is exactly-once. They are outboxes, see section 2 of the design.

In the prepare phase each sink task writes its rows to a file beside the streaming checkpoint; the decision names the
files of the winning attempts; in the commit phase the driver publishes just those, again after a crash that follows
the decision.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anchorbolt.bolts.base import Bolt
from anchorbolt.errors import StateRegressed, TopologyError
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.util.locations import join, local_path, open_folder

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class SinkFile:
    """Rows that one sink task wrote in a wave.

    Attributes:
        component: Id of the sink.
        task_index: Index of the task within it.
        path: Location of the Parquet file.
        rows: How many rows it holds.
        schema: Its columns' names and types, as text.
    """

    component: str
    task_index: int
    path: str
    rows: int
    schema: str


class DataFrameSink(Bolt):
    """Hands each wave's rows to a function, as a Spark DataFrame together with the wave's txid.

    The function runs on the driver, in the commit phase. After a crash it may be called again with the same txid and
    the same rows; so it must have one effect per txid: overwrite what it wrote for that txid, or skip it. It is not
    called for a wave without rows. An exception that leaves it stops the run; the next run calls it again.
    """

    def __init__(
        self, function: Callable[[DataFrame, int], None], *, schema: pyarrow.Schema | None = None
    ) -> None:
        """Make a sink.

        Args:
            function: Called as `function(dataframe, txid)`; the columns are the fields of the tuples received.
            schema: Types of the columns. Without it they are taken from the first values of each task and wave, and
                a wave in which they differ from before is refused; give it where a column may be None for long, or
                holds now an int and now a float.
        """
        if not callable(function):
            raise TopologyError(
                f"{type(self).__name__}: {function!r} is not a function. Pass function(dataframe, txid)."
            )
        self._function = function
        self.schema = schema

    def __getstate__(self) -> dict[str, Any]:
        """Leave the function on the driver: it may hold a session, a connection, or what a test looks at."""
        return self.__dict__ | {"_function": _stays_on_the_driver}

    def refuse_foreign_output(self, txid: int, component: str, task_index: int) -> None:
        """Called in the prepare phase of a task with rows: raise if publishing them would meet another run's."""

    def publish(self, txid: int, files: Sequence[SinkFile], read: Callable[[Sequence[str]], Any]) -> None:
        """Publish a decided wave; called by the driver, again after a crash.

        Args:
            txid: The wave.
            files: The winners' files, at least one.
            read: Makes a DataFrame of the files at these locations.
        """
        self._function(read([file.path for file in files]), txid)

    def is_published(self, txid: int, file: SinkFile) -> bool:
        """Say whether a decided file is known to be published; only asked where the file itself is gone.

        Called by a driver that goes on without the checkpoint location at which the file lay.

        Args:
            txid: The wave.
            file: The file, as it was decided.
        """
        return False  # what the function has done, nobody but its author knows


class ParquetSink(DataFrameSink):
    """Adds each wave's rows to a directory of Parquet files, exactly once whatever is killed and replayed.

    The files are named `part-<txid>-<component>-<task>.parquet` and appear whole. Read them with
    `spark.read.parquet(path)` or any other reader. The directory belongs to one topology, and to one history of its
    state: a run that starts over needs an empty one.
    """

    def __init__(self, path: str, *, schema: pyarrow.Schema | None = None) -> None:
        """Make a sink that writes to the directory `path`; a relative one lies below the driver's current one."""
        if not isinstance(path, str) or not path:
            raise TopologyError(f"ParquetSink: path is {path!r}. Pass a directory, such as 'out/'.")
        super().__init__(_stays_on_the_driver, schema=schema)
        local = local_path(path)
        self.path = path if local is None else os.path.abspath(local)

    def refuse_foreign_output(self, txid: int, component: str, task_index: int) -> None:
        """Raise `TopologyError` where the wave's file is there already: this wave has not been decided yet."""
        name = self._file_name(txid, component, task_index)
        if open_folder(self.path).exists(name):
            raise TopologyError(
                f"ParquetSink {component!r}: {join(self.path, name)} is there already, written by another run or "
                "another history of the state. No state and no rows were written. Use an empty directory, or go on "
                "with the state that the files belong to.",
                component=component,
            )

    def publish(self, txid: int, files: Sequence[SinkFile], read: Callable[[Sequence[str]], Any]) -> None:
        """Move the files to their names; those moved already are left alone."""
        folder = open_folder(self.path)
        for file in files:
            try:
                folder.move_in(file.path, self._file_name(txid, file.component, file.task_index))
            except FileNotFoundError as error:
                raise StateRegressed(
                    f"ParquetSink {file.component!r}: rows of txid {txid} are neither in the outbox ({file.path}) nor "
                    f"in {self.path}. The checkpoint location or the directory was changed from outside; restore "
                    "them.",
                    expected=file.path,
                    found="nothing",
                ) from error
            reach(FaultPoint.SINK_FILE_MOVED, file.component, file.task_index, txid)

    def is_published(self, txid: int, file: SinkFile) -> bool:
        """Say whether the directory has the file."""
        return open_folder(self.path).exists(self._file_name(txid, file.component, file.task_index))

    @staticmethod
    def _file_name(txid: int, component: str, task_index: int) -> str:
        return f"part-{txid:012d}-{component}-{task_index:05d}.parquet"


def _stays_on_the_driver(dataframe: Any, txid: int) -> None:
    raise AssertionError("a sink publishes on the driver, and a ParquetSink without a function")
