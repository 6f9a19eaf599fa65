"""`BaseRichSpout`: a spout that emits tuple by tuple, and is told which of its messages were processed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.spouts.stream import Spout
from anchorbolt.streams.context import TopologyContext

if TYPE_CHECKING:
    from anchorbolt.spouts.collector import SpoutOutputCollector


class BaseRichSpout(Spout):
    """Emits tuples, and takes the acks and fails of those that it gave a message id.

    The engine copies the spout on the driver, once for each of its tasks; it must be picklable. Each task
    has a thread of its own, which makes all calls to the instance, one after the other. So a spout needs no locks, and
    a slow spout stops no other.

    Attributes:
        stable_message_ids: Set it to True in the class if the source gives a message that it delivers again the id that
            the message had before. The engine then recognises the message, and the state is exactly-once.
            Otherwise a message can count twice after a crash, never less than once.
        source_is_away: Set it to True on the instance while the source does not answer: a run that ends when its
            sources are empty waits for the answer then.
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

        Called again and again while the run takes in tuples. Must not block for long: acks and fails wait for its
        return. If it emits nothing, the engine waits a millisecond before the next call. If it raises, the run stops.
        """

    def ack(self, msg_id: Any) -> None:
        """Called for a message whose tuple tree is complete, after the wave that completed it has committed.

        With stable message ids, a message that the source delivers again, although it is committed, is not processed
        again, only acked again. So this may be called twice for one message, and for one that this instance has not
        emitted in its run.
        """

    def fail(self, msg_id: Any) -> None:
        """Called once for a message whose tuple tree failed or timed out. Emit it again to have it processed."""

    def recall(self, msg_id: Any) -> None:
        """Called for a message that is in flight, once another task of the spout has got it from the source as well.

        Neither `ack` nor `fail` will be called for it on this task, but on the other. Only with stable message ids.
        Override it in a spout that keeps what is pending, if its source may move a message from one task to another.
        """

    def flush_acks(self) -> None:
        """Called after each group of `ack` calls: when it returns, the source must know that they are processed.

        Override it in a spout that collects acks and sends them together.
        """

    def ack_again(self, msg_ids: Sequence[Any]) -> bool:
        """Called after `open` on one task, with the messages that runs before have acked, but maybe told no source of.

        Only for a spout with stable message ids, if a driver has died or could not reach the source. Override it
        if the source takes the ack of a message that it has not delivered again, and ignores it if it knows it already.

        Returns:
            Whether the source now knows of all these acks. If not, as by default, the engine keeps the ids,
            in each decision too, until the source delivers their messages again.
        """
        return False

    def deactivate(self) -> None:
        """Called when the run ends, after the last `ack` and `fail`, and when it is paused.

        In a pause it is called once no message of the task is pending, so no `ack` or `fail` comes before `activate`.
        If the run ends in the pause, `deactivate` is not called again.
        """

    def close(self) -> None:
        """Called at the end of the run, as the last call. Never called when the driver is killed.

        Also called after a call that raised, `open` included.
        """
