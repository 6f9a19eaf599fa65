"""The spout of a transactional topology over any source that Spark can read as a batch, by ranges of offsets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.errors import TopologyError, UnsupportedValue
from anchorbolt.serialization import pack
from anchorbolt.spouts.transactional import KINDS, BatchSpout, SpoutKind
from anchorbolt.streams.declaration import OutputFieldsDeclarer, wrong_fields
from anchorbolt.util.messages import shortened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkTransactionalSpout(BatchSpout):
    """Emits the rows of a range of offsets as one batch, identical in each try.

    Offsets are plain values (numbers, text, lists, dicts) that say how far the source has been read: a row number, a
    date, the offset of each partition. A batch starts at the end offsets of the batch before, and ends at the offsets
    that `latest` returns. Both are stored before the batch is read, as `{"start": …, "end": …}`.

    The partitions of the DataFrame are the tasks of this spout; the `parallelism` passed to the builder is their upper
    bound. Values are Python's own types: a struct becomes a dict, a timestamp an aware datetime, a decimal a
    `decimal.Decimal`. The object stays on the driver and is never pickled. On `LocalCluster`, a local Spark reads the
    rows.
    """

    def __init__(self, fields: Sequence[str], start: Any, *, attempt_field: str = "tx") -> None:
        """Create a spout.

        Args:
            fields: Field names of the tuples, one for each column of the DataFrame, in the same order.
            start: The offsets where the first batch begins.
            attempt_field: Name of the field for the attempt, the first field.

        Raises:
            TopologyError: An argument is invalid.
        """
        spout = type(self).__name__
        if isinstance(fields, str | bytes) or not isinstance(fields, Sequence) or not fields:
            raise TopologyError(f"{spout}: fields is {shortened(fields)}. Pass a list with one name per column.")
        problem = wrong_fields(f"{spout}([", (attempt_field, *fields))
        if problem:
            raise TopologyError(f"{spout}: {problem} {shortened(attempt_field)} is the field for the attempt.")
        try:
            pack(start)
        except UnsupportedValue as error:
            raise TopologyError(
                f"{spout}: start is {shortened(start)}, which cannot be stored: {error.message} Pass plain values, "
                "such as numbers, text, lists and dicts."
            ) from error
        self.fields = tuple(fields)
        self.start = start
        self.attempt_field = attempt_field
        self.accepts_loss = False
        """Whether to skip rows that the source has lost. The engine sets it to `topology.state.accept.loss` of the
        run."""

    @abstractmethod
    def latest(self, spark: SparkSession, start: Any) -> Any:
        """Return the offsets where the next batch ends; None or `start` if there is nothing new.

        The result decides the size of the batch. Called on the driver, on one thread, when a batch may begin: many
        times a second while there is nothing new. Not called for a batch that is tried again.

        Args:
            spark: The engine's session.
            start: Where the batch begins: the result for the batch before, which may not have committed yet, with
                tuples converted to lists. For the first batch, the spout's `start`.
        """

    @abstractmethod
    def read(self, spark: SparkSession, start: Any, end: Any) -> DataFrame:
        """Return a batch DataFrame of the rows from `start` to `end`, with one column for each field.

        Called on the driver for each try of a batch, on threads of the engine: for several batches at a time if
        `topology.max.spout.pending` is more than 1. Never called if `start` equals `end`. Must return the same rows
        each time, also in a later run. If it raises, the batch fails and is tried again.

        Args:
            spark: The engine's session.
            start: Where the batch begins.
            end: Where the batch ends: the result of `latest`.
        """

    def behind(self, end: Any) -> int | None:
        """Return how many offsets the source had after `end` at the last call of `latest`; None if unknown.

        Called on the driver after the commit of each batch, on the thread of `latest`. Must not ask the source. Metrics
        and the page show it as the backlog. Exceptions are ignored.

        Args:
            end: Where the batch ended.
        """
        return None

    def close(self) -> None:
        """Called once at the end of a run, on the driver."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the default stream: the field for the attempt, then the given fields."""
        declarer.declare(self.attempt_field, *self.fields)


KINDS[SparkTransactionalSpout] = SpoutKind("of ranges of a Spark source")
