"""Distributes a buffer of emitted tuples over the tasks of a receiving bolt, according to its grouping.

This is the hot path between two bolts, so it works on whole buffers. A row is the values of one tuple. Never does I/O.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import itemgetter
from sys import getsizeof
from typing import Any

from anchorbolt.errors import TopologyError, UnsupportedValue
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import GlobalStreamId, Grouping
from anchorbolt.streams.hashing import destination_of, destinations_of, stable_hash
from anchorbolt.util.keys import is_known_by_equality

Values = tuple[Any, ...]

_MEMO_ENTRIES = 16_384
_MEMO_KEY_BYTES = 512
_SECOND_SPREAD = 0x85EBCA77
"""An odd multiplier that `stable_hash` does not use, for the second candidate task of a partial key."""


class Router(ABC):
    """Distributes one stream of one emitting task over the tasks of one receiving bolt: see `ROUTERS`.

    `fields` are the stream's declared fields, `target_tasks` the ids of the bolt's tasks by index. A shuffle starts at
    the emitting task's own index (from its `context`), so the same rows are always distributed in the same way.

    A router is used for many buffers: it remembers the destinations of up to 16,384 keys, or the next task.
    Not thread-safe.
    """

    def __init__(
        self,
        grouping: Grouping,
        *,
        stream: GlobalStreamId,
        fields: Sequence[str],
        target_tasks: Sequence[int],
        context: TopologyContext,
    ) -> None:
        self._grouping = grouping
        self._stream = stream
        self._fields = fields
        self._context = context
        self._destinations = len(target_tasks)
        self._index_of = {task: index for index, task in enumerate(target_tasks)}

    @abstractmethod
    def route(self, rows: list[Any]) -> list[list[Values]]:
        """Return a list of rows for each destination index, each in the order of `rows`.

        Two lists may be the same object, or `rows` itself: treat them as read-only. Rows of a direct stream are
        `(task id, values)`; rows for tasks of other bolts, which receive the same stream, are left out.

        Raises `UnsupportedValue` if a row's key cannot be hashed (the router's counters are then unchanged), and
        `TopologyError` if a custom grouping returned a task of another bolt.
        """

    @property
    def remembered(self) -> int:
        """The number of keys with a remembered destination."""
        return 0

    def forget(self) -> None:
        """Free the memory of the remembered keys. Called if the process has too many of them."""

    def _buckets(self) -> list[list[Values]]:
        return [[] for _ in range(self._destinations)]


class _ShuffleRouter(Router):
    def __init__(self, grouping: Grouping, **edge: Any) -> None:
        super().__init__(grouping, **edge)
        self._next = self._context.this_task_index % self._destinations

    def route(self, rows: list[Values]) -> list[list[Values]]:
        count, first = self._destinations, self._next
        if count == 1:
            return [rows]
        self._next = (first + len(rows)) % count
        return [rows[(destination - first) % count :: count] for destination in range(count)]


class _AllRouter(Router):
    def route(self, rows: list[Values]) -> list[list[Values]]:
        return [rows] * self._destinations


class _GlobalRouter(Router):
    def route(self, rows: list[Values]) -> list[list[Values]]:
        return [rows, *([] for _ in range(self._destinations - 1))]


class _KeyRouter(Router):
    def __init__(self, grouping: Grouping, **edge: Any) -> None:
        super().__init__(grouping, **edge)
        self._positions = [self._fields.index(field) for field in self._grouping.fields]
        self._key_of = itemgetter(*self._positions)  # the value of one field, or the tuple of several values
        # Equal keys of different types (1, True, 1.0) share an entry; they also have the same stable hash.
        self._memo: dict[Any, Any] = {}

    def route(self, rows: list[Values]) -> list[list[Values]]:
        try:
            return self._distribute(rows)
        except UnsupportedValue as error:
            where = f"{self._grouping} on stream {self._stream.stream!r} of {self._stream.component!r}"
            raise UnsupportedValue(f"{where}: {error.message}") from None

    @property
    def remembered(self) -> int:
        return len(self._memo)

    def forget(self) -> None:
        self._memo = {}

    @abstractmethod
    def _distribute(self, rows: list[Values]) -> list[list[Values]]: ...

    def _remember(self, key: Any, value: Any) -> None:
        may_remember = type(key) is str or is_known_by_equality(key)
        if may_remember and len(self._memo) < _MEMO_ENTRIES and _size(key) <= _MEMO_KEY_BYTES:
            self._memo[key] = value


class _FieldsRouter(_KeyRouter):
    _has_memo = True

    def forget(self) -> None:
        super().forget()
        self._has_memo = False

    def _distribute(self, rows: list[Values]) -> list[list[Values]]:
        # Measured, ns a row: with few keys 105 by memo and 215 in bulk; with a million keys 940 and 210. So a full
        # memo is no longer worth it.
        if len(self._memo) >= _MEMO_ENTRIES:
            self.forget()
        if not self._has_memo:
            return self._route_in_bulk(rows)
        try:
            return self._route_by_memo(rows)
        except TypeError:  # a key that is not hashable in Python, but perhaps by `stable_hash`
            return self._route_in_bulk(rows)

    def _route_by_memo(self, rows: list[Values]) -> list[list[Values]]:
        buckets = self._buckets()
        appends = [bucket.append for bucket in buckets]
        memo = self._memo
        for key, row in zip(map(self._key_of, rows), rows, strict=True):
            try:
                appends[memo[key]](row)
            except KeyError:
                destination = destination_of(stable_hash(key), self._destinations)
                self._remember(key, destination)
                appends[destination](row)
        return buckets

    def _route_in_bulk(self, rows: list[Values]) -> list[list[Values]]:
        columns = [[row[position] for row in rows] for position in self._positions]
        buckets = self._buckets()
        appends = [bucket.append for bucket in buckets]
        for destination, row in zip(destinations_of(columns, self._destinations), rows, strict=True):
            appends[destination](row)
        return buckets


class _PartialKeyRouter(_KeyRouter):
    def __init__(self, grouping: Grouping, **edge: Any) -> None:
        super().__init__(grouping, **edge)
        self._sent = [0] * self._destinations

    def _distribute(self, rows: list[Values]) -> list[list[Values]]:
        if len(self._memo) >= _MEMO_ENTRIES:
            self._memo.clear()
        buckets = self._buckets()
        # All keys are hashed before any row is counted, so that a refused key leaves the counts unchanged.
        candidates = [self._candidates(key) for key in map(self._key_of, rows)]
        sent = self._sent
        for row, (first, second) in zip(rows, candidates, strict=True):
            destination = first if sent[first] <= sent[second] else second
            sent[destination] += 1
            buckets[destination].append(row)
        return buckets

    def _candidates(self, key: Any) -> tuple[int, int]:
        try:
            known: tuple[int, int] | None = self._memo.get(key)
            if known is not None:
                return known
            pair = self._choose(key)
            self._remember(key, pair)
            return pair
        except TypeError:  # as in fields grouping
            return self._choose(key)

    def _choose(self, key: Any) -> tuple[int, int]:
        key_hash, count = stable_hash(key), self._destinations
        first = destination_of(key_hash, count)
        step = destination_of(key_hash * _SECOND_SPREAD & 0xFFFFFFFF, count - 1)
        return first, (first + 1 + step) % count


class _DirectRouter(Router):
    def route(self, rows: list[tuple[int, Values]]) -> list[list[Values]]:
        buckets = self._buckets()
        index_of = self._index_of
        for task, row in rows:
            index = index_of.get(task)
            if index is not None:
                buckets[index].append(row)
        return buckets


class _CustomRouter(Router):
    def __init__(self, grouping: Grouping, **edge: Any) -> None:
        super().__init__(grouping, **edge)
        assert self._grouping.custom is not None
        self._custom = self._grouping.custom
        self._custom.prepare(self._context, self._stream, tuple(self._index_of))

    def route(self, rows: list[Values]) -> list[list[Values]]:
        buckets = self._buckets()
        choose, task_id, index_of = self._custom.choose_tasks, self._context.this_task_id, self._index_of
        width = len(self._fields)
        for row in rows:
            chosen = choose(task_id, row[:width])  # without the roots that the engine appends
            try:
                for task in chosen:
                    buckets[index_of[task]].append(row)
            except (KeyError, TypeError):
                raise TopologyError(
                    f"{type(self._custom).__name__}.choose_tasks returned {chosen!r} for stream "
                    f"{self._stream.stream!r} of {self._stream.component!r}. Return a list of ids out of the target "
                    f"tasks {list(index_of)}.",
                    component=self._stream.component,
                ) from None
        return buckets


ROUTERS: dict[str, type[Router]] = {
    "shuffle": _ShuffleRouter,
    "none": _ShuffleRouter,
    "local_or_shuffle": _ShuffleRouter,
    "fields": _FieldsRouter,
    "partial_key": _PartialKeyRouter,
    "all": _AllRouter,
    "global": _GlobalRouter,
    "direct": _DirectRouter,
    "custom": _CustomRouter,
}


def _size(key: Any) -> int:
    size = getsizeof(key)
    return size + sum(map(_size, key)) if isinstance(key, tuple) else size
