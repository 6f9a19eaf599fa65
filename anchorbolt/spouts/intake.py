"""The intake: the tuples that one task of a rich spout emitted for the next wave, encoded in columns."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, overload

from anchorbolt.errors import SerializationError
from anchorbolt.serialization import pack, unpack
from anchorbolt.streams.columns import size_of
from anchorbolt.streams.routing import Router

_FIRST_CAPACITY = 16  # tuples in the first chunk of a stream: small, because the tuples may be large
_MOST_TUPLES = 16_384

Routes = Sequence[tuple[Router, Sequence[int]]]
"""For each bolt that receives a stream: the router of an emitting task, and the ids of the bolt's tasks."""


class Chunk(NamedTuple):
    """Some tuples of one stream, encoded."""

    stream: str
    size: int  # number of tuples
    payload: bytes  # the packed columns
    msg_ids: Sequence[Any]  # one for each tuple; None for an untracked one
    since: float  # when the first tuple was emitted, in seconds of a monotonic clock

    @property
    def tracked_ids(self) -> list[Any]:
        """The message ids of the tracked tuples."""
        return [msg_id for msg_id in self.msg_ids if msg_id is not None]

    def columns(self) -> list[list[Any]]:
        """Decode the columns; the first column of a direct stream is the task ids. Raises `SerializationError`."""
        columns = unpack(self.payload)
        if not isinstance(columns, list) or any(len(column) != self.size for column in columns):
            raise SerializationError(f"a chunk of stream {self.stream!r} is damaged: its columns differ in length")
        return columns

    def without(self, dropped: Container[int]) -> Chunk:
        """Return the chunk without the tuples at these positions. Raises as `columns`."""
        kept = [position for position in range(self.size) if position not in dropped]
        payload = pack([[column[position] for position in kept] for column in self.columns()])
        return self._replace(size=len(kept), payload=payload, msg_ids=[self.msg_ids[each] for each in kept])


class StreamIntake:
    """The tuples of one stream that were emitted for one wave. Not thread-safe.

    The collector adds to `rows`, `msg_ids` and `size` itself. It calls `begin` before the first row of a chunk, and
    `pack` when there are `capacity` rows.
    """

    def __init__(
        self, stream: str, capacity: int, chunk_bytes: int, new_routes: Callable[[], Routes], clock: Callable[[], float]
    ) -> None:
        """Start empty. The first chunk has `capacity` tuples, later chunks have about `chunk_bytes` bytes."""
        self.stream = stream
        self.capacity = capacity or _FIRST_CAPACITY
        self.chunks: list[Chunk] = []
        self.size = 0  # number of tuples
        self.bytes = 0  # of the packed chunks
        self.since: float | None = None  # when the first tuple was emitted
        self.rows: list[Any] = []  # not packed yet
        self.msg_ids: list[Any] = []  # the ids of `rows`
        self._rows_since = 0.0
        self._clock = clock
        self._chunk_bytes = chunk_bytes
        self._new_routes = new_routes
        self._routes: Routes | None = None
        self._routed = 0  # number of rows that `_routes` has distributed

    def begin(self) -> None:
        """Record the current time as the emit time of the first unpacked row."""
        self._rows_since = self._clock()
        if self.since is None:
            self.since = self._rows_since

    def pack(self) -> None:
        """Encode the unpacked tuples. Raises `UnsupportedValue`."""
        rows = self.rows
        if not rows:
            return
        payload = pack([list(map(itemgetter(position), rows)) for position in range(len(rows[0]))])
        self.chunks.append(Chunk(self.stream, len(rows), payload, self.msg_ids, self._rows_since))
        self.bytes += len(payload)
        if len(payload) > self._chunk_bytes:
            self.capacity = max(1, len(rows) * self._chunk_bytes // len(payload))
        elif len(rows) >= self.capacity:
            self.capacity = min(self.capacity * 2, _MOST_TUPLES)
        self.rows, self.msg_ids = [], []

    def tasks_of(self, position: int) -> list[int]:
        """Return the ids of the tasks that receive a tuple. The distribution starts anew in each wave."""
        if self._routes is None or position < self._routed:
            self._routes, self._routed = self._new_routes(), 0
        waiting = list(self._from(self._routed, position))
        row = next(self._from(position, position + 1))
        self._routed = position + 1
        tasks = []
        for router, ids in self._routes:
            if waiting:
                router.route(len(waiting), list(zip(*waiting, strict=True)))
            shares = router.route(1, [[value] for value in row])
            tasks += [ids[index] for index, share in enumerate(shares) if size_of(share, 1)]
        return tasks

    def _from(self, start: int, stop: int) -> Iterator[Any]:
        """Yield the rows from one position to another."""
        first = 0
        for chunk in self.chunks:
            if start < first + chunk.size and first < stop:
                rows = list(zip(*chunk.columns(), strict=True))
                yield from rows[max(0, start - first) : stop - first]
            first += chunk.size
        if stop > first:
            yield from self.rows[max(0, start - first) : stop - first]


class TaskIds(Sequence[int]):
    """The ids of the tasks that receive a tuple. They are computed on first use."""

    __slots__ = ("_ids", "_intake", "_position")

    def __init__(self, intake: StreamIntake, position: int) -> None:
        self._intake = intake
        self._position = position
        self._ids: list[int] | None = None

    def _known(self) -> list[int]:
        if self._ids is None:
            self._ids = self._intake.tasks_of(self._position)
        return self._ids

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        return self._known()[index]

    def __len__(self) -> int:
        return len(self._known())

    def __eq__(self, other: object) -> bool:
        return list(other) == self._known() if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._known())
