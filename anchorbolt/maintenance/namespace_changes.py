"""Changes of one namespace in one transaction, together with its index by time. Memory is bounded by `stage`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anchorbolt.checkpoint.decision import Winner
from anchorbolt.maintenance.attempt_writer import AttemptWriter, slices_of
from anchorbolt.state_backends.contract import StateStorage
from anchorbolt.state_backends.timed.index import IndexClock, Item, TimeIndex

_ITEM_BYTES = 64  # of an update or an item in memory, besides its bytes
_DELETED_TOGETHER = 10_000
_WAITING_BYTES = 16 << 20  # of changes that are not staged, of all tasks together


class NamespaceChanges:
    """Collects changes, and stages them under one attempt."""

    def __init__(self, storage: StateStorage, writer: AttemptWriter) -> None:
        self._storage = storage
        self._writer = writer
        self._put: list[tuple[bytes, bytes]] = []
        self._deleted: list[bytes] = []
        self._written: dict[bytes, bytes] = {}  # what the index has written and reads again: it is not committed yet
        self._index = TimeIndex(storage.namespace, self._read)
        self.size = 0  # bytes that wait to be staged

    def put(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Put entries under keys that have no other change."""
        for key, data in entries:
            self._put.append((key, data))
            self.size += len(key) + len(data) + _ITEM_BYTES

    def delete(self, keys: Iterable[bytes]) -> None:
        """Delete entries that have no other change. Their items in the index stay, and count no more."""
        for key in keys:
            self._deleted.append(key)
            self.size += len(key) + _ITEM_BYTES

    def index(self, clock: IndexClock, items: Sequence[Item], now: int | None) -> None:
        """Add items to the index; `now` as in `TimeIndex.add`."""
        self._index.add(clock, items, now)
        self.size += sum(len(key) + _ITEM_BYTES for _, key in items)

    def next_due(self, clock: IndexClock) -> int | None:
        """Return when the first item that was staged or committed is due."""
        return self._index.next_due(clock)

    def stage(self) -> None:
        """Stage what waits."""
        # Nothing is taken from the index, so it deletes nothing.
        of_index = [(key, data) for key, data in self._index.flush().items() if data is not None]
        self._written.update(entry for entry in of_index if TimeIndex.is_list(entry[0]))
        for part in slices_of(self._storage.namespace, [self._put, of_index], self._storage.limits):
            self._writer.stage(dict(part))
        for start in range(0, len(self._deleted), _DELETED_TOGETHER):
            self._writer.stage(dict.fromkeys(self._deleted[start : start + _DELETED_TOGETHER]))
        self._put, self._deleted, self.size = [], [], 0

    def sealed(self) -> Winner:
        """Stage what waits, and seal the attempt."""
        self.stage()
        return self._writer.sealed()

    def _read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        # Not under the attempt: a store may copy all its updates for that.
        stored = self._storage.get_many(keys)
        return [self._written.get(key, data) for key, data in zip(keys, stored, strict=True)]


def stage_if_many(changes: Sequence[NamespaceChanges]) -> None:
    """Stage the changes of all these namespaces if together they take much memory."""
    if sum(each.size for each in changes) > _WAITING_BYTES:
        for each in changes:
            each.stage()
