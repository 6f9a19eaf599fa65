"""The common limit on all caches of one process, and the choice of the cache that must evict entries.

Every cache reports its growth to the budget: once a batch, never for a tuple. Above the limit, the least recently used
caches evict their oldest entries first. Each cache used in this round or the round before keeps an equal share:
otherwise tasks that take turns in every wave would empty each other's caches before their next use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

CACHE_BYTES = 64 << 20


class Cache(Protocol):
    """A cache that can evict entries. Every entry can be read again."""

    def evict(self, entries: int) -> tuple[int, int]:
        """Forget at least the `entries` oldest entries; return how many entries and bytes remain.

        Never called while the cache's own task runs.
        """


@dataclass
class _Held:
    entries: int = 0
    size: int = 0  # bytes of large values
    round: int = 0  # of the last use


class CacheBudget:
    """The budget of one process. Not thread-safe: one task of a process runs at a time."""

    def __init__(self, most_entries: int, most_bytes: int | None = None) -> None:
        """Create it. `most_bytes` of large values are 64 MiB by default."""
        self.most_entries = most_entries
        self._most_bytes = CACHE_BYTES if most_bytes is None else most_bytes
        self._held: dict[Cache, _Held] = {}  # least recently used first
        self._round = 0
        self.entries = 0
        self.size = 0

    def begin_round(self) -> None:
        """Note that a round begins in this process."""
        self._round += 1

    def claim(self, cache: Cache, entries: int, size: int = 0) -> int:
        """Record the size of a cache in use, now or after its next growth; other caches make room for it.

        Return how many entries the cache itself must evict: all of them if large values fill the memory.
        """
        self.note(cache, entries, size)
        if self.entries > self.most_entries:
            self._make_room(cache)
        if self.size > self._most_bytes:
            self._make_room_for_bytes(cache)
            if self.size > self._most_bytes:
                return entries
        return max(0, self.entries - self.most_entries)

    def forget(self, cache: Cache) -> None:
        """Remove a cache that no longer exists."""
        held = self._held.pop(cache, _Held())
        self.entries -= held.entries
        self.size -= held.size

    def note(self, cache: Cache, entries: int, size: int = 0) -> None:
        """Record the size of a cache in use. If it has grown, call `claim` instead."""
        held = self._held.pop(cache, None) or _Held()
        self.entries += entries - held.entries
        self.size += size - held.size
        held.entries, held.size, held.round = entries, size, self._round
        self._held[cache] = held

    def _make_room(self, user: Cache) -> None:
        # More than necessary: an eviction copies the cache, which must not happen for every batch.
        wanted = max(self.entries - self.most_entries, self.most_entries // 8)
        recent = {id(held) for held in self._held.values() if held.round >= self._round - 1}
        share = self.most_entries // len(recent)
        for cache, held in list(self._held.items()):
            surplus = min(wanted, held.entries - (share if id(held) in recent else 0))
            if cache is not user and surplus > 0:
                wanted -= self._evict(cache, held, surplus)
            if wanted <= 0:
                return

    def _make_room_for_bytes(self, user: Cache) -> None:
        for cache, held in list(self._held.items()):
            if self.size <= self._most_bytes:
                return
            if cache is not user and held.size > 0:
                self._evict(cache, held, held.entries)

    def _evict(self, cache: Cache, held: _Held, entries: int) -> int:
        before, before_size = held.entries, held.size
        held.entries, held.size = cache.evict(entries)
        self.entries += held.entries - before
        self.size += held.size - before_size
        return before - held.entries
