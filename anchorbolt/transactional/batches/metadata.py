"""The metadata of batches: its form, its checks, and the slots that store it. Pure.

The decision record holds the metadata of the last committed batch. Later batches are stored in slots beside the record,
one for each batch in flight. A slot is reused once its batch has committed.
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
"""The size limit of a batch's metadata, in packed bytes, for all partitions together."""


@dataclass(frozen=True)
class BatchMetadata:
    """The metadata of one batch, each value packed."""

    txid: int
    whole: bytes | None = None  # if the spout's coordinator decides on the whole batch
    number_of_partitions: int = 0  # 0 if the spout has none
    # By partition: the metadata of its latest batch, which is this one or an earlier one.
    partitions: Mapping[int, bytes] = field(default_factory=dict)
    emitted: frozenset[int] = frozenset()  # the partitions with a part of this batch

    def encode(self) -> bytes:
        return pack([self.txid, self.whole, self.number_of_partitions, dict(self.partitions), sorted(self.emitted)])

    @classmethod
    def decode(cls, data: bytes) -> BatchMetadata:
        """Decode the result of `encode`. Raises `StateCorrupted`."""
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
        """Return the plain values for a coordinator: of the whole batch, or by partition."""
        if self.number_of_partitions:
            return {partition: unpack(each) for partition, each in self.partitions.items()}
        return None if self.whole is None else unpack(self.whole)


NO_BATCH = BatchMetadata(0)
"""Before the first batch."""


def packed_metadata(spout: str, metadata: Any, last: bytes | None, where: str) -> bytes:
    """Pack the metadata that a spout returned; `last` is the packed metadata of the batch before, if any.

    Raises `TopologyError` if it cannot be encoded, is too large, or has another type than `last`.
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
    """Raise `TopologyError` if metadata of `size` bytes is too large."""
    if size > LARGEST_METADATA:
        raise TopologyError(
            f"spout {spout!r}: {what} has {size:,} bytes; the most is {LARGEST_METADATA:,} in a batch. Return from "
            "where to where the batch goes, not its tuples.",
            component=spout,
        )


class Slots:
    """The slots of the batches in flight: at most as many as were in flight at a time in this or an earlier run."""

    def __init__(self, stored: Mapping[int, bytes], committed: int) -> None:
        """Take over the slots of an earlier run; `committed` is the last committed txid.

        Raises `StateCorrupted` if a slot cannot be read.
        """
        batches = {slot: BatchMetadata.decode(data) for slot, data in stored.items()}
        self._txids = {slot: batch.txid for slot, batch in batches.items()}
        self.found = {batch.txid: batch for batch in batches.values() if batch.txid > committed}

    def slot_of(self, txid: int, committed: int) -> int:
        """Return the slot of a batch: its own slot, or that of a committed batch, or a new one."""
        own = (slot for slot, holder in self._txids.items() if holder == txid)
        slot = next(own, None)
        if slot is None:
            free = (slot for slot, holder in sorted(self._txids.items()) if holder <= committed)
            slot = next(free, None)
        if slot is None:
            slot = next(number for number in count() if number not in self._txids)
        self._txids[slot] = txid
        return slot
