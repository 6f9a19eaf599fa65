"""`TimedEntries`: what a task's state keeps by time. One index serves entries that expire and timers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from anchorbolt.state_backends.attempt import TaskNamespace
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.state import NO_FENCE, NOTHING_COMMITTED, AttemptScope
from anchorbolt.state_backends.timed.expiry import Expiry
from anchorbolt.state_backends.timed.index import IndexClock, TimeIndex
from anchorbolt.state_backends.timed.timers import Read, Timer, Timers


class NextDue(NamedTuple):
    """When something is due next, in ms since 1970; None for nothing. A time may be too early, but never too late."""

    processing: int | None = None  # a timer, by the wave's clock
    event: int | None = None  # a timer, by the watermark
    expiry: int | None = None  # an entry that expires, by the wave's clock

    @classmethod
    def earliest(cls, several: Iterable[NextDue]) -> NextDue:
        """Return the earliest times of several tasks."""
        return cls(
            *(min((due for due in dues if due is not None), default=None) for dues in zip(*several, strict=True))
        )


NOTHING_DUE = NextDue()


class TimedEntries:
    """The expiring entries, the timers and the index of one namespace. Without any, nothing is read or written."""

    def __init__(self, encoding: EntryEncoding, attempt: TaskNamespace, read: Read, ttl_ms: int | None) -> None:
        self._encoding = encoding
        self._attempt = attempt
        self._read = read
        self._ttl_ms = ttl_ms
        self._index = TimeIndex(encoding.namespace, read)
        self._scope = AttemptScope(NO_FENCE, NOTHING_COMMITTED, "")
        self._updates: dict[bytes, bytes | None] = {}  # to stage, besides those of the index
        self.expiry: Expiry | None = None  # None as long as no entry is known to have a TTL
        self._timers: Timers[Any] | None = None  # None for a bolt that has none
        if ttl_ms is not None:
            self.made_expiry()

    def begin(self, scope: AttemptScope) -> list[Any]:
        """Start a wave; return the cache keys of the entries that have expired since the last one."""
        self._scope = scope
        if scope.has_expiring:
            self.made_expiry()
        if self._timers is not None:
            self._timers.begin(scope.clock, scope.watermark)
        return [] if self.expiry is None else self.expiry.begin(scope.clock)

    def forget(self) -> None:
        """Drop all cached data and all changes."""
        self._index.forget()
        self._updates.clear()
        if self.expiry is not None:
            self.expiry.forget()

    def made_expiry(self) -> Expiry:
        """Return the due times of entries, also if none had any before."""
        if self.expiry is None:
            self.expiry = Expiry(self._encoding.namespace, self._index, self._ttl_ms)
            self.expiry.begin(self._scope.clock)
        return self.expiry

    @property
    def timers(self) -> Timers[Any]:
        """The timers of the bolt, also if it had none before."""
        if self._timers is None:
            self._timers = Timers(self._encoding, self._index, self._read)
            self._timers.begin(self._scope.clock, self._scope.watermark)
        return self._timers

    @property
    def has_changes(self) -> bool:
        """Whether something must still be staged."""
        changed = self._timers is not None and self._timers.has_changes
        return changed or bool(self._updates) or self._index.has_changes

    def take_due(self, most: int) -> list[Timer]:
        """Return the timers that fire in this wave, at most `most`."""
        if self._timers is None:
            return []
        self._updates.update(self._timers.flush())
        return self._timers.take_due(most)

    def stage(self) -> None:
        """Stage the changes of the timers and of the index."""
        if self._timers is not None:
            self._updates.update(self._timers.flush())
        updates = {**self._updates, **self._index.flush()}
        if updates:
            self._attempt.stage(list(updates), list(updates.values()))
            self._updates.clear()

    def sweep(self) -> None:
        """Delete expired entries, after all updates were staged."""
        if self.expiry is not None:
            self._updates.update(self.expiry.sweep(self._read))
            self.stage()

    @property
    def next_due(self) -> NextDue:
        """What is due next. Valid after `stage`."""
        next_due = self._index.next_due
        processing = event = expiry = None
        if self._timers is not None:
            processing, event = next_due(IndexClock.PROCESSING), next_due(IndexClock.EVENT)
        if self.expiry is not None:
            expiry = next_due(IndexClock.EXPIRY)
        return NextDue(processing, event, expiry)

    @property
    def waiting(self) -> int:
        """About how many timers are set."""
        return 0 if self._timers is None else self._timers.waiting

    @property
    def fired(self) -> int:
        """The number of timers that have fired in this wave."""
        return 0 if self._timers is None else self._timers.fired

    @property
    def swept(self) -> int:
        """The number of expired entries that this wave has deleted."""
        return 0 if self.expiry is None else self.expiry.swept
