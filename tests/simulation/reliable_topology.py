"""The part of the simulated topology whose tuples are tracked: messages of a broker, and the effects that they have.

Each message has some parts. The first bolt takes it apart, and the stateful one counts how often each part had an
effect. What else happens to a message, its `Fate` says.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt, BasicOutputCollector, FailedException, OutputCollector
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.spouts.collector import SpoutOutputCollector
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.tuple import Tuple
from anchorbolt.topology import TopologyBuilder
from tests.simulation.scenarios import Fate, Scenario

BROKER = "broker"
"""Key of the broker in the configuration of the components."""

SPOUTS = ("queue", "other")
"""The spouts; a scenario has the first one, or both, and a driver may leave one of two out."""

EFFECTS = "effects"
KEPT = "kept"
"""Key under which a task keeps the handles that it acks or fails later."""

TICK_SECS = 10.0
TIMEOUT_SECS = 30
MAX_RETRIES = 1
_LATE_TICKS = {Fate.LATE: 1, Fate.LATE_FAILED: 1, Fate.PATIENT: 4}


class Queue(BaseRichSpout):
    def __init__(self, *, is_stable: bool) -> None:
        self.stable_message_ids = is_stable

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector) -> None:
        self.collector = collector
        self.broker = conf[BROKER]
        self.session = self.broker.open(context.this_component_id)

    def next_tuple(self) -> None:
        message = self.session.take()
        if message is not None:
            self.collector.emit((message.number,), msg_id=self.broker.id_of(message))

    def ack(self, msg_id: Any) -> None:
        self.session.ack(msg_id)

    def ack_again(self, msg_ids: Sequence[Any]) -> bool:
        return bool(self.session.ack_again(msg_ids))

    def fail(self, msg_id: Any) -> None:
        self.session.fail(msg_id)

    def recall(self, msg_id: Any) -> None:
        self.session.recall(msg_id)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("number")


class Parts(BaseBasicBolt):
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.broker = conf[BROKER]

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        message = self.broker.messages[tup["number"]]
        if message.meets(Fate.REFUSED, Fate.POISON):
            self._fails(message)
        if message.meets(Fate.BROKEN):
            self.broker.reliability.has_failed(message)
            if message.number % 2:
                raise ValueError(f"message {message.number} is broken")
            collector.emit((message.number, "\ud800"))  # which cannot be sent
            return
        for part in range(message.parts):
            collector.emit((message.number, part))
        if message.meets(Fate.HALF):
            self._fails(message)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("number", "part")

    def _fails(self, message: Any) -> None:
        self.broker.reliability.has_failed(message)
        raise FailedException(f"message {message.number} is {message.fate.name}")


class Relay(BaseBasicBolt):
    """Is chained to the bolt that emits these fields, and emits all that it gets."""

    def __init__(self, *fields: str) -> None:
        self.fields = fields

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit(tup.values)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(*self.fields)


class Effects(BaseStatefulBolt[KeyValueState[str, Any]]):
    def get_component_configuration(self) -> Mapping[str, Any]:
        return {"topology.tick.tuple.freq.secs": TICK_SECS}

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.broker, self.collector = conf[BROKER], collector

    def init_state(self, state: KeyValueState[str, Any]) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        if tup.is_tick:
            self._settle_kept()
            return
        number, part = tup.values
        message, key = self.broker.messages[number], f"{number}/{part}"
        self.state.put(key, self.state.get(key, 0) + 1)
        if part > 0:
            self.collector.ack(tup)
        elif message.meets(Fate.FAILED):
            self.broker.reliability.has_failed(message)
            self.collector.fail(tup)
        elif message.meets(*_LATE_TICKS):
            self.state.put(KEPT, [*self.state.get(KEPT, []), [number, tup.handle, _LATE_TICKS[message.fate]]])
        elif not message.meets(Fate.FORGOTTEN):
            self.collector.ack(tup)

    def _settle_kept(self) -> None:
        before = self.state.get(KEPT, [])
        if not before:
            return
        kept = []
        for number, handle, ticks in before:
            message = self.broker.messages[number]
            if ticks > 1:
                kept.append([number, handle, ticks - 1])
                if message.fate is Fate.PATIENT:
                    self.collector.reset_timeout(handle)
            elif message.fate is Fate.LATE_FAILED:
                self.broker.reliability.has_failed(message)
                self.collector.fail(handle)
            else:
                self.collector.ack(handle)
        self.state.put(KEPT, kept)


class Audit(BaseBasicBolt):
    """Takes all parts and does nothing. A driver has it or not."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        assert tup["number"] >= 0


def add_reliable_part(
    builder: TopologyBuilder, scenario: Scenario, spouts: Sequence[str], *, parts_tasks: int, has_audit: bool
) -> None:
    """Add these rich spouts and their bolts."""
    parts = builder.set_bolt("parts", Parts(), parts_tasks)
    for spout in spouts:
        builder.set_spout(spout, Queue(is_stable=scenario.is_stable), scenario.tasks)
        parts.shuffle_grouping(spout)
    last = "parts"
    if scenario.chains:
        last = "part-relay"
        builder.set_bolt(last, Relay("number", "part"), parts_tasks).none_grouping("parts")
    builder.set_bolt(EFFECTS, Effects(), 2).fields_grouping(last, "number", "part")
    if has_audit and scenario.chains:
        builder.set_bolt("audit", Audit(), parts_tasks).local_or_shuffle_grouping(last)
    elif has_audit:
        builder.set_bolt("audit", Audit()).shuffle_grouping(last)
