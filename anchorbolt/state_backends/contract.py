"""The contract of a state backend: namespaces of bytes, moved from one committed transaction to the next.

A backend is a `StateProvider` that opens one `StateStorage` per namespace. A storage knows no Python values (see
`key_value` for those), no topology and no Spark. It holds, per namespace:

- the committed data, key to value, of transaction `committed`, which came from the attempt `winner`;
- the **fence**: the highest (generation, seq) that has written here. A call with a lower one is refused atomically,
  with `Fenced`, and has no effect; an equal or a higher one is accepted, and a higher one raises the fence;
- staged **attempts**, each with its own updates, invisible until one of them is committed.

Every call may be repeated with the same arguments (a client re-sends after a timeout) and then changes nothing
further. An error never says that nothing happened, unless its class is `Fenced`, `StaleAttempt` or `StateRegressed`.
Proved equal for all backends by `anchorbolt.testing.conformance` and `anchorbolt.testing.agreement`, which are there
for the authors of further ones, as are the rules in `rules`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

from anchorbolt.state_backends.packed_updates import packed_updates
from anchorbolt.state_backends.scope import NO_FENCE, NOTHING_COMMITTED, Fence
from anchorbolt.state_backends.state import State
from anchorbolt.streams.context import TopologyContext

__all__ = [
    "CHECKSUM_FACTOR",
    "NOTHING_COMMITTED",
    "NO_FENCE",
    "START_OVER",
    "Fence",
    "NamespaceHead",
    "ReadPosition",
    "Seal",
    "SizeLimits",
    "StagedAttempt",
    "StagedSlice",
    "StateProvider",
    "StateStorage",
]

CHECKSUM_FACTOR = 1_000_003
"""What an attempt's checksum is multiplied by before the next slice's is added, modulo 2^32."""

START_OVER = (
    "Restore the store and the checkpoint location from backups of one moment; or, to start over without the state, "
    "delete both"
)
"""What to do where the store holds something else than was written, for messages."""


class Seal(NamedTuple):
    """What an attempt staged, as its writer counted it.

    Attributes:
        slices: How many calls of `stage` made up the attempt.
        checksum: The checksums of all slices, put together by `StagedSlice.checksum_after`.
    """

    slices: int
    checksum: int


@dataclass(frozen=True)
class SizeLimits:
    """The largest entry that a store takes, so that a larger one can be refused before anything is written.

    Attributes:
        key: Bytes of the largest key.
        value: Bytes of the largest value.
        advice: What raises the limit on values, for messages: a sentence without a full stop.
    """

    key: int
    value: int
    advice: str


class ReadPosition(NamedTuple):
    """Where a reader knows a namespace to stand, so that it is given nothing that belongs elsewhere.

    Attributes:
        committed: The committed txid; -1 where nothing is committed.
        winner: The attempt that `committed` came from; empty where nothing is.
        staged: What `stage` returned last for the attempt that is read under: that, or more, must be staged. None
            without an attempt.
    """

    committed: int = NOTHING_COMMITTED
    winner: str = ""
    staged: Seal | None = None


@dataclass(frozen=True)
class StagedSlice:
    """One slice of an attempt's updates, which one call of `stage` carries.

    The updates are packed here, once; a store keeps `packed` as it is, or `updates`, and never computes a checksum.
    """

    fence: Fence
    txid: int  # the transaction to commit
    attempt: str
    base: int  # the committed txid that the updates are based on
    number: int  # 0, 1, 2, … without a gap
    updates: Mapping[
        bytes, bytes | None
    ]  # None deletes; may be empty; some thousand updates and some MiB at most
    codec: str  # the format header; the first writer of a namespace sets it
    packed: bytes = field(init=False, repr=False)  # see `packed_updates`
    checksum: int = field(init=False, repr=False)  # CRC-32 of `packed`

    def __post_init__(self) -> None:
        packed = packed_updates(self.updates)
        object.__setattr__(self, "packed", packed)
        object.__setattr__(self, "checksum", crc32(packed))

    def checksum_after(self, before: int) -> int:
        """Return the checksum of the attempt with this slice; `before` is that without it, 0 if this is the first.

        A store that compares in a language of its own computes the same: no number is above 2^53.
        """
        return (before * CHECKSUM_FACTOR + self.checksum) % 2**32


@dataclass(frozen=True)
class StagedAttempt:
    """One attempt that is staged in a namespace.

    Attributes:
        txid: The transaction that it would commit.
        base: The committed txid that its updates are based on.
        fence: The fence that it was staged under.
        seal: What was sealed, or None while it is not sealed.
    """

    txid: int
    base: int
    fence: Fence
    seal: Seal | None


@dataclass(frozen=True)
class NamespaceHead:
    """Where a namespace stands. One consistent reading.

    Attributes:
        fence: The highest fence seen; `Fence(0, 0)` in a new namespace.
        committed: The committed txid, -1 in a new namespace.
        winner: The attempt that `committed` came from; empty in a new namespace.
        codec: Format header of the data, as given to the first `stage` or `write`; empty until then.
        attempts: What is staged, by attempt id.
    """

    fence: Fence = NO_FENCE
    committed: int = NOTHING_COMMITTED
    winner: str = ""
    codec: str = ""
    attempts: Mapping[str, StagedAttempt] = field(default_factory=dict)


class StateStorage(ABC):
    """One namespace of a store. Not thread-safe; opened in the process that uses it, after any fork.

    Keys and values are any bytes, values may be empty. Attempt ids are 32 lower-case hexadecimal digits.

    All methods raise `StateUnavailable` where the store cannot be reached, within the configured timeout, and
    `StateCorrupted` where the metadata of the namespace cannot be read.
    """

    namespace: str

    limits: SizeLimits | None = None
    """The largest entry that the store takes; None where it takes whatever fits into memory."""

    @abstractmethod
    def head(self) -> NamespaceHead:
        """Read where the namespace stands, without raising its fence. Creates nothing."""

    @abstractmethod
    def claim(self) -> Fence:
        """Atomically raise the fence to (generation + 1, 0) and return it. No two callers get the same."""

    @abstractmethod
    def raise_fence(self, fence: Fence) -> NamespaceHead:
        """Raise the fence to `fence`, then read where the namespace stands.

        Raises:
            Fenced: `fence` is lower than the namespace's.
        """

    @abstractmethod
    def get_many(
        self, keys: Sequence[bytes], attempt: str | None = None, at: ReadPosition | None = None
    ) -> list[bytes | None]:
        """Read the values of `keys`, in their order, None for an absent one; a few round trips at most.

        With `attempt`, what that attempt staged lies over the committed data (a staged delete gives None).

        With `at`, the values are those of a namespace that stands there, or they are refused. Where the namespace
        stands is read in the same step as the values, with each part of them: a store that is put back from the past
        and then mended, between two looks at the metadata, must not pass its old values off as the newest.

        Raises:
            StaleAttempt: The namespace does not stand at `at`. One to which a commit is half applied still stands where
                it did before: the driver finishes it, and a hook may read meanwhile.
        """

    @abstractmethod
    def scan(
        self, attempt: str | None = None, page_size: int = 1000, at: ReadPosition | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield all entries in pages of about `page_size`, in any order, each entry once.

        With `attempt`, what that attempt staged lies over the committed data. Entries are exact as long as nobody
        commits meanwhile. With `at`, as in `get_many`, each page is of a namespace that stands there, as is the end.

        Raises:
            StaleAttempt: When a page is taken: the namespace does not stand at `at`. A scan of one snapshot looks again
                for each page, too.
        """

    @abstractmethod
    def stage(self, staged: StagedSlice) -> Seal:
        """Add one slice of updates to an attempt; the first slice (number 0) starts it.

        Returns what the attempt consists of so far, to be handed to `seal` after the last slice.

        A key that occurs in several slices has the value of the last one. Starting an attempt drops every staged
        attempt whose fence is lower than the slice's. A repeated slice, by its number, is accepted and ignored when it
        is the latest one and its checksum is equal.

        Raises:
            Fenced: The slice's fence is lower than the namespace's.
            StaleAttempt: The slice's base is not the committed txid, the attempt is known with another txid or base,
                is sealed already, or the slice is out of order.
            CodecMismatch: The namespace has another format header.
        """

    @abstractmethod
    def seal(self, fence: Fence, attempt: str, seal: Seal) -> None:
        """Close an attempt after its last slice. Only a sealed attempt can be committed.

        Raises:
            Fenced: `fence` is lower than the namespace's.
            StaleAttempt: The attempt is not staged, or the store counted other slices than `seal` says.
        """

    @abstractmethod
    def commit(self, fence: Fence, txid: int, attempt: str) -> None:
        """Make the sealed attempt the committed data of `txid`; drop every other staged attempt.

        Repeated after it finished it changes nothing, and repeated after it was cut off it finishes. Readers see a
        half-applied commit only while the driver is between its decision and COMMITTED.

        Raises:
            Fenced: `fence` is lower than the namespace's.
            StaleAttempt: The attempt is not sealed, has another txid, or its base is not the committed txid; or
                `txid` is committed already from another attempt.
            StateRegressed: The attempt is unknown here and `txid` is not committed.
        """

    @abstractmethod
    def rollback(self, fence: Fence) -> int:
        """Drop every staged attempt, raise the fence, and return how many attempts were dropped.

        Never called while a commit is decided and unfinished. A half-applied commit is not undone by it: such a
        namespace refuses with `StaleAttempt`.
        """

    @abstractmethod
    def write(self, fence: Fence, items: Mapping[bytes, bytes], codec: str) -> None:
        """Put entries straight into the committed data, atomically and durably, leaving txid and winner alone.

        Only for the decision record, whose namespace takes part in no transaction.

        Raises:
            Fenced: `fence` is lower than the namespace's.
            CodecMismatch: The namespace has another format header.
        """

    def count(self) -> int | None:
        """Return how many entries are committed, where the store can say so at once; None where it cannot.

        For progress only: nothing relies on it.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Let go of connections and files. The storage is not used again; may be called twice."""


class StateProvider(ABC):
    """A store of many namespaces. Picklable: it crosses to Spark workers and opens its connections there.

    Its `repr` and its errors never hold a password.
    """

    shared_by_processes: bool = True
    """Whether several processes on one machine see the same data."""

    shared_by_machines: bool = True
    """Whether several machines see the same data."""

    @abstractmethod
    def open(self, namespace: str) -> StateStorage:
        """Open a namespace. Creates nothing before the first write."""

    def new_state(self, namespace: str, context: TopologyContext) -> State | None:
        """Open a state of your own for a task of a stateful bolt; None for a `KeyValueState` over `open(namespace)`.

        Override it to choose, by `context.this_component_id`, which bolts get a state of your own; they get it in
        `init_state`. Called in a task for each of its instances, and on the driver once a run for each task. Must not
        write. `open(namespace)` is still called: what decisions and recovery need lies there, beside your state.
        """
        return None

    @abstractmethod
    def namespaces(self, prefix: str = "") -> Iterable[str]:
        """Yield the names of the namespaces that hold anything and start with `prefix`, in any order."""

    @abstractmethod
    def describe(self) -> str:
        """Say in a few words where the data lies, for messages: kind and place, without secrets."""
