"""Decides what a task of a Redis spout reads next from one stream, and keeps the held entries. No I/O of its own."""

import logging
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from anchorbolt.state_backends.redis.streams import FIRST, Entry, StreamConsumer

_log = logging.getLogger("anchorbolt.spouts")

_SWEEP_S = 5.0  # between two searches for entries of consumers that do not run
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.01  # between two reads of a stream without new entries
_ACKS_AT_ONCE = 1000


@dataclass(frozen=True)
class Task:
    """A task of a spout. Its consumer's name ends with its index, so a new run finds the entries that it held."""

    prefix: str  # of the consumer names of this spout
    index: int
    tasks: int  # number of tasks in this run

    @property
    def consumer(self) -> str:
        return f"{self.prefix}{self.index}"

    def works_as(self, consumer: str) -> bool | None:
        """Return True if a consumer is a task of this run, False if of an earlier run, None if of another program.

        This is the only run of its topology: a starting driver takes over from the driver before.
        """
        digits = consumer.removeprefix(self.prefix)
        if not consumer.startswith(self.prefix) or not (digits.isascii() and digits.isdigit()):
            return None
        return int(digits) < self.tasks

    def takes_over(self, consumer: str) -> bool:
        """Return whether this task must take over a consumer that does not run."""
        return zlib.crc32(consumer.encode("utf-8", "surrogateescape")) % self.tasks == self.index


class StreamReader:
    """Reads one stream for one task: failed entries, entries of an earlier run, of dead consumers, and new entries.

    The task holds an entry from its return until its ack has reached Redis. A held entry is not returned again, except
    after `fail`.
    """

    def __init__(self, consumer: StreamConsumer, task: Task, idle_s: float, clock: Callable[[], float]) -> None:
        """Take over entries of consumers outside this topology after `idle_s` seconds."""
        self.consumer = consumer
        self._task = task
        self._idle_s = idle_s
        self._clock = clock
        self._held: set[str] = set()
        self._failed: deque[str] = deque()
        self._acks: list[str] = []
        # Position in the consumer's own pending entries; None: all are held. The first sweep sets it.
        self._own_after: str | None = None
        self._abandoned: deque[str] = deque()  # consumers to claim from
        self._claimed: dict[str, str] = {}  # by consumer, the id of its last pending entry that was checked
        self._next_sweep = 0.0
        self._next_read = 0.0
        self._pause_s = _FIRST_PAUSE_S

    def next_entries(self, count: int) -> list[Entry]:
        """Return at most `count` entries to emit. The list may be empty although there are entries.

        Raises:
            SourceUnavailable: Redis does not answer. Call `reread` before the next call.
        """
        if self._failed:
            return self._again(count)
        now = self._clock()
        if now >= self._next_sweep:
            self._sweep()
            self._next_sweep = now + _SWEEP_S
        entries: list[Entry] = []
        if self._own_after is not None:
            entries = self._from_own(self._own_after, count)
        elif self._abandoned:
            entries = self._from_abandoned(count)
        return entries or self._new(now, count)

    def reread(self) -> None:
        """Read the consumer's own entries again: Redis may have delivered some in a reply that was lost."""
        self._own_after = FIRST

    def ack(self, id: str) -> None:
        """Collect an ack for `flush`."""
        self._acks.append(id)

    def fail(self, id: str) -> None:
        """Let `next_entries` return a held entry again."""
        self._failed.append(id)

    def release(self, id: str) -> None:
        """Forget an entry: another task holds it now."""
        self._held.discard(id)

    def flush(self) -> None:
        """Send the acks. Acks that Redis did not confirm are kept. Raises `SourceUnavailable`."""
        while self._acks:
            sent = self._acks[:_ACKS_AT_ONCE]
            self.consumer.ack(sent)
            del self._acks[: len(sent)]
            self._held.difference_update(sent)

    @property
    def unsent(self) -> int:
        """The number of acks that wait for `flush`."""
        return len(self._acks)

    def _new(self, now: float, count: int) -> list[Entry]:
        if now < self._next_read:
            return []
        entries = self.consumer.read_new(count)
        if entries:
            self._pause_s = _FIRST_PAUSE_S
            return self._take(entries)
        self._next_read = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return []

    def _from_own(self, after: str, count: int) -> list[Entry]:
        entries = self.consumer.read_own(after, count)
        self._own_after = entries[-1][0] if entries else None
        return self._take(entries)

    def _again(self, count: int) -> list[Entry]:
        # Read the fields from Redis again: failures are rare, and keeping the fields of all pending entries costs
        # memory. Also, only Redis knows the owner of an entry.
        ids = [self._failed[number] for number in range(min(count, len(self._failed)))]
        entries = self.consumer.claim(ids, 0.0)
        found = {id for id, _ in entries}
        self._drop([id for id in ids if id not in found])
        for _ in ids:
            self._failed.popleft()
        return entries

    def _from_abandoned(self, count: int) -> list[Entry]:
        consumer = self._abandoned[0]
        pending = self.consumer.pending_of(consumer, self._claimed.get(consumer, FIRST), count)
        if not pending:
            self._claimed.pop(consumer, None)
            self._abandoned.popleft()
            return []
        idle_s = 0.0 if self._task.works_as(consumer) is False else self._idle_s
        ids = [id for id, idle in pending if idle >= idle_s]
        entries = self._take(self.consumer.claim(ids, idle_s)) if ids else []
        self._claimed[consumer] = pending[-1][0]
        if not ids:  # it seems to be alive: check its next entries after the next sweep
            self._abandoned.popleft()
        if entries:
            _log.info("claimed %d entries of stream %r from consumer %r", len(entries), self.consumer.key, consumer)
        return entries

    def _sweep(self) -> None:
        """Find entries of consumers that do not run."""
        self.consumer.note_position()
        counts = self.consumer.pending_counts()
        if counts.pop(self.consumer.name, 0) > len(self._held):
            self.reread()  # delivered to this name in a lost reply, or to an earlier driver
        self._abandoned = deque(
            name
            for name, number in counts.items()
            if number and not self._task.works_as(name) and self._task.takes_over(name)
        )

    def _take(self, entries: list[Entry]) -> list[Entry]:
        """Hold these entries; return the entries that were not held before and are not deleted."""
        taken = [entry for entry in entries if entry[0] not in self._held]
        deleted = [id for id, fields in taken if not fields]
        if deleted:
            self._drop(deleted)
            taken = [entry for entry in taken if entry[1]]
        self._held.update([id for id, _ in taken])
        return taken

    def _drop(self, ids: list[str]) -> None:
        if not ids:
            return
        self.consumer.ack(ids)
        self._held.difference_update(ids)
        _log.warning(
            "stream %r has lost %d entries before they were processed, such as %s: it was trimmed, or entries were "
            "deleted. They are acked",
            self.consumer.key,
            len(ids),
            ids[0],
        )
