"""Distributes a buffer of emitted tuples over the tasks of a receiving bolt, according to its grouping.

This is the hot path between two bolts, so it works on whole buffers. A row is the values of one tuple. To add a
grouping, add its class in `groupings`, its method in `topology.declarer`, and its router here. Never does I/O.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from sys import getsizeof
from typing import Any, TypeVar

from anchorbolt.errors import TopologyError, UnsupportedValue
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.groupings import (
    AllGrouping,
    CustomGrouping,
    CustomStreamGrouping,
    DirectGrouping,
    FieldsGrouping,
    GlobalGrouping,
    GlobalStreamId,
    Grouping,
    KeyGrouping,
    ShuffleGrouping,
)
from anchorbolt.streams.hashing import destination_of, destinations_of, stable_hash

Values = tuple[Any, ...]
_V = TypeVar("_V")

_MEMO_ENTRIES = 16_384
_MEMO_KEY_BYTES = 512
_SECOND_SPREAD = 0x85EBCA77
"""An odd multiplier that `stable_hash` does not use, for the second candidate task of a partial key."""


class Router(ABC):
    """Distributes one stream of one emitting task over the tasks of one receiving bolt.

    A router is kept from buffer to buffer: it remembers the destinations of up to 16,384 keys, or which task is next.
    Not thread-safe.
    """

    def __init__(self, destinations: int) -> None:
        self._destinations = destinations

    @abstractmethod
    def route(self, rows: list[Values]) -> list[list[Values]]:
        """Return a list of rows for each destination index, each in the order of `rows`.

        Two lists may be the same object, or `rows` itself: treat them as read-only.

        Raises:
            UnsupportedValue: A row's key cannot be hashed. The router's counters are then unchanged.
            TopologyError: A custom grouping returned a task of another bolt.
        """

    def route_direct(self, rows: Iterable[tuple[int, Values]]) -> list[list[Values]]:
        """Distribute rows of a direct stream, each given with the id of its receiving task.

        Rows for tasks of other bolts are left out: those bolts take the same stream.
        """
        raise NotImplementedError  # the collector refuses such an emit

    def _buckets(self) -> list[list[Values]]:
        return [[] for _ in range(self._destinations)]


def make_router(
    grouping: Grouping,
    *,
    stream: GlobalStreamId,
    fields: Sequence[str],
    target_tasks: Sequence[int],
    context: TopologyContext,
) -> Router:
    """Make the router of one emitting task's stream for one receiving bolt.

    `fields` are the stream's declared fields, `target_tasks` the ids of the bolt's tasks by index. A shuffle starts at
    the emitting task's own index (from its `context`), so the same rows are always distributed in the same way.
    """
    destinations = len(target_tasks)
    if isinstance(grouping, KeyGrouping):
        positions = [fields.index(field) for field in grouping.fields]
        where = f"{grouping} on stream {stream.stream!r} of {stream.component!r}"
        if isinstance(grouping, FieldsGrouping):
            return _FieldsRouter(destinations, positions, where)
        return _PartialKeyRouter(destinations, positions, where)
    if isinstance(grouping, ShuffleGrouping):
        return _ShuffleRouter(destinations, context.this_task_index)
    if isinstance(grouping, AllGrouping):
        return _AllRouter(destinations)
    if isinstance(grouping, GlobalGrouping):
        return _GlobalRouter(destinations)
    if isinstance(grouping, DirectGrouping):
        return _DirectRouter(target_tasks)
    if isinstance(grouping, CustomGrouping):
        return _CustomRouter(grouping.implementation, stream, target_tasks, context)
    raise TopologyError(f"No router for grouping {grouping!r}.", component=stream.component)


def _key_column(positions: Sequence[int]) -> Callable[[list[Values]], list[Any]]:
    """Return a function that extracts the keys of rows: the value of one field, or the tuple of several."""
    if len(positions) == 1:
        position = positions[0]
        return lambda rows: [row[position] for row in rows]
    several = itemgetter(*positions)
    return lambda rows: list(map(several, rows))


class _ShuffleRouter(Router):
    def __init__(self, destinations: int, start: int) -> None:
        super().__init__(destinations)
        self._next = start % destinations

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


class _FieldsRouter(Router):
    def __init__(self, destinations: int, positions: Sequence[int], where: str) -> None:
        super().__init__(destinations)
        self._positions = positions
        self._keys_of = _key_column(positions)
        self._where = where
        # Equal keys of different types (1, True, 1.0) share an entry; they have the same stable hash, too.
        self._memo: dict[Any, int] = {}

    def route(self, rows: list[Values]) -> list[list[Values]]:
        # Measured, ns a row: with few keys 105 by memo and 215 in bulk; with a million keys 940 and 210. So a full
        # memo is no longer worth it.
        if len(self._memo) >= _MEMO_ENTRIES:
            return self._route_in_bulk(rows)
        try:
            return self._route_by_memo(rows)
        except TypeError:  # a key that is not hashable in Python, but perhaps by `stable_hash`
            return self._route_in_bulk(rows)

    def _route_by_memo(self, rows: list[Values]) -> list[list[Values]]:
        buckets = self._buckets()
        appends = [bucket.append for bucket in buckets]
        memo = self._memo
        for key, row in zip(self._keys_of(rows), rows, strict=True):
            try:
                appends[memo[key]](row)
            except KeyError:
                destination = destination_of(_hash(key, self._where), self._destinations)
                _remember(memo, key, destination)
                appends[destination](row)
        return buckets

    def _route_in_bulk(self, rows: list[Values]) -> list[list[Values]]:
        columns = [[row[position] for row in rows] for position in self._positions]
        try:
            destinations = destinations_of(columns, self._destinations)
        except UnsupportedValue as error:
            raise UnsupportedValue(f"{self._where}: {error.message}") from None
        buckets = self._buckets()
        appends = [bucket.append for bucket in buckets]
        for destination, row in zip(destinations, rows, strict=True):
            appends[destination](row)
        return buckets


class _PartialKeyRouter(Router):
    def __init__(self, destinations: int, positions: Sequence[int], where: str) -> None:
        super().__init__(destinations)
        self._keys_of = _key_column(positions)
        self._where = where
        self._memo: dict[Any, tuple[int, int]] = {}
        self._sent = [0] * destinations

    def route(self, rows: list[Values]) -> list[list[Values]]:
        if len(self._memo) >= _MEMO_ENTRIES:
            self._memo.clear()
        buckets = self._buckets()
        # All keys are hashed before any row is counted, so that a refused key leaves the counts unchanged.
        candidates = [self._candidates(key) for key in self._keys_of(rows)]
        sent = self._sent
        for row, (first, second) in zip(rows, candidates, strict=True):
            destination = first if sent[first] <= sent[second] else second
            sent[destination] += 1
            buckets[destination].append(row)
        return buckets

    def _candidates(self, key: Any) -> tuple[int, int]:
        try:
            known = self._memo.get(key)
            if known is not None:
                return known
            pair = self._choose(key)
            _remember(self._memo, key, pair)
            return pair
        except TypeError:  # as in fields grouping
            return self._choose(key)

    def _choose(self, key: Any) -> tuple[int, int]:
        key_hash, count = _hash(key, self._where), self._destinations
        first = destination_of(key_hash, count)
        step = destination_of(key_hash * _SECOND_SPREAD & 0xFFFFFFFF, count - 1)
        return first, (first + 1 + step) % count


class _DirectRouter(Router):
    def __init__(self, target_tasks: Sequence[int]) -> None:
        super().__init__(len(target_tasks))
        self._index_of = {task: index for index, task in enumerate(target_tasks)}

    def route(self, rows: list[Values]) -> list[list[Values]]:
        raise NotImplementedError  # the collector refuses such an emit

    def route_direct(self, rows: Iterable[tuple[int, Values]]) -> list[list[Values]]:
        buckets = self._buckets()
        index_of = self._index_of
        for task, row in rows:
            index = index_of.get(task)
            if index is not None:
                buckets[index].append(row)
        return buckets


class _CustomRouter(Router):
    def __init__(
        self,
        implementation: CustomStreamGrouping,
        stream: GlobalStreamId,
        target_tasks: Sequence[int],
        context: TopologyContext,
    ) -> None:
        super().__init__(len(target_tasks))
        self._implementation = implementation
        self._stream = stream
        self._task_id = context.this_task_id
        self._index_of = {task: index for index, task in enumerate(target_tasks)}
        implementation.prepare(context, stream, tuple(target_tasks))

    def route(self, rows: list[Values]) -> list[list[Values]]:
        buckets = self._buckets()
        choose, task_id, index_of = self._implementation.choose_tasks, self._task_id, self._index_of
        for row in rows:
            chosen = choose(task_id, row)
            try:
                for task in chosen:
                    buckets[index_of[task]].append(row)
            except (KeyError, TypeError):
                raise self._refusal(chosen) from None
        return buckets

    def _refusal(self, chosen: object) -> TopologyError:
        return TopologyError(
            f"{type(self._implementation).__name__}.choose_tasks returned {chosen!r} for stream "
            f"{self._stream.stream!r} of {self._stream.component!r}. Return a list of ids out of the target tasks "
            f"{list(self._index_of)}.",
            component=self._stream.component,
        )


def _hash(key: Any, where: str) -> int:
    try:
        return stable_hash(key)
    except UnsupportedValue as error:
        raise UnsupportedValue(f"{where}: {error.message}") from None


def _remember(memo: dict[Any, _V], key: Any, value: _V) -> None:
    if len(memo) < _MEMO_ENTRIES and _size(key) <= _MEMO_KEY_BYTES:
        memo[key] = value


def _size(key: Any) -> int:
    size = getsizeof(key)
    return size + sum(map(_size, key)) if isinstance(key, tuple) else size
