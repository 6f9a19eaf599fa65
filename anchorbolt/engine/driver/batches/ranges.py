"""The coordinator of a `SparkTransactionalSpout`: the metadata of a batch is its range of offsets."""

from __future__ import annotations

from typing import Any

from anchorbolt.checkpoint.batches.metadata import packed_metadata
from anchorbolt.errors import TopologyError
from anchorbolt.serialization import pack, unpack
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout
from anchorbolt.spouts.transactional import TransactionalCoordinator
from anchorbolt.util.messages import shortened


class RangeCoordinator(TransactionalCoordinator):
    """Asks the spout how far the next batch goes."""

    def __init__(self, component: str, spout: SparkTransactionalSpout, session: Any) -> None:
        self._component = component
        self._spout = spout
        self._session = session
        self._start: Any = None
        self._found: tuple[Any, Any] | None = None  # the start and end of the batch that is ready

    def after(self, last_metadata: Any) -> None:
        self._start = self._end_of(last_metadata)

    def is_ready(self) -> bool:
        start, end = self._start, self._latest(self._start)
        self._found = (start, end)
        return bool(end != start)

    def initialize_transaction(self, txid: int, previous_metadata: Any) -> Any:
        start = self._end_of(previous_metadata)
        if self._found is None or self._found[0] != start:  # the batch begins again, and its range was not stored
            self._found = start, self._latest(start)
        (_, end), self._found = self._found, None
        return {"start": start, "end": end}

    def behind(self, last_metadata: Any) -> int | None:
        """Return how many offsets the source had behind a batch, as far as the spout tells."""
        return self._spout.behind(self._end_of(last_metadata))

    def close(self) -> None:
        self._spout.close()

    def _end_of(self, metadata: Any) -> Any:
        if metadata is None:
            return unpack(pack(self._spout.start))
        if not isinstance(metadata, dict) or metadata.keys() != {"start", "end"}:
            raise TopologyError(
                f"spout {self._component!r}: the last batch has the metadata {shortened(metadata, 200)}, as of another "
                f"spout than a {type(self._spout).__name__}. Give the topology another id to read all from the start.",
                component=self._component,
            )
        return metadata["end"]

    def _latest(self, start: Any) -> Any:
        """Return the end as it would be read from the store; `start` if there is nothing new."""
        # A copy: the spout may change what it gets.
        end = self._spout.latest(self._session, unpack(pack(start)))
        if end is None:
            return start
        return unpack(packed_metadata(self._component, end, pack(start), "latest"))
