"""The source of a simulation's rich spouts: it delivers each message until that is acked, as brokers do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from tests.simulation.actors import Process
from tests.simulation.reliability import Reliability
from tests.simulation.reliable_topology import SPOUTS
from tests.simulation.scenarios import Fate, Ids, Scenario
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_FIRST, _SECOND = 1, 3  # of each four messages, those whose ids Python calls equal: one spout has both


class Message:
    """One message, and what the broker knows of it."""

    def __init__(self, number: int, fate: Fate, parts: int, misdeeds: int) -> None:
        self.number = number
        self.fate = fate
        self.parts = parts  # so many tuples descend from it
        self.misdeeds = misdeeds  # so often it still meets a fate that makes it fail
        self.holder: Session | None = None  # to whom it is delivered
        self.deliveries = 0
        self.takers = set[Process]()
        self.is_acked = False

    def meets(self, *fates: Fate) -> bool:
        """Return whether a bolt that executes it has to do one of these things; it counts as done then."""
        if self.fate not in fates:
            return False
        if self.fate in (Fate.LATE, Fate.PATIENT, Fate.POISON, Fate.BROKEN):
            return True
        self.misdeeds -= 1
        return self.misdeeds >= 0


class Broker:
    """Holds the messages, outlives all drivers."""

    def __init__(self, world: World, scenario: Scenario) -> None:
        choices, fates = world.choices, scenario.fates
        self.world = world
        self.scenario = scenario
        self.messages = [
            Message(number, fates[choices.pick(len(fates))], 1 + choices.pick(3), 1 + choices.pick(2))
            for number in range(2 + choices.pick(5))
        ]
        self.left_out = ""  # the spout that the last driver has left out
        self.letters: dict[int, Sequence[DeadLetter]] = {}  # by transaction
        self.reliability = Reliability(world, self)

    @property
    def is_done(self) -> bool:
        """Whether nothing is pending."""
        return all(message.is_acked for message in self.messages)

    def waits_for(self, spout: str) -> bool:
        """Return whether a message of this spout is not acked."""
        return any(self.spout_of(message) == spout and not message.is_acked for message in self.messages)

    def spout_of(self, message: Message) -> str:
        return SPOUTS[message.number % self.scenario.spouts]

    def open(self, spout: str) -> Session:
        """Open a session of the process at hand, which may take over what dead-looking ones hold."""
        session = Session(self, self.world.process, spout)
        if self.world.choices.pick(2) == 0:
            self._release(lambda holder: holder.process is not session.process)
        return session

    def end(self, process: Process) -> None:
        """Deliver again what a process held that is gone."""
        self._release(lambda holder: holder.process.is_of(process))

    def lost(self, process: Process) -> None:
        """Note that a driver has lost a worker: its tuples may be gone."""
        self.reliability.lost([message for message in self.messages if process in message.takers])

    def write_letters(self, letters: Sequence[DeadLetter], txid: int) -> None:
        """`topology.dead.letter`."""
        self.world.step(f"writes {len(letters)} dead letters of txid {txid}")
        self.letters[txid] = letters
        self.world.step("has written dead letters")

    def id_of(self, message: Message) -> Any:
        if self.scenario.ids is Ids.NUMBERS:
            return message.number
        text = f"m{message.number}"
        if self.scenario.ids is Ids.UNSTABLE:
            return f"{text}.{message.deliveries}"
        four, place = divmod(message.number, 4)
        return (four, place == _SECOND or 1) if place in (_FIRST, _SECOND) else text

    def message(self, msg_id: Any) -> Message:
        if isinstance(msg_id, tuple):
            number = 4 * int(msg_id[0]) + (_SECOND if msg_id[1] is True else _FIRST)
        else:
            number = msg_id if isinstance(msg_id, int) else int(msg_id[1:].partition(".")[0])
        return self.messages[number]

    def _release(self, is_gone: Any) -> None:
        for message in self.messages:
            if message.holder is not None and is_gone(message.holder):
                message.holder = None


class Session:
    """The connection of one task of a spout."""

    def __init__(self, broker: Broker, process: Process, spout: str) -> None:
        self._broker = broker
        self._spout = spout
        self._world = broker.world
        self.process = process
        self._recalled = set[Message]()  # the spout knows that another task has them

    def take(self) -> Message | None:
        """Deliver a message, if one waits; sometimes one that is delivered to somebody else."""
        world = self._world
        ours = (each for each in self._broker.messages if self._broker.spout_of(each) == self._spout)
        waiting = [message for message in ours if not message.is_acked]
        free = [message for message in waiting if message.holder is None]
        if waiting and world.strikes(0.05 if self._broker.scenario.hosts_spouts else 0.01):
            message = waiting[world.choices.pick(len(waiting))]
            world.say(f"the broker delivers {message.number} a second time")
        elif free:
            message = free[0]
        else:
            return None
        self._check_pending()
        message.holder = self
        message.deliveries += 1
        message.takers.add(self.process)
        self._recalled.discard(message)
        world.say(f"takes {self._broker.id_of(message)}: {message.fate.value}")
        return message

    def ack(self, msg_id: Any) -> None:
        """Take an ack: never deliver the message again."""
        while self._broker.scenario.is_slow and self._world.choices.happens(0.9):
            self._world.wait(f"waits until the broker takes the ack of {msg_id}")
        self._world.step(f"acks {msg_id}", risk=0.02)
        self._check(self._broker.reliability.acked, msg_id)
        self._broker.message(msg_id).is_acked = True
        self._world.step(f"has acked {msg_id}", risk=0.02)

    def ack_again(self, msg_ids: Sequence[Any]) -> bool:
        if not self._broker.scenario.takes_acks_again:
            return False
        for msg_id in msg_ids:
            self.ack(msg_id)
        return True

    def recall(self, msg_id: Any) -> None:
        """Note that the spout does not wait for a message any more."""
        self._recalled.add(self._broker.message(msg_id))

    def fail(self, msg_id: Any) -> None:
        """Take a fail: deliver the message again."""
        self._world.step(f"fails {msg_id}")
        self._check(self._broker.reliability.failed, msg_id)
        message = self._broker.message(msg_id)
        if message.holder is self and self._broker.id_of(message) == msg_id:
            message.holder = None

    def _check_pending(self) -> None:
        most = self._broker.scenario.max_pending
        pending = sum(
            each.holder is self and not each.is_acked for each in self._broker.messages if each not in self._recalled
        )
        if most is not None and pending >= most:
            self._world.break_off(Violation(f"a spout takes a message, and {pending} of {most} are pending"))

    def _check(self, check: Any, msg_id: Any) -> None:
        try:
            check(self._broker.message(msg_id), msg_id)
        except Violation as violation:
            self._world.break_off(violation)
