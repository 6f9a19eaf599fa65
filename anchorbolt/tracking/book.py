"""Tracks each message of a run's rich spouts from its emit until its source knows of its ack or fail.

Not thread-safe, except `Redelivery`. Has no clock: the caller passes the time.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from anchorbolt.checkpoint.decision import Acked
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.serialization import unpack
from anchorbolt.spouts.intake import Chunk
from anchorbolt.spouts.message_ids import AckedMessages, id_key
from anchorbolt.tracking.in_flight import InFlight, RootedChunk
from anchorbolt.tracking.redelivery import DecidedPart, Redelivery
from anchorbolt.tracking.settlements import FailedMessage, Settlement, SpoutTask, acked_of
from anchorbolt.tracking.sorted_roots import Roots
from anchorbolt.tracking.verdict import Failure, Verdict

_MOST = 100_000  # limit of kept counts: they would grow forever if a source gives failed messages new ids

Key = tuple[str, int | None, Any]
"""A message: its spout's id, the task's index unless all tasks share message ids, and the id by `id_key`."""


class LeftTree(NamedTuple):
    """A tree that an earlier run left open."""

    root: int
    spout: str  # its id
    msg_id: bytes  # packed


class Settled(NamedTuple):
    """The messages that a committed wave settles."""

    of_wave: Mapping[SpoutTask, Settlement]
    buried: Mapping[SpoutTask, int]  # the number of dead letters among the acked messages
    to_tell: Sequence[tuple[TaskKey, Settlement]]  # the acks and fails that each task passes to its source


class MessageBook:
    """The messages of one run.

    ```
    emit ──▶ waits at its spout ──begin──▶ in the wave ──settle──▶ acked ──▶ known to its source: forgotten
                                            │      │
                                            │      └──settle──▶ in an open tree ──settle──▶ acked, failed or timed out
                                            └──judge──▶ failed ──settle──▶ its source may deliver it again
    ```

    `InFlight` has the messages of the wave and those of open trees. `Redelivery` has the messages of a spout with
    stable ids, until its source knows of their acks. `FailedMessages` counts how often a message has failed.
    """

    def __init__(
        self,
        run_id: str,
        tasks: Mapping[int, TaskKey],  # all tasks with an id, by id
        spouts: Mapping[str, bool],  # the rich spouts: whether each has stable message ids
        *,
        timeout_s: float | None,
        excludes: bool,
        max_retries: int | None,  # of a message, before it becomes a dead letter; None without dead letters
    ) -> None:
        self._tasks = tasks
        self._spouts = spouts
        self._in_flight = InFlight(run_id, tasks, timeout_s, excludes=excludes)
        stable = {component for component, is_stable in spouts.items() if is_stable}
        self._failed = None if max_retries is None else FailedMessages(max_retries, stable)
        # By spout with stable message ids; includes a removed spout that has messages in flight.
        self._redeliveries: dict[str, Redelivery] = {}
        self._acked: dict[str, list[DecidedPart]] = {}  # by spout: the messages that the last decision acks
        self._buried = Counter[SpoutTask]()  # messages that the last decision acks as dead letters

    def inherit(self, trees: Sequence[LeftTree], acked: Sequence[AckedMessages], now: float) -> Mapping[str, int]:
        """Take over the open trees of earlier runs, and the messages that their last decision acks.

        Returns the number of messages in flight for each removed spout.
        """
        absent = Counter(each.spout for each in trees if each.spout not in self._spouts)
        self._in_flight.inherit(((each.root, each.spout) for each in trees), now, absent=absent)
        stable = {component for component, is_stable in self._spouts.items() if is_stable}
        for component in sorted({*stable, *absent}):
            in_flight = [unpack(each.msg_id) for each in trees if each.spout == component]
            of_record = [messages for messages in acked if messages.component == component]
            self._redeliveries[component] = Redelivery(component, in_flight, of_record)
        return absent

    def redelivery(self, component: str) -> Redelivery | None:
        """Return the messages of a spout with stable message ids; None for any other spout."""
        return self._redeliveries.get(component)

    @property
    def excluded(self) -> frozenset[int]:
        """Roots of the wave that failed in one of its earlier rounds."""
        return self._in_flight.excluded

    @property
    def expired(self) -> Roots:
        """Trees of earlier waves that time out in this wave."""
        return self._in_flight.expired

    def has_expired(self, now: float) -> bool:
        """Return whether a tree has timed out. Called between two waves."""
        return self._in_flight.has_expired(now)

    @property
    def oldest_since(self) -> float | None:
        """When the oldest message in flight that a wave has taken in was emitted; None without one. For any thread."""
        return self._in_flight.oldest_since

    def begin(self, taken: Mapping[int, Sequence[Chunk]], now: float) -> Mapping[int, Sequence[RootedChunk]]:
        """Draw the roots of a wave's messages, by the spout's task id; exclude messages that failed too often."""
        rooted = self._in_flight.begin(taken, now)
        if self._failed is not None and self._failed.has_dead:
            self._in_flight.leave_out(self._is_dead)
        return rooted

    def forget(self, task: int) -> list[Any]:
        """Forget the wave's messages of a spout's task, which was lost; return their ids."""
        return self._in_flight.forget(task)

    def judge(self, verdicts: Sequence[Verdict]) -> bool:
        """Take the verdicts of a round; return whether it must be repeated without the trees that failed in it."""
        return self._in_flight.judge(verdicts)

    def exclude(self, failed: Mapping[int, Failure]) -> dict[int, Failure]:
        """Exclude trees of the wave from its next round on; return the trees that are not of rich spouts."""
        return self._in_flight.exclude(failed)

    def exclude_for_good(self, root: int, reason: str) -> bool:
        """Exclude a tree of the wave without another try; return whether it is of a rich spout."""
        return self._in_flight.exclude_for_good(root, reason)

    def dead_letters(self) -> list[DeadLetter]:
        """Return the dead letters of the last round. Must be called before `acked`, which includes dead letters."""
        if self._failed is None:
            return []
        settlements = self._in_flight.settlements()
        acked = acked_of(settlements)
        letters = self._failed.bury(settlements)
        self._buried = acked_of(settlements) - acked
        return letters

    def acked(self) -> Acked:
        """Return the acks to store with the decision of the last round, see `DecisionRecord.acked`."""
        acked: defaultdict[str, list[Any]] = defaultdict(list)
        for (component, _), settlement in self._in_flight.settlements().items():
            acked[component] += settlement.acked
        kept = self._none_acked()
        for component, redelivery in self._redeliveries.items():
            self._acked[component] = parts = list(AckedMessages.parts_of(component, acked[component]))
            kept[component] = [*redelivery.unconfirmed(), *(messages for messages, _ in parts)]
        return kept

    def settle(self, now: float) -> Settled:
        """Settle messages after the wave has committed."""
        settlements = self._in_flight.settle(now)
        if self._failed is not None:
            self._failed.settle(settlements)
        to_tell: list[tuple[TaskKey, Settlement]] = []
        failed = {component: list[FailedMessage]() for component in self._redeliveries}
        for (component, index), settlement in settlements.items():
            if component in self._redeliveries:
                failed[component] += settlement.failed
            elif index is not None:  # otherwise of an earlier run: its source has forgotten that delivery
                to_tell.append(((component, index), settlement))
        for component, redelivery in self._redeliveries.items():
            told = redelivery.settle(self._acked.get(component, ()), failed[component])
            to_tell += [((component, index), settlement) for index, settlement in told.items()]
        return Settled(settlements, self._buried, to_tell)

    def unconfirmed(self) -> Acked:
        """Return the acked messages that the sources have not confirmed yet."""
        return self._none_acked() | {name: each.unconfirmed() for name, each in self._redeliveries.items()}

    @property
    def awaits_sources(self) -> bool:
        """Whether a source of this run's spouts has not confirmed all acks yet."""
        unconfirmed = self.unconfirmed()
        return any(unconfirmed[name] for name in self._spouts)

    def _none_acked(self) -> dict[str, Sequence[AckedMessages]]:
        return dict.fromkeys(self._spouts, ())

    def _is_dead(self, task_id: int, msg_id: Any) -> FailedMessage | None:
        assert self._failed is not None
        return self._failed.is_dead(self._tasks[task_id], msg_id)


class FailedMessages:
    """The messages that have failed and are not acked yet. Lost with the driver: its successor counts from zero."""

    def __init__(self, max_retries: int, shared: Container[str]) -> None:
        """Create it; `shared` are the spouts with tasks that all give a message the same id."""
        self._max_retries = max_retries
        self._shared = shared
        self._failures: dict[Key, tuple[int, FailedMessage]] = {}  # the number of failures, and the last failure

    @property
    def has_dead(self) -> bool:
        """Whether `is_dead` returns a failure for any message."""
        return any(self._is_too_often(failures) for failures, _ in self._failures.values())

    def is_dead(self, emitter: SpoutTask, msg_id: Any) -> FailedMessage | None:
        """Return the last failure of a message that has failed too often; None for any other message."""
        failures, last = self._failures.get(self._key(emitter, msg_id), (0, None))
        return last if self._is_too_often(failures) else None

    def bury(self, settlements: Mapping[SpoutTask, Settlement]) -> list[DeadLetter]:
        """Turn messages that fail for good in this wave into dead letters, which are acked instead of failed.

        The values of a message of an earlier wave are gone: it is left out when its source delivers it again.
        """
        letters = []
        decoded: Chunk | None = None
        columns: list[list[Any]] = []
        for emitter, settlement in settlements.items():
            still_failed = []
            for message in settlement.failed:
                tries = self._failures.get(self._key(emitter, message.msg_id), (0, None))[0]
                if not self._is_too_often(tries):  # otherwise the wave has left it out from its first round on
                    tries += 1
                if message.chunk is not None and (self._is_too_often(tries) or message.is_hopeless):
                    if message.chunk is not decoded:  # the failed messages of a chunk follow each other
                        decoded, columns = message.chunk, message.chunk.columns()
                    values = tuple(column[message.position] for column in columns)
                    letters.append(_letter(emitter[0], message, message.chunk.stream, values, tries))
                    settlement.acked.append(message.msg_id)
                else:
                    still_failed.append(message)
            settlement.failed = still_failed
        return letters

    def settle(self, settlements: Mapping[SpoutTask, Settlement]) -> None:
        """Count the failures of a committed wave, and forget the messages that it acked."""
        for emitter, settlement in settlements.items():
            for msg_id in settlement.acked if self._failures else ():
                self._failures.pop(self._key(emitter, msg_id), None)
            for message in settlement.failed:
                key = self._key(emitter, message.msg_id)
                failures, _ = self._failures.pop(key, (0, None))
                self._failures[key] = failures + 1, message._replace(chunk=None)
        while len(self._failures) > _MOST:
            del self._failures[next(iter(self._failures))]  # the oldest failure

    def _is_too_often(self, failures: int) -> bool:
        return failures > self._max_retries

    def _key(self, emitter: SpoutTask, msg_id: Any) -> Key:
        component, index = emitter
        return component, None if component in self._shared else index, id_key(msg_id)


def _letter(component: str, message: FailedMessage, stream: str, values: tuple[Any, ...], tries: int) -> DeadLetter:
    return DeadLetter(
        component,
        stream,
        values,
        message.msg_id,
        message.component,
        message.task_index,
        message.reason,
        tries,
        time.time(),
    )
