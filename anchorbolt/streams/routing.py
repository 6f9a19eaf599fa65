"""Distributes a buffer of emitted tuples over the tasks of a receiving bolt, according to its grouping.

This is the hot path between two bolts, so it works on whole columns, and returns positions instead of tuples. Never
does I/O.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from anchorbolt.errors import TopologyError, UnsupportedValue
from anchorbolt.streams.columns import ALL, FEW, Coded, Column, as_list, coded, rows_of
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import GlobalStreamId, Grouping
from anchorbolt.streams.hashing import combined_hashes, destinations_of, hashes_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anchorbolt.streams.columns import Positions

_PAUSE = 32
"""After a column with few repeated values, the next so many buffers are not searched for them."""
_SECOND_SPREAD = 0x85EBCA77
"""An odd multiplier that `stable_hash` does not use, for the second candidate task of a partial key."""

_NONE = slice(0)


class Router(ABC):
    """Distributes one stream of one emitting task over the tasks of one receiving bolt: see `ROUTERS`.

    `fields` are the stream's declared fields, `target_tasks` the ids of the bolt's tasks by index. A shuffle starts at
    the emitting task's own index (from its `context`), so the same tuples are always distributed in the same way.

    A router is used for many buffers, and remembers the next task. Not thread-safe.
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
    def route(self, size: int, columns: list[Column], tasks: Sequence[int] = ()) -> Sequence[Positions]:
        """Return the positions of the tuples for each destination index, in ascending order.

        May replace a column of `columns` by another form of it. `tasks` has the tuples' task ids if the stream is
        direct; tuples for tasks of other bolts, which receive the same stream, are left out.

        Raises `UnsupportedValue` if a key cannot be hashed (the router's counters are then unchanged), and
        `TopologyError` if a custom grouping returned a task of another bolt.
        """


class _ShuffleRouter(Router):
    def __init__(self, grouping: Grouping, **edge: Any) -> None:
        super().__init__(grouping, **edge)
        self._next = self._context.this_task_index % self._destinations

    def route(self, size: int, columns: list[Column], tasks: Sequence[int] = ()) -> Sequence[Positions]:
        count, first = self._destinations, self._next
        if count == 1:
            return [ALL]
        if any(not isinstance(column, list | tuple) for column in columns):
            # Consecutive tuples: Arrow need not copy them.
            share, larger = divmod(size, count)
            self._next = (first + larger) % count
            found: list[Positions] = [_NONE] * count
            stop = 0
            for position in range(count):
                start, stop = stop, stop + share + (position < larger)
                found[(first + position) % count] = slice(start, stop)
            return found
        self._next = (first + size) % count
        return [slice((destination - first) % count, None, count) for destination in range(count)]


class _AllRouter(Router):
    def route(self, size: int, columns: list[Column], tasks: Sequence[int] = ()) -> Sequence[Positions]:
        return [ALL] * self._destinations


class _GlobalRouter(Router):
    def route(self, size: int, columns: list[Column], tasks: Sequence[int] = ()) -> Sequence[Positions]:
        return [ALL, *[_NONE] * (self._destinations - 1)]


class _ChainedRouter(Router):
    def route(self, size: int, columns: list[Column], tasks: Sequence[int] = ()) -> Sequence[Positions]:
        index = self._context.this_task_index
        return [ALL if each == index else _NONE for each in range(self._destinations)]


class _KeyRouter(Router):
    def __init__(self, grouping: Grouping, **edge: Any) -> None:
        super().__init__(grouping, **edge)
        self._positions = [self._fields.index(field) for field in self._grouping.fields]
        self._pauses = dict.fromkeys(self._positions, 0)

    def route(self, size: int, columns: list[Column], tasks: Sequence[int] = ()) -> Sequence[Positions]:
        try:
            if self._destinations == 1:
                self._hashes(columns)  # refuses what no key can be
                return [ALL]
            return _positions(self._chosen(self._hashes(columns)), self._destinations)
        except UnsupportedValue as error:
            where = f"{self._grouping} on stream {self._stream.stream!r} of {self._stream.component!r}"
            raise UnsupportedValue(f"{where}: {error.message}") from None

    @abstractmethod
    def _chosen(self, hashes: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Return the destination for each of these keys."""

    def _hashes(self, columns: list[Column]) -> NDArray[np.uint32]:
        return combined_hashes([self._hashes_at(columns, position) for position in self._positions])

    def _hashes_at(self, columns: list[Column], position: int) -> NDArray[np.uint32]:
        """Return the hash of each value of a column; hash a value that repeats itself only once."""
        column = columns[position]
        if self._pauses[position] and type(column) is not Coded:
            self._pauses[position] -= 1
        elif len(column) >= FEW:
            found = coded(column)
            if found is not None:
                if not hasattr(column, "dictionary"):  # a receiver gets the declared type
                    columns[position] = found
                return cast("NDArray[np.uint32]", hashes_of(found.values)[found.codes])
            self._pauses[position] = _PAUSE
        return hashes_of(as_list(column))


class _FieldsRouter(_KeyRouter):
    def _chosen(self, hashes: NDArray[np.uint32]) -> NDArray[np.intp]:
        return destinations_of(hashes, self._destinations)


class _PartialKeyRouter(_KeyRouter):
    def __init__(self, grouping: Grouping, **edge: Any) -> None:
        super().__init__(grouping, **edge)
        self._sent = [0] * self._destinations

    def _chosen(self, hashes: NDArray[np.uint32]) -> NDArray[np.intp]:
        import numpy as np

        count, sent = self._destinations, self._sent
        firsts = destinations_of(hashes, count)
        steps = destinations_of(hashes * np.uint32(_SECOND_SPREAD), count - 1)
        seconds = (firsts + 1 + steps) % count
        chosen = []
        for first, second in zip(firsts.tolist(), seconds.tolist(), strict=True):
            destination = first if sent[first] <= sent[second] else second
            sent[destination] += 1
            chosen.append(destination)
        return np.array(chosen, np.intp)


class _DirectRouter(Router):
    def route(self, size: int, columns: list[Column], tasks: Sequence[int] = ()) -> Sequence[Positions]:
        found: list[list[int]] = [[] for _ in range(self._destinations)]
        for position, task in enumerate(tasks):
            index = self._index_of.get(task)
            if index is not None:
                found[index].append(position)
        return _as_arrays(found)


class _CustomRouter(Router):
    def __init__(self, grouping: Grouping, **edge: Any) -> None:
        super().__init__(grouping, **edge)
        assert self._grouping.custom is not None
        self._custom = self._grouping.custom
        self._custom.prepare(self._context, self._stream, tuple(self._index_of))

    def route(self, size: int, columns: list[Column], tasks: Sequence[int] = ()) -> Sequence[Positions]:
        found: list[list[int]] = [[] for _ in range(self._destinations)]
        choose, task_id, index_of = self._custom.choose_tasks, self._context.this_task_id, self._index_of
        for position, row in enumerate(rows_of(size, columns)):
            chosen = choose(task_id, row)
            try:
                for task in chosen:
                    found[index_of[task]].append(position)
            except (KeyError, TypeError):
                raise TopologyError(
                    f"{type(self._custom).__name__}.choose_tasks returned {chosen!r} for stream "
                    f"{self._stream.stream!r} of {self._stream.component!r}. Return a list of ids out of the target "
                    f"tasks {list(index_of)}.",
                    component=self._stream.component,
                ) from None
        return _as_arrays(found)


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
    "chained": _ChainedRouter,  # instead of none or local-or-shuffle grouping, to a chained bolt
}


def _positions(chosen: NDArray[np.intp], destinations: int) -> list[Positions]:
    """Return the positions of each destination in `chosen`."""
    import numpy as np

    if destinations == 2:
        return [np.flatnonzero(chosen == 0), np.flatnonzero(chosen)]
    order = np.argsort(chosen.astype(np.uint16 if destinations <= 1 << 16 else np.uint32), kind="stable")
    ends = np.cumsum(np.bincount(chosen, minlength=destinations))
    return list(np.split(order, ends[:-1]))


def _as_arrays(found: Sequence[Sequence[int]]) -> list[Positions]:
    import numpy as np

    return [np.array(positions, np.intp) for positions in found]
