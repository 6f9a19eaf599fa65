"""The coordinator and the emitters of the spouts over Redis streams.

A partition is a stream, and its batch is a range of entry ids. Entries are only appended, each with a higher id than
all before. So once the end of a range was read, the range can lose entries, but never get new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from anchorbolt.bolts.batch import BatchOutputCollector
from anchorbolt.errors import StateRegressed, TopologyError
from anchorbolt.spouts.redis_arguments import values_of
from anchorbolt.spouts.transactional import (
    Emitter,
    OpaquePartitionedEmitter,
    PartitionedCoordinator,
    PartitionedEmitter,
)
from anchorbolt.state_backends.redis.addresses import RedisAddress
from anchorbolt.state_backends.redis.streams import FIRST, LAST, Entry, StreamRanges, id_parts, next_id
from anchorbolt.streams.attempt import TransactionAttempt
from anchorbolt.util.messages import shortened
from anchorbolt.util.retry import RetryPolicy

_PAGE = 1000  # entries in memory at a time


class BatchRange(NamedTuple):
    """The entries of one stream in one batch. Stored as a list, as the metadata of a partition."""

    key: str
    first: str  # ids, both included
    last: str
    entries: int


class StreamPartitions:
    """Reads the streams of a spout by batches. While Redis does not answer, every method waits for it.

    Methods raise `SourceUnavailable` if Redis has not answered for `topology.message.timeout.secs`, `ConfigError` if a
    key holds no stream or the login was refused, `TopologyError` if metadata belongs to another stream, and
    `StateRegressed` if entries of a batch are gone.
    """

    def __init__(
        self, spout: str, streams: Sequence[str], address: RedisAddress, conf: Mapping[str, Any], *, idempotent: bool
    ) -> None:
        """Connects on first use. With `idempotent`, a stream that was recreated is an error."""
        self._spout = spout
        self.streams = tuple(streams)
        self._idempotent = idempotent
        self._ranges = StreamRanges(address)
        self._retry = RetryPolicy(int(conf.get("topology.message.timeout.secs") or 30) * 1000)

    def range_of(self, partition: int, metadata: Any) -> BatchRange | None:
        """Return the range that metadata describes; None if the partition has had no batch."""
        if metadata is None:
            return None
        key = self.streams[partition]
        if not isinstance(metadata, list | tuple) or len(metadata) != len(BatchRange._fields) or metadata[0] != key:
            raise TopologyError(
                f"{self._spout}: partition {partition} is the stream {key!r}, but its last batch has the metadata "
                f"{shortened(metadata, 200)}, as of another stream or another spout. Pass `streams` in the order that "
                "earlier runs had, new streams after these; or give the topology another id to read all from the start."
            )
        return BatchRange(*metadata)

    def has_more(self, last_ranges: Mapping[int, BatchRange | None]) -> bool:
        """Return whether a stream has entries after its last batch. One round trip to each server."""
        positions = dict.fromkeys(self.streams, FIRST)
        for partition, last in last_ranges.items():
            if last is not None:
                positions[self.streams[partition]] = last.last
        ends = self._retry.until_available(partial(self._ranges.ends, positions, with_last_ids=self._idempotent))
        for key, end in ends.items():
            self._check_last_id(key, positions[key], end.last_id)
        return any(end.has_more for end in ends.values())

    def new_entries(self, partition: int, last: BatchRange | None, take: int) -> Iterator[list[Entry]]:
        """Yield the entries after the last batch in pages, at most `take` in all."""
        key, is_empty = self.streams[partition], True
        for page in self._pages(key, FIRST if last is None else next_id(last.last), LAST, take):
            is_empty = False
            yield page
        if is_empty and last is not None and self._idempotent:
            last_id = self._retry.until_available(partial(self._ranges.last_id, key))
            self._check_last_id(key, last.last, last_id)

    def entries_of(self, batch: BatchRange) -> Iterator[list[Entry]]:
        """Yield the remaining entries of a batch, in pages."""
        return self._pages(batch.key, batch.first, batch.last, None)

    def check_same(self, batch: BatchRange, found: BatchRange | None) -> None:
        """Raise `StateRegressed` unless the range `found` equals the batch."""
        if found == batch:
            return
        expected, there = _described(batch), "0 entries" if found is None else _described(found)
        raise StateRegressed(
            f"{self._spout}: a batch of the stream {batch.key!r} at {self._ranges} cannot be emitted again: it had "
            f"{expected}, and now there are {there}. Restore the entries, as from a backup, and start the topology "
            "again; or use OpaqueRedisTransactionalSpout, which reads on with the entries that are there.",
            expected=expected,
            found=there,
        )

    def close(self) -> None:
        """Close the connections."""
        self._ranges.close()

    def _pages(self, key: str, first: str, last: str, most: int | None) -> Iterator[list[Entry]]:
        while most is None or most > 0:
            wanted = _PAGE if most is None else min(_PAGE, most)
            page = self._retry.until_available(partial(self._ranges.read, key, first, last, wanted))
            if page:
                yield page
            if len(page) < wanted or page[-1][0] == last:
                return
            first = next_id(page[-1][0])
            most = None if most is None else most - len(page)

    def _check_last_id(self, key: str, position: str, last_id: str | None) -> None:
        if last_id is not None and id_parts(last_id) < id_parts(position):
            raise StateRegressed(
                f"{self._spout}: the last batch of the stream {key!r} at {self._ranges} ended with id {position}, but "
                f"the stream has had no id higher than {last_id}: it was deleted and made again, or is an older copy. "
                "Restore the stream, as from a backup, and start the topology again; or give the topology another id "
                "to read the stream from its start.",
                expected=position,
                found=last_id,
            )


class RedisCoordinator(PartitionedCoordinator):
    """Begins a batch when a stream has entries after the last batch."""

    def __init__(self, partitions: StreamPartitions) -> None:
        self._partitions = partitions
        self._last: dict[int, BatchRange | None] = {}

    def number_of_partitions(self) -> int:
        return len(self._partitions.streams)

    def after(self, last_metadata: Mapping[int, Any] | None) -> None:
        """Called before each `is_ready`, with the metadata of each partition's last batch, if any."""
        given = last_metadata or {}
        self._last = {partition: self._partitions.range_of(partition, given[partition]) for partition in given}

    def is_ready(self) -> bool:
        return self._partitions.has_more(self._last)

    def close(self) -> None:
        self._partitions.close()


class StreamEmission:
    """Emits the entries of batches as tuples, page by page."""

    def __init__(self, partitions: StreamPartitions, fields: Sequence[str], *, decode: bool, take: int) -> None:
        self._partitions = partitions
        self._values = values_of([name.encode() for name in fields], decode)
        self._take = take

    def emit_new(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, partition: int, last_metadata: Any
    ) -> Any:
        """Emit the entries after the last batch; return their metadata, or `last_metadata` if there are none."""
        last = self._partitions.range_of(partition, last_metadata)
        pages = self._partitions.new_entries(partition, last, self._take)
        emitted = self._emit(attempt, collector, self._partitions.streams[partition], pages)
        return last_metadata if emitted is None else list(emitted)

    def emit_again(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, partition: int, metadata: Any
    ) -> None:
        """Emit the entries of a batch. Raises `StateRegressed` if one is missing."""
        batch = self._partitions.range_of(partition, metadata)
        if batch is not None:
            emitted = self._emit(attempt, collector, batch.key, self._partitions.entries_of(batch))
            self._partitions.check_same(batch, emitted)

    def close(self) -> None:
        self._partitions.close()

    def _emit(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, key: str, pages: Iterator[list[Entry]]
    ) -> BatchRange | None:
        emit, values = collector.emit, self._values
        emitted = None
        for page in pages:
            for _, fields in page:
                emit((attempt, *values(fields)))
            first, count = (page[0][0], 0) if emitted is None else (emitted.first, emitted.entries)
            emitted = BatchRange(key, first, page[-1][0], count + len(page))
        return emitted


class _StreamEmitter(Emitter):
    """Emits new batches, for both spouts."""

    def __init__(self, emission: StreamEmission) -> None:
        self._emission = emission

    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, partition: int, last_metadata: Any
    ) -> Any:
        return self._emission.emit_new(attempt, collector, partition, last_metadata)

    def close(self) -> None:
        self._emission.close()


class RedisEmitter(_StreamEmitter, PartitionedEmitter):
    """Emits each batch identically, or raises `StateRegressed`."""

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchOutputCollector, partition: int, metadata: Any
    ) -> None:
        self._emission.emit_again(attempt, collector, partition, metadata)


class OpaqueRedisEmitter(_StreamEmitter, OpaquePartitionedEmitter):
    """Emits the entries after the last committed batch. Each try reads them again, so it may find other entries."""


def _described(batch: BatchRange) -> str:
    return f"{batch.entries} {'entry' if batch.entries == 1 else 'entries'} with ids from {batch.first} to {batch.last}"
