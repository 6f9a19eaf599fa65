"""The source of the messages: it delivers each of them until it is acked, as a message broker does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.messages.scenario import Messages
    from tests.simulation.world import World


class Kind(str, Enum):
    """What becomes of a message in the topology; of most kinds, only in the first deliveries."""

    PLAIN = "plain"
    POISON = "poison"  # a bolt fails it
    HELD = "held"  # a bolt acks it when the release of it has come
    LOST = "lost"  # a bolt neither acks nor fails it
    REFUSED = "refused"  # a bolt fails it when the release of it has come
    RELEASE = "release"  # of another message


_RISK = 0.03  # that a driver dies between a commit and an ack: what the ids in the decision are for
IS_HELD = (Kind.HELD, Kind.REFUSED)


@dataclass
class Message:
    """A message, and where it is."""

    id: int
    kind: Kind
    number: int  # of deliveries in which it fails; of a release, the message that it releases
    delivered: int = 0  # how often
    owner: str = ""  # the driver that has it; empty if it waits to be delivered
    is_acked: bool = False

    def is_bad(self, delivery: int) -> bool:
        """Whether a bolt fails or loses this delivery."""
        return self.kind in (Kind.POISON, Kind.LOST, Kind.REFUSED) and delivery <= self.number


class Broker:
    """Holds the messages of one simulation."""

    def __init__(self, world: World, scenario: Messages) -> None:
        choices = world.choices
        self._world = world
        self._scenario = scenario
        self.messages: list[Message] = []
        for _ in range(2 + choices.pick(4)):
            kind = list(Kind)[choices.pick(5)]
            held = Message(len(self.messages), kind, 1 + choices.pick(2))
            self.messages.append(held)
            if kind in IS_HELD:
                self.messages.append(Message(len(self.messages), Kind.RELEASE, held.id))
        self.takes_acks_again = choices.pick(2) == 1

    @property
    def is_done(self) -> bool:
        """Whether every message is acked."""
        return all(message.is_acked for message in self.messages)

    def connect(self, owner: str) -> None:
        """Take all messages from other drivers, so that they are delivered again."""
        for message in self.messages:
            if message.owner != owner:
                message.owner = ""

    def take(self, owner: str) -> Message | None:
        """Deliver a message that waits, or that a dead driver has."""
        alive = {actor.name for actor in self._world.actors}
        waiting = [message for message in self.messages if not (message.owner in alive or message.is_acked)]
        if not waiting:
            return None
        message = waiting[self._world.choices.pick(len(waiting))]
        message.owner = owner
        message.delivered += 1
        self._world.say(f"takes message {message.id}, {message.kind.value}, delivery {message.delivered}")
        return message

    def ack(self, ids: Sequence[int]) -> None:
        """Note that messages are processed: they are not delivered any more."""
        for id in ids:
            self._world.step(f"acks message {id}", _RISK)
            message = self.messages[id]
            self._scenario.check(self._scenario.invariants.acked, message)
            message.is_acked = True

    def fail(self, id: int) -> None:
        """Have a message delivered again."""
        self._world.say(f"message {id} failed")
        self._scenario.check(self._scenario.invariants.failed, self.messages[id])
        self.messages[id].owner = ""
