"""The base class of all spouts, and the spout over any Spark streaming DataFrame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from anchorbolt.errors import TopologyError
from anchorbolt.streams.declaration import OutputFieldsDeclarer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Spout(ABC):
    """A source of tuples."""

    @abstractmethod
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the streams that this spout emits. Called once, while the topology is built."""


class StreamSpout(Spout):
    """Emits each row of a streaming DataFrame as one tuple, on the default stream.

    After a failure the engine replays the whole batch, so the state is exactly-once. The partitions of a micro-batch
    are the tasks of this spout; the `parallelism` passed to `set_spout` is their upper bound. Values are Python's own
    types: a struct becomes a dict, a timestamp an aware datetime, a decimal a `decimal.Decimal`.
    """

    def __init__(self, source: Callable[[SparkSession], DataFrame], fields: Sequence[str]) -> None:
        """Create a spout.

        Args:
            source: Called once by the driver at the start of a run, with the engine's own session; returns a
                streaming DataFrame. Never called on a worker.
            fields: Field names of the tuples, one for each column of the DataFrame, in the same order.

        Raises:
            TopologyError: `source` is not callable, or `fields` is a string or empty.
        """
        if not callable(source):
            raise TopologyError(
                f"StreamSpout: source is {type(source).__name__}, not a function. Pass a function of "
                "the session, such as lambda spark: spark.readStream.text('in/')."
            )
        if isinstance(fields, str) or not fields:
            raise TopologyError(f"StreamSpout: fields is {fields!r}. Pass a list with one name per column.")
        self.source = source
        self.fields = tuple(fields)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the default stream with the given fields."""
        declarer.declare(*self.fields)
