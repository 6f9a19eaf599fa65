"""Which worker has which task, and what the driver knows of a round that the workers run. Pure.

A task's input ends when all tasks of the levels before its own have prepared, and all that they sent has arrived. A
worker tells the driver when its tasks of a level have prepared, and how many blobs they have sent to each other worker.
When all workers have told, the driver tells each worker how many blobs to expect at the next level. So a frame that is
late, lost or of an earlier attempt is noticed, and a wave needs frames for its tasks, but not for each pair of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.plan.wiring import Wiring

Slot = int
"""The number of a worker, from 0."""


class Member(NamedTuple):
    """A worker that has registered. Its slot gets another member if it is lost."""

    incarnation: int  # Spark's number of the task; a later one replaces an earlier one
    host: str
    port: int


class Table(NamedTuple):
    """The workers under which a round runs. Each change has a number of its own."""

    number: int
    members: Mapping[Slot, Member]

    def with_member(self, slot: Slot, member: Member) -> Table | None:
        """Return the table with a worker that registers; None if a later one has its slot."""
        known = self.members.get(slot)
        if known is not None and known.incarnation >= member.incarnation:
            return None
        return Table(self.number + 1, {**self.members, slot: member})

    def without(self, slot: Slot) -> Table:
        return Table(self.number + 1, {each: member for each, member in self.members.items() if each != slot})


class Placement:
    """The slots of a plan's tasks: in turn, so that each worker has a share of every component.

    A chained task has the slot of the task that feeds it.
    """

    def __init__(self, wiring: Wiring, slots: int) -> None:
        self.slots = slots
        partitions = enumerate(partition for stage in wiring.stages for partition in stage)
        slot_of = {task: number % slots for number, partition in partitions for task in partition}
        self.levels = [[slot_of[task] for task in level] for level in wiring.levels]  # by level, from 1, and partition

    def of(self, level: int, partition: int) -> Slot:
        return self.levels[level - 1][partition]

    def tasks(self, wiring: Wiring, slot: Slot) -> Iterator[tuple[int, int, TaskKey]]:
        """Yield level, partition and key of each of a worker's tasks, by level."""
        for number, level in enumerate(wiring.levels, start=1):
            slots = self.levels[number - 1]
            yield from ((number, each, task) for each, task in enumerate(level) if slots[each] == slot)

    def by_slot(self, wiring: Wiring, tasks: Iterable[TaskKey]) -> dict[Slot, list[TaskKey]]:
        """Divide tasks of bolts by their workers."""
        found: dict[Slot, list[TaskKey]] = {}
        for task in tasks:
            found.setdefault(self.of(*wiring.places[task]), []).append(task)
        return found


class RoundProgress:
    """The driver's knowledge of one round. `begin`, `sources_ended` and `ended` return what to tell the workers."""

    def __init__(self, placement: Placement, sources: Collection[Slot], *, has_feed: bool) -> None:
        """Create it.

        Args:
            placement: The slots of the tasks.
            sources: The workers that run tasks of spouts.
            has_feed: Whether tasks of a Spark job send blobs, too; `feed_ended` tells their end.
        """
        self._placement = placement
        self._sent: Counter[tuple[int, Slot]] = Counter()  # blobs to other processes, by level and worker
        self._waits_for: list[set[Slot]] = [set(sources), *(set(level) for level in placement.levels)]
        self._has_feed = has_feed
        self._level = 0  # which has not ended
        self.reports: list[bytes] = []
        self.executed: dict[TaskKey, int] = {}  # by ended task

    @property
    def is_done(self) -> bool:
        return self._level == len(self._waits_for)

    def begin(self) -> Sequence[tuple[Slot, int, int]]:
        """Return what to tell before any worker has told anything: (worker, level, blobs to expect)."""
        return self._next_levels()

    def feed_ended(self, sent: Mapping[tuple[int, Slot], int]) -> Sequence[tuple[Slot, int, int]]:
        """Note the end of the job whose tasks send blobs; `sent` counts those of the attempts that have won."""
        self._has_feed = False
        self._sent.update(sent)
        return self._next_levels()

    def ended(
        self,
        slot: Slot,
        level: int,
        sent: Iterable[Sequence[int]],
        executed: Iterable[tuple[str, int, int]],
        reports: Iterable[bytes],
    ) -> Sequence[tuple[Slot, int, int]]:
        """Note that a worker's tasks of a level have prepared. See `Kind.ENDED` for the arguments."""
        self._sent.update({(each, to): blobs for each, to, blobs in sent})
        self.executed.update({(component, index): tuples for component, index, tuples in executed})
        self.reports += reports
        self._waits_for[level].discard(slot)
        return self._next_levels()

    def _next_levels(self) -> Sequence[tuple[Slot, int, int]]:
        told: list[tuple[Slot, int, int]] = []
        while not self.is_done and not self._waits_for[self._level] and not (self._level == 0 and self._has_feed):
            self._level += 1
            if not self.is_done:
                level = self._level
                told += [(slot, level, self._sent[level, slot]) for slot in sorted(self._waits_for[level])]
        return told
