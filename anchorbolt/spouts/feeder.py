"""A spout that a program feeds by hand, for a topology's tests on the local engine."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from anchorbolt.errors import TopologyError
from anchorbolt.spouts.base import Spout
from anchorbolt.streams import OutputFieldsDeclarer

__all__ = ["FeederSpout"]


class FeederSpout(Spout):
    """Emits what it is fed: each `feed` is one batch, and so one wave.

    A batch is kept until its wave is committed, so that it is replayed when the wave fails. Runs on `LocalCluster`
    only. Thread-safe: feed it before or while the topology runs.
    """

    def __init__(self, fields: Sequence[str], batches: Iterable[Iterable[Sequence[Any]]] = ()) -> None:
        """Make a spout with these fields, fed with these batches."""
        if isinstance(fields, str) or not fields:
            raise TopologyError(f"FeederSpout: fields is {fields!r}. Pass a list of names.")
        self.fields = tuple(fields)
        self.arrived = threading.Condition()
        self._batches: deque[list[tuple[Any, ...]]] = deque()
        self._taken: tuple[int, list[tuple[Any, ...]]] | None = None
        for batch in batches:
            self.feed(batch)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the default stream with the given fields."""
        declarer.declare(*self.fields)

    def feed(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add a batch of tuples, each with one value per field.

        Raises:
            TopologyError: A row has another number of values.
        """
        batch = [tuple(row) for row in rows]
        for row in batch:
            if len(row) != len(self.fields):
                raise TopologyError(
                    f"FeederSpout: {row!r} has {len(row)} values for the fields "
                    f"{', '.join(self.fields)}. Pass one value per field."
                )
        with self.arrived:
            self._batches.append(batch)
            self.arrived.notify_all()

    def is_waiting(self) -> bool:
        """Say whether there is a batch to take. For the engine."""
        return bool(self._batches)

    def take(self, number: int) -> list[tuple[Any, ...]]:
        """Take the oldest batch, or nothing, as the wave `number`'s, until `settle`. For the engine."""
        with self.arrived:
            batch = self._batches.popleft() if self._batches else []
            self._taken = (number, batch)
            return batch

    def settle(self, committed: int) -> None:
        """Forget what was taken for waves up to `committed`; what was taken for a later one waits again."""
        with self.arrived:
            if self._taken is not None and self._taken[0] > committed and self._taken[1]:
                self._batches.appendleft(self._taken[1])
            self._taken = None
