"""The base class of all spouts; `StreamSpout`, over any Spark streaming DataFrame; `BaseRichSpout`, tuple by tuple."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.errors import TopologyError
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from anchorbolt.spouts.collector import SpoutOutputCollector


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


class BaseRichSpout(Spout):
    """Emits tuples, and gets the acks and fails of tuples with a message id.

    The engine copies the spout on the driver, once for each of its tasks; it must be picklable. Each task has its own
    thread, which makes all calls to the instance, one after the other. So a spout needs no locks, and a slow spout does
    not delay other spouts.

    Attributes:
        stable_message_ids: Set it to True in the class if the source redelivers a message under the same id. The engine
            then recognises the message, and the state is exactly-once. Otherwise a message can count twice after a
            crash, never less than once.
        source_is_away: Set it to True on the instance while the source does not answer: then a run that ends when its
            sources are empty waits for the answer.
    """

    stable_message_ids: bool = False
    source_is_away: bool = False

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector) -> None:
        """Called once, before any other call. Keep `collector`; connect to the source here."""

    def activate(self) -> None:
        """Called after `open`, and after a pause if `deactivate` was called; before the next `next_tuple`."""

    @abstractmethod
    def next_tuple(self) -> None:
        """Emit the next tuples, if there are any.

        Called repeatedly while the run takes in tuples. Must not block for long: acks and fails wait until it returns.
        If it emits nothing, the engine waits a millisecond before the next call. If it raises, the run stops.
        """

    def ack(self, msg_id: Any) -> None:
        """Called for a message whose tuple tree is complete, after the wave that completed it has committed.

        With stable message ids, a message that the source delivers again after its commit is only acked again, not
        processed again. So this may be called twice for one message, and for a message that this instance has not
        emitted in its run.
        """

    def fail(self, msg_id: Any) -> None:
        """Called once for a message whose tuple tree failed or timed out. Emit it again to process it again."""

    def recall(self, msg_id: Any) -> None:
        """Called for a message in flight when another task of the spout has received it from the source too.

        `ack` or `fail` will be called for it on the other task, not on this one. Called only with stable message ids.
        Override it in a spout that keeps its pending messages, if its source may move a message between tasks.
        """

    def flush_acks(self) -> None:
        """Called after each group of `ack` calls: when it returns, the source must have these acks.

        Override it in a spout that collects acks and sends them together.
        """

    def ack_again(self, msg_ids: Sequence[Any]) -> bool:
        """Called after `open` on one task, with messages of earlier runs whose acks the source may not have received.

        Called only for a spout with stable message ids, if a driver has died or could not reach the source. Override it
        if the source accepts the ack of a message that it has not delivered again, and ignores a repeated ack.

        Returns:
            Whether the source now has all these acks. If False (the default), the engine keeps the ids, in each
            decision too, until the source delivers their messages again.
        """
        return False

    def deactivate(self) -> None:
        """Called when the run ends, after the last `ack` and `fail`, and when it is paused.

        In a pause it is called once no message of the task is pending, so no `ack` or `fail` comes before `activate`.
        If the run ends in the pause, `deactivate` is not called again.
        """

    def close(self) -> None:
        """Called at the end of the run, as the last call. Not called when the driver is killed.

        Also called after a call that raised, `open` included.
        """
