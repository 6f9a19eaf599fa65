"""The contract of a store: namespaces of bytes, moved from one committed transaction to the next.

A store is reached through a `StateProvider`, which opens one `StateStorage` per namespace. A storage knows nothing of
Python values (`key_value` does), topologies or Spark. It holds, per namespace:

- the committed data, key to value, of transaction `committed`, which came from the attempt `winner`;
- the **fence**: the highest (generation, seq) that has written here. A call with a lower one is refused atomically,
  with `Fenced`, and has no effect; an equal or higher one is accepted, and a higher one raises the fence;
- staged **attempts**, each with its own updates, invisible until one of them is committed.

Every call may be repeated with the same arguments (a client re-sends after a timeout) and then changes nothing
further. Only `Fenced`, `StaleAttempt` and `StateRegressed` say that nothing happened; any other error leaves that open.
`anchorbolt.testing.conformance` and `anchorbolt.testing.agreement` check that all backends behave alike. Authors of
other backends use them too, and the functions in `rules`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple
from zlib import crc32

import msgpack

from anchorbolt.errors import ConfigError, StateRegressed
from anchorbolt.state_backends.state import NO_FENCE, NOTHING_COMMITTED, Fence, State
from anchorbolt.streams.context import TopologyContext

__all__ = [
    "CHECKSUM_FACTOR",
    "NOTHING_COMMITTED",
    "NO_FENCE",
    "START_OVER",
    "Fence",
    "KeyRange",
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
"""The factor for an attempt's checksum before the next slice's checksum is added, modulo 2^32."""

LEFT_AS_FOUND = "Its data was left as it was found."
"""A sentence of `StateRegressed`. Other namespaces, and this one's fence and staged updates, may have changed."""

START_OVER = (
    "Restore the store and the checkpoint location from backups of one moment; or, to start over without the state, "
    "delete both"
)
"""The advice in messages if the store lost or changed data."""


def shown_position(txid: int, attempt: str) -> str:
    """Return the committed transaction of a namespace, for messages."""
    return f"txid {txid} from attempt {attempt}" if attempt else "nothing committed"


def regressed(namespace: str | None, expected: str, found: str) -> StateRegressed:
    """Return the error for a namespace that lost data; for the whole store if `namespace` is None."""
    where = f"namespace {namespace!r}" if namespace else "the store"
    return StateRegressed(
        f"{where} went back in time or lost data: expected {expected}, found {found}. {LEFT_AS_FOUND} {START_OVER}.",
        namespace=namespace,
        expected=expected,
        found=found,
    )


def packed_updates(updates: Mapping[bytes, bytes | None]) -> bytes:
    """Pack a slice of updates in the form of every store: msgpack of `[[key, value, key, …], [deleted key, …]]`.

    The msgpack type "bin" is not used, because Redis's Lua reads the bytes too and does not know it.
    """
    deletes: list[bytes] = []
    puts: list[bytes | None] = [None] * (2 * len(updates))
    puts[::2], puts[1::2] = updates, updates.values()
    if None in updates.values():
        deletes = [key for key, value in updates.items() if value is None]
        puts = [part for item in updates.items() if item[1] is not None for part in item]
    packed: bytes = msgpack.packb([puts, deletes], use_bin_type=False)
    return packed


def unpacked_updates(packed: bytes, checksum: int) -> dict[bytes, bytes | None]:
    """Return the updates in bytes from `packed_updates`.

    The checksum shows that the bytes are undamaged, not who wrote them, so the content is checked too. Raises
    `ValueError` if the CRC-32 of `packed` is not `checksum`, or `packed` is not a result of `packed_updates`.
    """
    if crc32(packed) != checksum:
        raise ValueError("bytes whose checksum is wrong")
    try:
        puts, deletes = msgpack.unpackb(packed, raw=True, strict_map_key=False)
        if type(puts) is type(deletes) is list and set(map(type, chain(puts, deletes))) <= {bytes}:
            updates: dict[bytes, bytes | None] = dict(zip(puts[::2], puts[1::2], strict=True))
            updates.update(dict.fromkeys(deletes))
            return updates
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise ValueError(f"other content than updates: {error}") from error
    raise ValueError("other content than updates")


class Seal(NamedTuple):
    """The staged slices of an attempt, as its writer counted them."""

    slices: int
    checksum: int  # of all slices, combined by `StagedSlice.checksum_after`


@dataclass(frozen=True)
class SizeLimits:
    """The largest entry that a store accepts. A larger entry is refused before anything is written."""

    key: int  # bytes
    value: int  # bytes
    advice: str  # how to raise the limit on values, for messages: a sentence without a full stop


class KeyRange(NamedTuple):
    """The keys from `first` to before `end`: a part of a namespace, for `scan_range`."""

    first: bytes = b""
    end: bytes | None = None  # None: to the last one


ALL_KEYS = KeyRange()


class ReadPosition(NamedTuple):
    """The state of a namespace that a reader expects. A read of any other state is refused."""

    committed: int = NOTHING_COMMITTED
    winner: str = ""  # empty if nothing is committed
    staged: Seal | None = None  # last result of `stage` for the reader's attempt: at least this is staged


@dataclass(frozen=True)
class StagedSlice:
    """One slice of an attempt's updates: the argument of one call of `stage`.

    The updates are packed here, once. A store keeps either `packed`, unchanged, or `updates`, and never computes a
    checksum.
    """

    fence: Fence
    txid: int  # the transaction to commit
    attempt: str
    base: int  # the committed txid that the updates are based on
    number: int  # 0, 1, 2, … without a gap
    updates: Mapping[bytes, bytes | None]  # None deletes; at most some thousand updates and some MiB
    codec: str  # the format header; the first writer of a namespace sets it
    packed: bytes = field(init=False, repr=False)  # see `packed_updates`
    checksum: int = field(init=False, repr=False)  # CRC-32 of `packed`

    def __post_init__(self) -> None:
        packed = packed_updates(self.updates)
        object.__setattr__(self, "packed", packed)
        object.__setattr__(self, "checksum", crc32(packed))

    def checksum_after(self, before: int) -> int:
        """Return the attempt's checksum with this slice; `before` is the checksum without it, 0 for the first slice.

        A store can compute this in a script, as Redis does in Lua: no intermediate number is above 2^53.
        """
        return (before * CHECKSUM_FACTOR + self.checksum) % 2**32


@dataclass(frozen=True)
class StagedAttempt:
    """One staged attempt in a namespace."""

    txid: int  # the transaction to commit
    base: int  # the committed txid that its updates are based on
    fence: Fence  # of the call that started it
    seal: Seal | None  # None while it is not sealed


@dataclass(frozen=True)
class NamespaceHead:
    """The metadata of a namespace, read at one moment. The defaults are those of a new namespace."""

    fence: Fence = NO_FENCE  # the highest fence that has written here
    committed: int = NOTHING_COMMITTED
    winner: str = ""  # the attempt that `committed` came from
    codec: str = ""  # the format header, as given to the first `stage` or `write`
    attempts: Mapping[str, StagedAttempt] = field(default_factory=dict)


class StateStorage(ABC):
    """One namespace of a store. Not thread-safe; opened in the process that uses it, after any fork.

    Keys and values are any bytes, values may be empty. Attempt ids are 32 lower-case hexadecimal digits.

    All methods raise `StateUnavailable` if they cannot reach the store within the configured timeout, and
    `StateCorrupted` if they cannot read the metadata of the namespace.
    Methods with a fence (for `stage`, the slice's) raise `Fenced` if it is lower than the namespace's fence.
    """

    namespace: str

    limits: SizeLimits | None = None
    """The largest entry that the store accepts; None if only memory limits it."""

    @abstractmethod
    def head(self) -> NamespaceHead:
        """Read the head of the namespace without raising its fence. Creates nothing."""

    @abstractmethod
    def claim(self, seq: int = 0) -> Fence:
        """Atomically raise the fence to (generation + 1, `seq`) and return it. No two callers get the same fence."""

    @abstractmethod
    def raise_fence(self, fence: Fence) -> NamespaceHead:
        """Raise the fence to `fence`, then read the head."""

    @abstractmethod
    def get_many(
        self, keys: Sequence[bytes], attempt: str | None = None, at: ReadPosition | None = None
    ) -> list[bytes | None]:
        """Read the values of `keys` in their order, None for an absent key, in a few round trips at most.

        With `attempt`, the updates that the attempt staged replace committed values (a staged delete gives None).

        With `at`, refuse to read a namespace in any other state. Read the state in the same step as the values, and
        again in each further step: if a store is restored from an old copy and repaired between two reads of the
        metadata, its old values must not pass as the newest.

        Raises:
            StaleAttempt: The namespace is not in the state `at`. Until a half-applied commit has finished, the state
                before it counts, so that hooks can read.
        """

    @abstractmethod
    def scan(
        self, attempt: str | None = None, page_size: int = 1000, at: ReadPosition | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield all entries in pages of about `page_size`, in any order, each entry once.

        With `attempt`, the updates that the attempt staged replace committed values. Entries are exact as long as
        nobody commits meanwhile. With `at`, check the state for each page and at the end, as `get_many` does, even if
        all pages come from one snapshot.

        Raises:
            StaleAttempt: When a page is taken: the namespace is not in the state `at`.
        """

    def ranges(self, parts: int) -> list[KeyRange]:
        """Return at most `parts` ranges that together have all keys. By default one: the keys have no order."""
        return [ALL_KEYS]

    def scan_range(
        self, within: KeyRange, page_size: int = 1000, at: ReadPosition | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the committed entries of one of the `ranges`, as `scan` does."""
        if within != ALL_KEYS:
            raise ValueError(f"the store of {self.namespace} is not scanned in ranges")
        return self.scan(None, page_size, at)

    @abstractmethod
    def stage(self, staged: StagedSlice) -> Seal:
        """Add one slice of updates to an attempt; the first slice (number 0) starts it.

        Return the count and checksum of the attempt's slices so far; after the last slice, the caller passes them to
        `seal`.

        A key in several slices has the value of the last one. Starting an attempt drops every staged attempt with a
        lower fence than the slice's. The latest slice may come again: if number and checksum are equal, accept and
        ignore it.

        Raises:
            StaleAttempt: The slice's base is not the committed txid, the attempt is staged with another txid or base,
                or is already sealed, or the slice is out of order.
            CodecMismatch: The namespace has another format header.
        """

    @abstractmethod
    def seal(self, fence: Fence, attempt: str, seal: Seal) -> None:
        """Close an attempt after its last slice. Only a sealed attempt can be committed.

        Raises:
            StaleAttempt: The attempt is not staged, or its slices in the store do not match `seal`.
        """

    @abstractmethod
    def commit(self, fence: Fence, txid: int, attempt: str) -> None:
        """Make the sealed attempt the committed data of `txid`; drop every other staged attempt.

        A commit can stop after any step; calling it again resumes it, and changes nothing if it had finished. Several
        processes may make the same call at the same time. Readers see a half-applied commit only while the driver is
        between its decision and COMMITTED.

        Raises:
            StaleAttempt: The attempt is not sealed, has another txid, or its base is not the committed txid; or `txid`
                was already committed from another attempt.
            StateRegressed: The attempt is unknown here and `txid` is not committed.
        """

    @abstractmethod
    def rollback(self, fence: Fence) -> int:
        """Drop every staged attempt, raise the fence, and return how many attempts were dropped.

        Never called while a commit is decided and unfinished. It does not undo a half-applied commit: a namespace with
        one refuses with `StaleAttempt`.
        """

    @abstractmethod
    def write(self, fence: Fence, items: Mapping[bytes, bytes], codec: str) -> None:
        """Put entries directly into the committed data, atomically and durably; txid and winner do not change.

        Only for the decision record, whose namespace takes part in no transaction.

        Raises:
            CodecMismatch: The namespace has another format header.
        """

    def count(self) -> int | None:
        """Return the number of committed entries, for people; None if the store cannot tell at once."""
        return None

    def size(self) -> int | None:
        """Return the approximate bytes that the namespace uses, for people; None if the store cannot tell at once.

        Includes the store's own overhead, and perhaps staged updates.
        """
        return None

    def remove(self, fence: Fence) -> None:
        """Remove the namespace: entries, attempts and metadata. Afterwards it is a new one, without a fence.

        Only for a topology that nobody runs any more. A removal can stop after any step: then the namespace has nothing
        committed, and calling it again finishes it. A removed namespace may be removed again.

        Raises:
            ConfigError: The store cannot remove namespaces.
        """
        raise ConfigError(
            f"the provider of {self.namespace!r} cannot remove a namespace: `remove` of {type(self).__name__} is not "
            "implemented. Remove it with the tools of the store."
        )

    def forget_deleted(self) -> int:
        """Remove what the store keeps of deleted keys, and return the number of keys; most stores keep nothing.

        Only while no writer from before the deletes is left.
        """
        return 0

    @abstractmethod
    def close(self) -> None:
        """Close connections and files. The storage is not used again; may be called twice."""


class StateProvider(ABC):
    """A store of many namespaces. Picklable: it is sent to Spark workers and opens its connections there.

    Its `repr` and its errors never hold a password.
    """

    shared_by_processes: bool = True
    """Whether several processes on one machine see the same data."""

    shared_by_machines: bool = True
    """Whether several machines see the same data."""

    commit_carries_updates: bool = False
    """Whether `StateStorage.commit` fetches the staged updates over the network and sends them back to the store.

    If True, a run on Spark calls `commit` on the executors, so that these bytes do not pass through the driver. Leave
    it False if the store itself applies staged updates.
    """

    @abstractmethod
    def open(self, namespace: str) -> StateStorage:
        """Open a namespace. Creates nothing before the first write."""

    def new_state(self, namespace: str, context: TopologyContext) -> State | None:
        """Open a custom state for a task of a stateful bolt; None means a `KeyValueState` over `open(namespace)`.

        Override it to choose, by `context.this_component_id`, which bolts get a custom state; they get it in
        `init_state`. Called in a task for each of its instances, and on the driver once per run for each task. Must not
        write. `open(namespace)` is still called: decisions and recovery keep their data there, beside the custom state.
        """
        return None

    @abstractmethod
    def namespaces(self, prefix: str = "") -> Iterable[str]:
        """Yield the names of the non-empty namespaces that start with `prefix`, in any order."""

    @abstractmethod
    def describe(self) -> str:
        """Name the kind and address of the store in a few words, for messages. Must not contain secrets."""
