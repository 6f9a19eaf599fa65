"""The topology of the messages: bolts that fail them, count them, and ack them in a later wave.

Each message goes to a task that checks it and to one that counts it. The checked ones that are acked late go on to a
stateful bolt, which keeps their handles; the tuple that it emits when it joins a message with its release belongs to
two trees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anchorbolt.bolts import (
    BaseBasicBolt,
    BaseRichBolt,
    BaseStatefulBolt,
    BasicOutputCollector,
    FailedException,
    OutputCollector,
)
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.spouts.collector import SpoutOutputCollector
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.tuple import Tuple
from anchorbolt.topology import Topology, TopologyBuilder
from tests.simulation.invariants import NAME
from tests.simulation.messages.broker import Broker, Kind, Message

FIELDS = ("id", "kind", "number", "delivery")

_connected: Callable[[], tuple[Broker, str]]


def use_broker(connected: Callable[[], tuple[Broker, str]]) -> None:
    """Set the function that returns the broker, and the driver that runs: spouts are copied, a world must not be."""
    global _connected
    _connected = connected


class BrokerSpout(BaseRichSpout):
    """Delivers the messages. With stable ids, each has its own; otherwise each delivery has."""

    def __init__(self, *, stable: bool) -> None:
        self.stable_message_ids = stable

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector) -> None:
        self.collector = collector
        self.acks: list[int] = []
        self.broker, self.owner = _connected()
        self.broker.connect(self.owner)

    def next_tuple(self) -> None:
        message = self.broker.take(self.owner)
        if message is not None:
            msg_id = message.id if self.stable_message_ids else (message.id, message.delivered)
            self.collector.emit((message.id, message.kind.value, message.number, message.delivered), msg_id)

    def ack(self, msg_id: Any) -> None:
        self.acks.append(_message_of(msg_id))

    def flush_acks(self) -> None:
        acks, self.acks = self.acks, []
        self.broker.ack(acks)

    def ack_again(self, msg_ids: Sequence[Any]) -> bool:
        if self.broker.takes_acks_again:
            self.broker.ack([_message_of(msg_id) for msg_id in msg_ids])
        return self.broker.takes_acks_again

    def fail(self, msg_id: Any) -> None:
        self.broker.fail(_message_of(msg_id))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(*FIELDS)


def _message_of(msg_id: Any) -> int:
    return int(msg_id[0] if isinstance(msg_id, tuple | list) else msg_id)


def _message(tup: Tuple) -> Message:
    return Message(tup["id"], Kind(tup["kind"]), tup["number"])


class _Rich:
    """What bolts of both kinds have in common."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.collector = collector

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        self.state = state


class Check(_Rich, BaseRichBolt):
    """Fails what is poisoned, in both ways, and passes on what is acked late."""

    def execute(self, tup: Tuple) -> None:
        message = _message(tup)
        if message.kind is Kind.POISON and message.is_bad(tup["delivery"]):
            if message.id % 2:
                raise FailedException(f"message {message.id}")
            self.collector.fail(tup)
            return
        if message.kind not in (Kind.PLAIN, Kind.POISON):
            self.collector.emit(tuple(tup.values), anchors=tup)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(*FIELDS)


class Count(_Rich, BaseStatefulBolt[KeyValueState[int, Any]]):
    """Keeps, by message, which of its deliveries it has executed, each as often as it has."""

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["id"], [*self.state.get(tup["id"], []), tup["delivery"]])
        self.collector.ack(tup)


class Hold(_Rich, BaseStatefulBolt[KeyValueState[str, Any]]):
    """Keeps the handle of a message until its release has come, and that it has come."""

    def execute(self, tup: Tuple) -> None:
        message, bad = _message(tup), _message(tup).is_bad(tup["delivery"])
        if message.kind is Kind.RELEASE:
            self._release(message.number, tup)
        elif message.kind is Kind.LOST:
            if not bad:
                self.collector.ack(tup)
        elif not self.state.get(f"released {message.id}", False):
            self.state.put(f"held {message.id}", (tup.handle, bad))
        elif bad:
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)

    def _release(self, held: int, tup: Tuple) -> None:
        self.state.put(f"released {held}", True)
        handle, bad = self.state.get(f"held {held}", (None, False))
        if handle is not None:
            self.state.delete(f"held {held}")
            if bad:
                self.collector.fail(handle)
            else:
                self.collector.emit((held,), anchors=[handle, tup])
                self.collector.ack(handle)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("id")


class Joined(BaseBasicBolt):
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        pass


def message_topology(*, stable: bool, spouts: int) -> Topology:
    """Return the topology, with so many tasks of the spout."""
    builder = TopologyBuilder()
    builder.set_spout("in", BrokerSpout(stable=stable), spouts)
    builder.set_bolt("check", Check(), 2).shuffle_grouping("in")
    builder.set_bolt("count", Count(), 2).fields_grouping("in", "id")
    builder.set_bolt("hold", Hold()).global_grouping("check")
    builder.set_bolt("joined", Joined()).shuffle_grouping("hold")
    return builder.create_topology(NAME)
