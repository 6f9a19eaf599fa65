"""Calls the coordinator of a transactional topology's spout, and checks its results."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from anchorbolt.errors import AnchorboltError, TopologyError
from anchorbolt.serialization import pack, unpack
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout
from anchorbolt.spouts.transactional import BatchSpout, Coordinator, TransactionalCoordinator, kind_of
from anchorbolt.streams.context import TopologyContext
from anchorbolt.transactional.batches.metadata import BatchMetadata, packed_metadata
from anchorbolt.transactional.batches.spout_calls import called, made
from anchorbolt.util.messages import shortened

_log = logging.getLogger("anchorbolt.engine")


class RangeCoordinator(TransactionalCoordinator):
    """Asks the spout where the next batch ends."""

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
        if self._found is None or self._found[0] != start:  # the batch begins again without a stored range
            self._found = start, self._latest(start)
        (_, end), self._found = self._found, None
        return {"start": start, "end": end}

    def behind(self, last_metadata: Any) -> int | None:
        """Return how many offsets the source had after a batch; None if the spout does not report it."""
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
        """Return the end of the next batch, as the store would return it; `start` if there is nothing new."""
        # A copy: the spout may change its argument.
        end = self._spout.latest(self._session, unpack(pack(start)))
        if end is None:
            return start
        return unpack(packed_metadata(self._component, end, pack(start), "latest"))


class BatchCoordinator:
    """The coordinator of one run. Its calls never overlap."""

    def __init__(
        self, component: str, spout: BatchSpout, conf: Mapping[str, Any], context: TopologyContext, session: Any = None
    ) -> None:
        """Make the coordinator. Raises `SpoutError` if the spout raises or does not return a coordinator.

        `session` is the Spark session, for a spout that reads with it.
        """
        self._task = component, 0
        kind = kind_of(spout)
        assert kind is not None, "the builder refuses any other spout"
        self.is_opaque, self.is_partitioned = kind.is_opaque, kind.is_partitioned
        if isinstance(spout, SparkTransactionalSpout):
            self._source: Any = RangeCoordinator(component, spout, session)
        else:
            assert kind.coordinator is not None
            make = spout.coordinator  # type: ignore[attr-defined]
            self._source = made(self._task, "coordinator", kind.coordinator, make, conf, context)

    @property
    def can_tell(self) -> bool:
        """Whether the coordinator has its own `is_ready`, which says when a batch may begin."""
        return type(self._source).is_ready is not Coordinator.is_ready

    def is_ready(self, last: BatchMetadata) -> bool:
        """Return whether a batch may begin after `last`."""
        values = last.values()
        self._called("after", values or None if self.is_partitioned else values)
        return bool(self._called("is_ready"))

    def new_batch(self, last: BatchMetadata) -> BatchMetadata:
        """Return the metadata of the batch after `last`; its emitters may complete it.

        Raises `TopologyError` if the coordinator's result cannot be used.
        """
        txid = last.txid + 1
        if not self.is_partitioned:
            # A copy: the coordinator may change its argument.
            metadata = self._called("initialize_transaction", txid, last.values())
            return BatchMetadata(txid, packed_metadata(self._task[0], metadata, last.whole, "initialize_transaction"))
        number: object = self._called("number_of_partitions")
        if type(number) is not int or number < 1:
            raise self._refusal(
                f"number_of_partitions returned {shortened(number)}. Return a whole number of at least 1."
            )
        if number < last.number_of_partitions:
            raise self._refusal(
                f"number_of_partitions returned {number}, but batch {last.txid} had {last.number_of_partitions}: what "
                "the missing partitions still hold would be lost. Bring them back. A partition that is away for some "
                "batches keeps its number, and emits nothing meanwhile."
            )
        return BatchMetadata(txid, number_of_partitions=number, partitions=last.partitions)

    def behind(self, last: BatchMetadata) -> int | None:
        """Return how many offsets the source had after a batch when it was last asked; None if unknown."""
        if not isinstance(self._source, RangeCoordinator):
            return None
        try:
            behind: int | None = self._called("behind", last.values())
        except AnchorboltError as error:
            _log.debug("the backlog of spout %r is not known: %s", self._task[0], error)
            return None
        return behind

    def close(self) -> None:
        """Close the coordinator. An error in its `close` is logged."""
        try:
            self._called("close")
        except AnchorboltError as error:
            spout = self._task[0]
            _log.warning("closing the coordinator of spout %r: %s", spout, error, extra={"component": spout})

    def _called(self, hook: str, *arguments: Any) -> Any:
        return called(self._task, hook, getattr(self._source, hook), *arguments)

    def _refusal(self, problem: str) -> TopologyError:
        return TopologyError(f"spout {self._task[0]!r}: {problem}", component=self._task[0])
