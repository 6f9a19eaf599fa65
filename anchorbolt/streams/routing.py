"""Routing: shares out a buffer of emitted rows over the tasks of a receiving bolt, as its grouping says.

The hot path between two bolts, so everything is done by the buffer. Pure: never encodes a row, never does I/O.
"""

from __future__ import annotations

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
    LocalOrShuffleGrouping,
    NoneGrouping,
    PartialKeyGrouping,
    ShuffleGrouping,
)
from anchorbolt.streams.hashing import destination_of, destinations_of, stable_hash

Values = tuple[Any, ...]
_V = TypeVar("_V")

_MEMO_ENTRIES = 16_384
_MEMO_KEY_BYTES = 512
_SECOND_SPREAD = 0x85EBCA77
"""Another odd multiplier than `stable_hash` uses, for the second candidate of a partial key."""


class Router(ABC):
    """Shares out one stream of one emitting task over the tasks of one receiving bolt.

    Made by `make_router`, once for each (emitting task, stream, receiving bolt), and kept from buffer to buffer: it
    remembers the destinations of recent keys, at most 16,384 of them, and whose turn it is. Not thread-safe.
    """

    def __init__(self, destinations: int) -> None:
        self._destinations = destinations

    @abstractmethod
    def route(self, rows: list[Values]) -> list[list[Values]]:
        """Share out rows: one list for each destination index, each with its rows in their order.

        Lists may be empty, and may be `rows` itself or each other: treat them as read-only.

        Raises:
            UnsupportedValue: A row's key cannot be hashed. No row of the buffer counts as routed.
            TopologyError: The stream is direct, or a custom grouping named a task that is not the bolt's.
        """

    def route_direct(self, rows: Iterable[tuple[int, Values]]) -> list[list[Values]]:
        """Share out rows of a direct stream, each with the id of the task that it was emitted to.

        A row for another task than this bolt's is left out: it goes to another bolt that takes the same stream.

        Raises:
            TopologyError: The stream is not direct.
        """
        raise TopologyError(
            "Rows emitted by emit_direct came to a stream that is not direct. Declare it with "
            "direct=True, or use emit."
        )


def make_router(
    grouping: Grouping,
    *,
    stream: GlobalStreamId,
    fields: Sequence[str],
    target_tasks: Sequence[int],
    context: TopologyContext,
) -> Router:
    """Make the router for one stream that a task emits and one bolt that takes it.

    Args:
        grouping: How the bolt takes the stream.
        stream: The stream.
        fields: The stream's declared fields, in order.
        target_tasks: Ids of the bolt's tasks, in the order of their indexes.
        context: The emitting task's context. Its task index decides where a shuffle starts, so that the result
            depends on nothing but the rows.

    Raises:
        TopologyError: The grouping names a field that the stream does not declare.
    """
    destinations = len(target_tasks)
    if isinstance(grouping, (FieldsGrouping, PartialKeyGrouping)):
        positions = [_position(field, fields, stream, grouping) for field in grouping.fields]
        where = f"{grouping} on stream {stream.stream!r} of {stream.component!r}"
        if isinstance(grouping, FieldsGrouping):
            return _FieldsRouter(destinations, positions, where)
        return _PartialKeyRouter(destinations, positions, where)
    if isinstance(grouping, (ShuffleGrouping, NoneGrouping, LocalOrShuffleGrouping)):
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


def _position(field: str, fields: Sequence[str], stream: GlobalStreamId, grouping: Grouping) -> int:
    try:
        return tuple(fields).index(field)
    except ValueError:
        raise TopologyError(
            f"{grouping}: stream {stream.stream!r} of {stream.component!r} declares no field "
            f"{field!r}, but {', '.join(fields)}.",
            component=stream.component,
        ) from None


def _key_column(positions: Sequence[int]) -> Callable[[list[Values]], list[Any]]:
    """Return what takes the keys out of rows: the value of one field, or the tuple of several."""
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
        # Equal keys of different types (1, True, 1.0) share an entry; that is right, because they hash equal.
        self._memo: dict[Any, int] = {}

    def route(self, rows: list[Values]) -> list[list[Values]]:
        # Measured, ns a row: few keys 105 by the memo and 215 in bulk, a million keys 940 and 210. So a memo that
        # has filled up has shown that it does not pay.
        if len(self._memo) >= _MEMO_ENTRIES:
            return self._route_in_bulk(rows)
        try:
            return self._route_by_memo(rows)
        except TypeError:  # a key that no dict can look up, which `stable_hash` may take nevertheless
            return self._route_in_bulk(rows)

    def _route_by_memo(self, rows: list[Values]) -> list[list[Values]]:
        buckets: list[list[Values]] = [[] for _ in range(self._destinations)]
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
        buckets: list[list[Values]] = [[] for _ in range(self._destinations)]
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
        buckets: list[list[Values]] = [[] for _ in range(self._destinations)]
        # Hashed ahead of sending, so that a refused key leaves the counts as they were.
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
        raise TopologyError(
            "Rows emitted by emit came to a direct stream. Use emit_direct, which names the task, or "
            "declare the stream without direct=True."
        )

    def route_direct(self, rows: Iterable[tuple[int, Values]]) -> list[list[Values]]:
        buckets: list[list[Values]] = [[] for _ in range(self._destinations)]
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
        buckets: list[list[Values]] = [[] for _ in range(self._destinations)]
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
