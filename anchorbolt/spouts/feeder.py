"""A spout that a test feeds with batches. It runs on the local engine only."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from anchorbolt.errors import TopologyError
from anchorbolt.spouts.base import Spout
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.util.messages import shortened


class FeederSpout(Spout):
    """Emits the rows that you feed it: each `feed` is one batch, and so one wave.

    The spout keeps a batch until its wave is committed, and replays it if the wave fails. Runs on `LocalCluster` only.
    Thread-safe: feed it before or while the topology runs.
    """

    def __init__(self, fields: Sequence[str], batches: Iterable[Iterable[Sequence[Any]]] = ()) -> None:
        """Create a spout with these fields, and `feed` it each of these batches.

        Raises:
            TopologyError: `fields` is not a list of names, or `batches` are not batches of rows.
        """
        if isinstance(fields, str) or not fields:
            raise TopologyError(f"FeederSpout: fields is {fields!r}. Pass a list of names.")
        self.fields = tuple(fields)
        self.on_feed: Callable[[], None] | None = None  # set by the engine: called after each `feed`
        self._lock = threading.Lock()
        self._batches: deque[list[tuple[Any, ...]]] = deque()
        self._taken: tuple[int, list[tuple[Any, ...]]] | None = None
        for batch in self._each("the batches are", batches):
            self.feed(batch)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the default stream with the given fields."""
        declarer.declare(*self.fields)

    def feed(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add a batch of rows. Each row is a tuple or list with one value per field.

        Raises:
            TopologyError: A row is not a tuple or list, or has a wrong number of values. No row of the batch was added.
        """
        batch = [self._row(row) for row in self._each("a batch is", rows)]
        with self._lock:
            self._batches.append(batch)
        if self.on_feed is not None:
            self.on_feed()

    def is_waiting(self) -> bool:
        """Return whether there is a batch to take. For the engine."""
        return bool(self._batches)

    def take(self, number: int) -> list[tuple[Any, ...]]:
        """Take the oldest batch, or an empty list, for the wave `number`, until `settle`. For the engine."""
        with self._lock:
            batch = self._batches.popleft() if self._batches else []
            self._taken = (number, batch)
            return batch

    def settle(self, committed: int) -> None:
        """Forget a batch taken for a wave up to `committed`; put back a later wave's batch. For the engine."""
        with self._lock:
            if self._taken is not None and self._taken[0] > committed and self._taken[1]:
                self._batches.appendleft(self._taken[1])
            self._taken = None

    def _each(self, what: str, given: Iterable[Any]) -> Iterable[Any]:
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            raise self._refusal(f"{what} {shortened(given, 100)}")
        return given

    def _row(self, row: Sequence[Any]) -> tuple[Any, ...]:
        if not isinstance(row, tuple | list):
            raise self._refusal(f"a row is {shortened(row, 100)}")
        if len(row) != len(self.fields):
            raise self._refusal(f"{shortened(row, 100)} has {len(row)} values for the fields {', '.join(self.fields)}")
        return tuple(row)

    def _refusal(self, given: str) -> TopologyError:
        row = f"({', '.join(self.fields)},)" if len(self.fields) == 1 else f"({', '.join(self.fields)})"
        return TopologyError(
            f"FeederSpout: {given}. Pass batches of rows, each row a tuple or list with one value per field: "
            f"FeederSpout({list(self.fields)}, [[{row}, …], …]), or feed([{row}, …])."
        )
