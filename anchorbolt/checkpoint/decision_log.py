"""The checkpoint spout `$checkpointspout`: keeps the decision record, in the store and copied beside the source.

It is driven by the engine's waves and decides nothing itself: see `state` and `recovery` for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.recovery import check_generation, check_unchanged
from anchorbolt.errors import Fenced, StateRegressed, StateUnavailable
from anchorbolt.serialization import MsgpackCodec
from anchorbolt.state_backends.contract import START_OVER, Fence, NamespaceHead, StateStorage
from anchorbolt.state_backends.encoding import EntryEncoding

CHECKPOINT_SPOUT_ID = "$checkpointspout"
STATE_KEY = "__state"

LET_GO = 2**31 - 1
"""The `seq` of a decision record's fence whose driver has ended: no round has it, so that driver can write no more."""


class DecisionCopy(Protocol):
    """The second failure domain: a small file at the streaming query's checkpoint location.

    There is one per generation, because nothing fences off an older driver here.
    """

    def read(self) -> bytes | None:
        """Return what the highest generation wrote last, None if nothing was written."""

    def write(self, generation: int, data: bytes) -> None:
        """Replace a generation's copy, atomically and durably."""


class CheckpointSpout:
    """Reads and writes the decision record under the driver's fence."""

    def __init__(self, storage: StateStorage, copy: DecisionCopy) -> None:
        """Make the spout over its own namespace, which takes part in no transaction."""
        self._storage = storage
        self._copy = copy
        codec = MsgpackCodec()
        encoding = EntryEncoding(storage.namespace, codec, codec)
        self._header = encoding.header
        [self._key] = encoding.key_bytes([STATE_KEY])

    def claim(self) -> Fence:
        """Take a new generation; from here on an older driver is fenced off this record."""
        return self._storage.claim()

    def check_generation(self, heads: Mapping[str, NamespaceHead]) -> None:
        """Make sure that no namespace knows of a driver that this one does not: it claims first, then fences them.

        Args:
            heads: Where the namespaces stood, read before this call.

        Raises:
            StateRegressed: One does.
        """
        check_generation(self._storage.namespace, self._storage.head().fence.generation, heads)

    def load(self) -> tuple[DecisionRecord | None, DecisionRecord | None]:
        """Read the record in the store, and its copy; None where there is none.

        Raises:
            StateCorrupted: One of them is no record.
            StateUnavailable: The store cannot be asked, or the checkpoint location not be read.
        """
        try:
            copied = self._copy.read()  # first, so that it cannot be newer than the record
        except OSError as error:
            raise StateUnavailable(
                f"the copy of the last decision cannot be read from the checkpoint location: {error}. Make it readable."
            ) from error
        [stored] = self._storage.get_many([self._key])
        return (
            None
            if stored is None
            else DecisionRecord.decode(stored, f"namespace {self._storage.namespace!r}"),
            None if copied is None else DecisionRecord.decode(copied, "the checkpoint location"),
        )

    def write(self, fence: Fence, record: DecisionRecord) -> None:
        """Make a decision durable in the store.

        Raises:
            Fenced: A newer driver has claimed the topology.
            StateRegressed: The store does not know this driver's claim any more.
        """
        self.check_claim(fence)
        self._storage.write(fence, {self._key: record.encode()}, self._header)

    def check_claim(self, fence: Fence) -> None:
        """Make sure that no newer driver has claimed the topology, and that the store still knows this one's claim.

        Raises:
            Fenced: A newer driver has.
            StateRegressed: The store does not.
        """
        head = self._storage.head()
        if head.fence.generation < fence.generation:
            raise StateRegressed(
                f"namespace {self._storage.namespace!r} went back in time while the topology ran: expected generation "
                f"{fence.generation}, found {head.fence.generation}. Nothing was written. {START_OVER}; then start "
                "again.",
                namespace=self._storage.namespace,
                expected=f"generation {fence.generation}",
                found=f"generation {head.fence.generation}",
            )
        if head.fence > fence:
            raise Fenced(
                f"namespace {self._storage.namespace!r} is fenced at {tuple(head.fence)}, this driver has "
                f"{tuple(fence)}: another driver runs this topology.",
                namespace=self._storage.namespace,
            )

    def check_unchanged(self, fence: Fence, record: DecisionRecord) -> None:
        """Make sure that this driver is the last one to have claimed the topology, and to have decided anything.

        A store that went back to before this driver's claim gives its generation to the next driver as well, and no
        fence tells the two apart; the decisions do.

        Args:
            fence: This driver's.
            record: What it decided, or found, last.

        Raises:
            Fenced: A newer driver has claimed the topology.
            StateRegressed: The store does not know this driver's claim or decision any more.
        """
        try:
            stored, copied = self.load()
        finally:
            self.check_claim(fence)  # whatever was read: what a newer driver has written is no loss
        check_unchanged(record, stored, copied)

    def let_go(self, fence: Fence) -> None:
        """Say that this driver writes no more: nothing else tells a run that waits for input from one that has ended.

        Raises:
            Fenced: A newer driver has claimed the topology, and holds the fence.
            StateRegressed: The store does not know this driver's claim any more.
        """
        self.check_claim(fence)
        self._storage.raise_fence(Fence(fence.generation, LET_GO))

    def write_copy(self, fence: Fence, record: DecisionRecord) -> None:
        """Copy a decision, after it is durable in the store and before any task is told of it."""
        self._copy.write(fence.generation, record.encode())

    def close(self) -> None:
        """Close the namespace."""
        self._storage.close()
