"""The metadata of batches: its form, its checks, and the slots that hold it. Pure.

The decision record holds the metadata of the last committed batch. The batches behind it are kept in slots beside the
record, one for each batch in flight: a slot is used again once its batch has committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from anchorbolt.errors import SerializationError, StateCorrupted, TopologyError, UnsupportedValue
from anchorbolt.serialization import pack, unpack
from anchorbolt.state_backends.contract import START_OVER
from anchorbolt.util.messages import shortened

LARGEST_METADATA = 256 << 10
"""The largest metadata of a batch, in packed bytes: all partitions together."""


@dataclass(frozen=True)
class BatchMetadata:
    """The metadata of one batch, each value packed."""

    txid: int
    whole: bytes | None = None  # of a spout whose coordinator decides on the whole batch
    number_of_partitions: int = 0  # 0 if the spout has none
    # By partition: the metadata of its latest batch, which is this one or an earlier one.
    partitions: Mapping[int, bytes] = field(default_factory=dict)
    emitted: frozenset[int] = frozenset()  # the partitions that have a part of this batch

    def encode(self) -> bytes:
        return pack([self.txid, self.whole, self.number_of_partitions, dict(self.partitions), sorted(self.emitted)])

    @classmethod
    def decode(cls, data: bytes) -> BatchMetadata:
        """Decode what `encode` returned. Raises `StateCorrupted`."""
        try:
            txid, whole, number, partitions, emitted = unpack(data)
            return cls(
                int(txid),
                None if whole is None else memoryview(whole).tobytes(),
                int(number),
                {int(partition): memoryview(each).tobytes() for partition, each in partitions.items()},
                frozenset(map(int, emitted)),
            )
        except (SerializationError, TypeError, ValueError, AttributeError) as error:
            raise StateCorrupted(f"the stored metadata of a batch cannot be read: {error}. {START_OVER}.") from error

    def values(self) -> Any:
        """Return the plain values as a coordinator gets them: of the whole batch, or by partition."""
        if self.number_of_partitions:
            return {partition: unpack(each) for partition, each in self.partitions.items()}
        return None if self.whole is None else unpack(self.whole)


NO_BATCH = BatchMetadata(0)
"""Before the first batch."""


def packed_metadata(spout: str, metadata: Any, last: bytes | None, where: str) -> bytes:
    """Pack what a spout returned as metadata; `last` is the packed metadata before, if there is any.

    Raises `TopologyError` if it cannot be encoded, is too large, or has another type than the metadata before.
    """
    try:
        packed = pack(metadata)
    except UnsupportedValue as error:
        raise TopologyError(
            f"spout {spout!r}: the metadata that {where} returned cannot be encoded: {error.message} "
            f"Got {shortened(metadata)}. Return plain values, such as numbers, text, lists and dicts.",
            component=spout,
        ) from error
    check_size(spout, f"the metadata that {where} returned", len(packed))
    before = None if last is None else unpack(last)
    if before is not None and metadata is not None and type(before) is not type(unpack(packed)):
        raise TopologyError(
            f"spout {spout!r}: {where} returned {shortened(metadata)}, a {type(metadata).__name__}, as metadata; that "
            f"of the batch before is {shortened(before)}, a {type(before).__name__}. Return metadata of one type. To "
            "continue with another type, give the topology a new id.",
            component=spout,
        )
    return packed


def check_size(spout: str, what: str, size: int) -> None:
    """Raise `TopologyError` if metadata of so many bytes is too large."""
    if size > LARGEST_METADATA:
        raise TopologyError(
            f"spout {spout!r}: {what} has {size:,} bytes; the most is {LARGEST_METADATA:,} in a batch. Return from "
            "where to where the batch goes, not its tuples.",
            component=spout,
        )


class Slots:
    """The slots of the batches in flight: never more than were in flight at a time, in this run or an earlier one."""

    def __init__(self, stored: Mapping[int, bytes], committed: int) -> None:
        """Take over what an earlier run has stored; `committed` is the last committed txid.

        Raises `StateCorrupted` if a slot cannot be read.
        """
        batches = {slot: BatchMetadata.decode(data) for slot, data in stored.items()}
        self._txids = {slot: batch.txid for slot, batch in batches.items()}
        self.found = {batch.txid: batch for batch in batches.values() if batch.txid > committed}

    def slot_of(self, txid: int, committed: int) -> int:
        """Return the slot of a batch: its own if it has one, or one of a committed batch, or a new one."""
        own = (slot for slot, holder in self._txids.items() if holder == txid)
        slot = next(own, None)
        if slot is None:
            free = (slot for slot, holder in sorted(self._txids.items()) if holder <= committed)
            slot = next(free, None)
        if slot is None:
            slot = next(number for number in count() if number not in self._txids)
        self._txids[slot] = txid
        return slot
