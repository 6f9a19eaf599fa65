"""What must hold of the messages, checked after every step that changed something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.state_backends.memory import _Namespace
from tests.simulation.invariants import NAME, Invariants, Violation, entries_of
from tests.simulation.messages.broker import IS_HELD, Kind, Message

if TYPE_CHECKING:
    from tests.simulation.messages.scenario import Messages
    from tests.simulation.world import World


class MessageInvariants(Invariants):
    """Each delivery is executed in one committed wave at most; a message is acked when what it did is committed."""

    def __init__(self, world: World, scenario: Messages) -> None:
        super().__init__(world)
        self._scenario = scenario

    def check_entries(self, namespace: str, store: _Namespace) -> None:
        if not namespace.startswith(f"{NAME}:count-"):
            return
        scenario = self._scenario
        for id, deliveries in entries_of(store).items():
            message = scenario.broker.messages[id]
            if len(set(deliveries)) < len(deliveries):
                raise Violation(f"a delivery of message {id} counts twice: {deliveries}")
            if message.kind is Kind.POISON and scenario.excludes:
                failed = [delivery for delivery in deliveries if message.is_bad(delivery)]
                if failed:
                    raise Violation(f"the state has what failed deliveries of message {id} did: {failed}")
            never_open = message.kind in (Kind.PLAIN, Kind.POISON)
            if scenario.stable and never_open and len([each for each in deliveries if not message.is_bad(each)]) > 1:
                raise Violation(f"message {id} counts more than once: {deliveries}")

    def acked(self, message: Message) -> None:
        """Check a message of which the source is told that it is processed."""
        if self._is_dead(message):
            return
        deliveries = self._deliveries(message)
        if not any(not message.is_bad(delivery) for delivery in deliveries):
            raise Violation(f"message {message.id} is acked, and the state has its deliveries {deliveries}")
        if message.kind in IS_HELD and f"released {message.id}" not in entries_of(self.store(f"{NAME}:hold-0")):
            raise Violation(f"message {message.id} is acked, and its release has not been committed")

    def failed(self, message: Message) -> None:
        """Check a message of which the source is told that it has failed."""
        if message.kind in (Kind.PLAIN, Kind.RELEASE):
            raise Violation(f"message {message.id} failed, and nothing failed it")

    def at_the_end(self) -> None:
        record = self.record()
        if record is None or (record.txid >= 0 and record.state.phase is not Phase.COMMITTED):
            raise Violation(f"the run has ended, and the record is {record}")
        if record.acked and self._scenario.broker.takes_acks_again:
            raise Violation(f"all sources know of their acks, and the record keeps {record.acked}")
        for namespace, store in self._world.store.contents.items():
            self.check_entries(namespace, store)
            if ":__acker-" in namespace and store.entries:
                raise Violation(f"trees are open at the end: {namespace} has {len(store.entries)}")
        for message in self._scenario.broker.messages:
            self.acked(message)
        super().at_the_end()

    def _deliveries(self, message: Message) -> list[int]:
        return [
            delivery
            for index in (0, 1)
            for delivery in entries_of(self.store(f"{NAME}:count-{index}")).get(message.id, [])
        ]

    def _is_dead(self, message: Message) -> bool:
        letters = [letter for letters in self._scenario.letters.values() for letter in letters]
        number = letters.count(message.id)
        if number > 1 and self._scenario.stable:
            raise Violation(f"message {message.id} is a dead letter {number} times")
        return number > 0
