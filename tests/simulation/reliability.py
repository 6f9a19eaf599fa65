"""The invariants of reliable spouts: what a message has done to the state, and what its source is told of it when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.serialization import MsgpackCodec, unpack
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.streams.tuple import TupleHandle
from anchorbolt.tracking.stored_trees import OpenTreeCodec, RootCodec
from tests.simulation.reliable_topology import EFFECTS, KEPT, MAX_RETRIES, TIMEOUT_SECS
from tests.simulation.topology import NAME
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from anchorbolt.state_backends.memory import _Namespace
    from tests.simulation.broker import Broker, Message
    from tests.simulation.world import World

_CODEC = MsgpackCodec()
_TREES = EntryEncoding("simulated", RootCodec(), OpenTreeCodec())
_ACKERS = f"{NAME}:{ACKER_ID}-"


class Reliability:
    """What must hold of the messages of a broker.

    A delivery of a message that is committed has exactly one effect for each part, if it did not fail in its wave or
    if the policy is `commit`. It is the last one, or it has left an open tree. So the trees that were ever committed
    say how many effects there have to be.
    """

    def __init__(self, world: World, broker: Broker) -> None:
        self._world = world
        self._broker = broker
        self._failures = Counter[int]()  # by number: how often a bolt has failed it, and its source was not told
        self._tries = Counter[int]()  # by number: how often a bolt has failed it, in all
        self._has_lost_worker = False
        self._opened_at: dict[int, float] = {}  # by root: when its tree was first committed, or last reset
        self._trees: dict[int, set[int]] = {}  # by number: the roots of all trees that were ever committed
        self._closed: dict[int, int] = {}  # by number: the root of its last tree that is not open any more
        self._open: dict[str, dict[int, int]] = {}  # by acker's namespace: root and number
        self._decided: dict[int, int] = {}  # by number: the transaction whose decision acks it
        self._final: dict[int, list[int]] = {}  # by number: the effects that it had when that was COMMITTED

    def has_failed(self, message: Message) -> None:
        """Note that a bolt fails a message."""
        self._failures[message.number] += 1
        self._tries[message.number] += 1

    def lost(self, messages: Sequence[Message]) -> None:
        """Note that a worker is lost that has received these messages: they may fail."""
        self._has_lost_worker = True
        self._failures.update(message.number for message in messages)

    def committed(self, namespace: str, store: _Namespace) -> None:
        """Check a namespace that has committed."""
        if namespace.startswith(_ACKERS):
            self._trees_committed(namespace, store)

    def decided(self, record: DecisionRecord) -> None:
        """Note what a decision acks."""
        for messages in record.acked:
            for msg_id in messages.msg_ids():
                self._decided.setdefault(self._broker.message(msg_id).number, record.txid)

    def wave_committed(self) -> None:
        """Check the effects of all messages when COMMITTED is recorded."""
        for name, value in self._entries():
            if name == KEPT:
                self._check_kept(value)
        effects, is_exact = self._effects(), self._broker.scenario.is_stable and self._broker.scenario.excludes
        if not self._broker.scenario.is_stable:
            return
        self._check_one_tree_each()
        for message in self._broker.messages:
            number = message.number
            found = [effects.get(f"{number}/{part}", 0) for part in range(message.parts)]
            trees = len(self._trees.get(number, ()))
            allowed = {trees, trees + 1} if number in self._decided else {trees}
            if is_exact and (found[0] not in allowed or len(set(found)) > 1):
                raise Violation(f"message {number} ({message.fate.value}) had the effects {found}, and {trees} trees")
            if number in self._decided and self._final.setdefault(number, found) != found:
                raise Violation(f"message {number} was acked with the effects {self._final[number]}; now {found}")

    def acked(self, message: Message, msg_id: Any) -> None:
        """Check that a message may be acked now."""
        number = message.number
        if self._broker.scenario.is_stable and number not in self._decided:
            raise Violation(f"message {number} is acked, and no decision acks it")
        if self._is_letter(number):
            return
        effects = self._effects()
        missing = [part for part in range(message.parts) if not effects.get(f"{number}/{part}")]
        if missing:
            raise Violation(f"message {number} is acked as {msg_id!r}, and its parts {missing} had no effect")

    def failed(self, message: Message, msg_id: Any) -> None:
        """Check that a message may be failed now."""
        number = message.number
        if self._failures[number]:
            self._failures[number] -= 1
            return
        roots = self._trees.get(number, set())
        if self._broker.scenario.is_stable:  # else another delivery of it may have a tree of its own
            roots = {self._closed[number]} if number in self._closed else set()
        if not any(self._opened_at[root] + TIMEOUT_SECS <= self._world.now for root in roots):
            raise Violation(f"message {number} is failed as {msg_id!r}; no bolt failed it, and its time is not over")

    def at_the_end(self, record: DecisionRecord) -> None:
        """Check the whole outcome."""
        numbers = (number for trees in self._open.values() for number in trees.values())
        messages = (self._broker.messages[number] for number in numbers)
        open_trees = [each.number for each in messages if self._broker.spout_of(each) != self._broker.left_out]
        if open_trees:
            raise Violation(f"the run has ended with open trees of the messages {open_trees}")
        waiting = [message.number for message in self._broker.messages if not message.is_acked]
        if waiting:
            raise Violation(f"the run has ended, and the messages {waiting} are not acked")
        # Another driver may have acked the last message of a spout that the last one has left out.
        others = [messages for messages in record.acked if messages.component != self._broker.left_out]
        kept = {msg_id for messages in others for msg_id in messages.msg_ids()}
        # What a dead driver acked stays in the record until the source delivers it again, if it takes no other ack. So
        # does what a lost worker acked.
        if kept and not self._has_lost_worker and (self._broker.scenario.takes_acks_again or self._world.drivers == 1):
            raise Violation(f"the run has ended, and the record still keeps the acks of {kept}")
        self._check_letters()
        effects = self._effects()
        for message in self._broker.messages:
            number = message.number
            parts = [effects.get(f"{number}/{part}", 0) for part in range(message.parts)]
            if not self._is_letter(number) and not all(parts):
                raise Violation(f"message {number} is lost: its parts had the effects {parts}")

    def _trees_committed(self, namespace: str, store: _Namespace) -> None:
        found = {}
        for key, data in store.entries.items():
            root, tree = _TREES.entry_from(key, data)
            number = self._broker.message(unpack(tree.msg_id)).number
            found[root] = number
            self._opened_at.setdefault(root, self._world.now)
            self._trees.setdefault(number, set()).add(root)
        self._closed.update(
            (number, root) for root, number in self._open.get(namespace, {}).items() if root not in found
        )
        self._open[namespace] = found

    def _check_one_tree_each(self) -> None:
        roots: dict[int, int] = {}
        for trees in self._open.values():
            for root, number in trees.items():
                if roots.setdefault(number, root) != root:
                    raise Violation(f"message {number} has two open trees")

    def _check_letters(self) -> None:
        numbers = [self._broker.message(each.msg_id).number for each in self._letters()]
        if [letter.values for letter in self._letters()] != [(number,) for number in numbers]:
            raise Violation("a dead letter has the values of another message")
        for number in numbers:
            if self._broker.scenario.is_stable and numbers.count(number) > 1:
                raise Violation(f"message {number} is a dead letter more than once")
            if self._tries[number] + len(self._trees.get(number, ())) <= MAX_RETRIES:
                raise Violation(f"message {number} is a dead letter, and has not failed often enough")

    def _is_letter(self, number: int) -> bool:
        return any(self._broker.message(letter.msg_id).number == number for letter in self._letters())

    def _letters(self) -> list[DeadLetter]:
        return [letter for letters in self._broker.letters.values() for letter in letters]

    def _check_kept(self, kept: list[Any]) -> None:
        """A tuple that a bolt keeps keeps its tree open: that was stored with the wave that executed the tuple."""
        for number, data, _ in kept:
            handle = TupleHandle.decode(data)
            if handle is None or handle.roots not in self._trees.get(number, ()):
                raise Violation(f"a bolt keeps a tuple of message {number}, and its tree was never open")

    def _effects(self) -> dict[str, int]:
        return {name: value for name, value in self._entries() if name != KEPT}

    def _entries(self) -> Iterator[tuple[str, Any]]:
        for task in (0, 1):
            store = self._world.store.contents.get(f"{NAME}:{EFFECTS}-{task}")
            for key, value in store.entries.items() if store is not None else ():
                yield _CODEC.decode(key), _CODEC.decode(value)
