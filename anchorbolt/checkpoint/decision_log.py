"""The decision log: reads and writes the decision record, in the store and as a copy at the checkpoint location.

A driver claims the topology here. The log hands out the driver's fences. It refuses every write once a newer driver has
claimed the topology.
"""

import json
import logging
import re
import threading
from collections.abc import Mapping

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.recovery import check_same_decision
from anchorbolt.errors import AnchorboltError, Fenced, SerializationError, StateRegressed, StateUnavailable, WaveFailed
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.files import Folder
from anchorbolt.serialization import MsgpackCodec, pack, unpack
from anchorbolt.state_backends.contract import StateStorage, regressed
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.rules import prefix_of, task_namespace
from anchorbolt.state_backends.state import NO_FENCE, Fence
from anchorbolt.streams.declaration import CHECKPOINT_SPOUT_ID
from anchorbolt.util.retry import NO_RETRY, RetryPolicy

_log = logging.getLogger("anchorbolt.checkpoint")

STATE_KEY = "__state"
_CHANGES_KEY = "__changes"
_CHANGES_KEPT = 20  # HBase writes them with each decision
_BATCH_KEY = "__batch-"

_PLACE = "anchorbolt"  # below the checkpoint location
_COPY = f"{_PLACE}/decision-"
_COPY_OR_PART = re.compile(r"\.?decision-(?P<generation>[0-9]+)(\..*tmp)?")

RELEASED_SEQ = 2**31 - 1
"""The `seq` of a released fence. No round has it, so a driver that has released its fence cannot write any more.

A command that changes state writes under such a fence: if it is killed, nobody takes it for a run that is alive.
"""

Records = tuple[DecisionRecord | None, DecisionRecord | None]
"""The decision record in the store, and its copy at the checkpoint location; None if it does not exist."""

NOT_OURS_ANY_MORE = (Fenced, StateRegressed)
"""Errors after which this driver must not roll back: it could drop updates that another driver has staged."""


def record_namespace(prefix: str) -> str:
    """Return the namespace of the decision record for the prefix of a topology's namespaces."""
    return task_namespace(prefix, CHECKPOINT_SPOUT_ID, 0)


def is_record_namespace(name: str) -> bool:
    return name == record_namespace(prefix_of(name))


class DecisionLog:
    """The decision record of one topology, written under the fence of this driver.

    The namespace of the record takes part in no transaction. In a transactional topology it also holds the metadata of
    uncommitted batches. After a command it holds the records of the last changes that commands made: who changed what.
    `write_batch` may be called on any thread; all other methods on one thread.
    """

    def __init__(
        self,
        storage: StateStorage,
        folder: Folder | None = None,  # the checkpoint location, where the record is copied; None without one
        retry: RetryPolicy = NO_RETRY,
    ) -> None:
        self._storage = storage
        self._copy = None if folder is None else FolderCopy(folder)
        self._retry = retry
        self._fence = NO_FENCE
        self._lock = threading.RLock()  # held during a call of the storage
        codec = MsgpackCodec()
        self._encoding = EntryEncoding(storage.namespace, codec, codec)
        self._header = self._encoding.header
        self._key, self._changes_key = self._encoding.key_bytes([STATE_KEY, _CHANGES_KEY])

    @property
    def namespace(self) -> str:
        return self._storage.namespace

    def claim(self) -> Fence:
        """Take a new generation. From now on, writes of older drivers are refused."""
        with self._lock:
            self._fence = self._retry.until_available(self._storage.claim)
        return self._fence

    def claim_for_command(self) -> Fence:
        """Take a new generation for a command, which is not a driver: it writes under a released fence only."""
        with self._lock:
            self._fence = self._retry.until_available(lambda: self._storage.claim(RELEASED_SEQ))
        return self._fence

    def next_fence(self) -> Fence:
        """Return a new fence of this driver, higher than all before; of a command, its only one."""
        with self._lock:
            if self._fence.seq != RELEASED_SEQ:
                self._fence = Fence(self._fence.generation, self._fence.seq + 1)
            return self._fence

    def stored_generation(self) -> int:
        """Read the generation of the driver that claimed the topology last."""
        return self._retry.until_available(self._storage.head).fence.generation

    def load(self) -> Records:
        """Read the record in the store, and its copy; None if it does not exist.

        Raises `StateUnavailable` if the store or the checkpoint location cannot be read, and `StateCorrupted` if the
        bytes there are not a decision record.
        """
        with self._lock:
            return self._retry.until_available(self._load)

    def decide(self, record: DecisionRecord, change: str = "") -> None:
        """Write a decision durably to the store, then copy it to the checkpoint location. Raises as `check_claim`.

        `change` is the record of the change that a command makes by this decision, written in the same step.
        """
        self.write(record, change)
        reach(FaultPoint.DECIDED, txid=record.txid)
        self.copy(record)
        reach(FaultPoint.DECISION_COPIED, txid=record.txid)

    def write(self, record: DecisionRecord, change: str = "") -> None:
        """Write the record to the store without changing the copy. Raises as `check_claim`."""
        entries = {self._key: record.encode()}
        if change:
            entries[self._changes_key] = _packed([*self.changes(), change])
        self._write(entries)

    def changes(self) -> list[str]:
        """Read the records of the last 20 changes that commands made, oldest first."""
        with self._lock:
            [stored] = self._retry.until_available(lambda: self._storage.get_many([self._changes_key]))
        return _changes_in(stored)

    def write_batch(self, slot: int, metadata: bytes) -> None:
        """Write the metadata of a batch durably to a slot, replacing its content. Raises as `check_claim`."""
        [key] = self._encoding.key_bytes([f"{_BATCH_KEY}{slot}"])
        self._write({key: metadata})

    def load_batches(self) -> Mapping[int, bytes]:
        """Read the metadata of batches by slot."""

        def load() -> dict[int, bytes]:
            entries = (entry for page in self._storage.scan() for entry in page)
            keys = ((str(self._encoding.key_from(key)), data) for key, data in entries)
            return {int(key.removeprefix(_BATCH_KEY)): data for key, data in keys if key.startswith(_BATCH_KEY)}

        with self._lock:
            return self._retry.until_available(load)

    def copy(self, record: DecisionRecord) -> None:
        """Copy a decision that is durable in the store."""
        copy = self._copy
        if copy is None:
            return

        def write() -> None:
            try:
                copy.write(self._fence.generation, record.encode())
            except OSError as error:
                raise StateUnavailable(
                    f"the copy of decision {record.txid} cannot be written to the checkpoint location: {error}. Make "
                    "room there, or make it writable, and start again: the run continues where it stopped."
                ) from error

        self._retry.until_available(write)

    def forget_older_copies(self) -> None:
        """Remove the copies of older drivers, once this driver has written one."""
        if self._copy is not None:
            try:
                self._copy.forget_older(self._fence.generation)
            except OSError as error:
                _log.info("older copies of the decision could not be removed: %s", error)  # the next driver tries again

    def check_claim(self) -> None:
        """Raise `Fenced` if a newer driver has claimed the topology, `StateRegressed` if the store lost this claim."""
        with self._lock:
            self._retry.until_available(self._check_claim)

    def check_not_overtaken(self) -> None:
        """Check the claim once, at the end of a run. If the store does not answer, the run does not fail."""
        try:
            with self._lock:
                self._check_claim()
        except NOT_OURS_ANY_MORE:
            raise
        except AnchorboltError as error:
            _log.info("the store did not say whether a newer driver has claimed the topology: %s", error)

    def check_unchanged(self, record: DecisionRecord) -> None:
        """Check that no other driver has claimed the topology or decided a wave since this driver's last decision.

        `record` is the last record that this driver wrote or found. If the store went back to before this driver's
        claim, it gives the next driver the same generation. Then their fences are equal, and only the decisions differ.
        """

        def check() -> None:
            try:
                stored, copied = self._load()
            finally:
                self._check_claim()  # also after a failed read: a newer driver's record must not look like lost data
            check_same_decision(record, stored, copied)

        try:
            with self._lock:
                self._retry.until_available(check)
        except NOT_OURS_ANY_MORE:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Forget the claim without releasing it: another driver may hold the same fence."""
        self._fence = NO_FENCE

    def release(self) -> None:
        """Write that this driver has ended, if it holds a claim and the store can be reached.

        Without this, a run that has ended looks like a run that waits for input.
        """
        if self._fence == NO_FENCE:
            return
        try:
            self._check_claim()
            self._storage.raise_fence(Fence(self._fence.generation, RELEASED_SEQ))
        except AnchorboltError as error:
            _log.info("the fence could not be released: %s", error)

    def close(self) -> None:
        self._storage.close()

    def _write(self, entries: Mapping[bytes, bytes]) -> None:
        def write() -> None:
            self._check_claim()
            self._storage.write(self._fence, entries, self._header)

        with self._lock:
            self._retry.until_available(write)

    def _load(self) -> Records:
        try:
            # The copy first, so that it cannot be newer than the record.
            copied = None if self._copy is None else self._copy.read()
        except OSError as error:
            raise StateUnavailable(
                f"the copy of the last decision cannot be read from the checkpoint location: {error}. Make it readable."
            ) from error
        [stored] = self._storage.get_many([self._key])
        return (
            None if stored is None else DecisionRecord.decode(stored, f"namespace {self.namespace!r}"),
            None if copied is None else DecisionRecord.decode(copied, "the checkpoint location"),
        )

    def _check_claim(self) -> None:
        fence, found = self._fence, self._storage.head().fence
        if found.generation < fence.generation:
            raise regressed(self.namespace, f"generation {fence.generation}", f"generation {found.generation}")
        if found > fence:
            raise Fenced(
                f"namespace {self.namespace!r} is fenced at {tuple(found)}, this driver has {tuple(fence)}: another "
                "driver runs this topology.",
                namespace=self.namespace,
            )


def with_change(namespace: str, entries: Mapping[bytes, bytes], change: str) -> dict[bytes, bytes]:
    """Return the entries of a record's namespace with the record of one more change that a command makes."""
    codec = MsgpackCodec()
    [key] = EntryEncoding(namespace, codec, codec).key_bytes([_CHANGES_KEY])
    return {**entries, key: _packed([*_changes_in(entries.get(key)), change])}


def _packed(changes: list[str]) -> bytes:
    return pack(changes[-_CHANGES_KEPT:])


def _changes_in(stored: bytes | None) -> list[str]:
    """Return the records in stored bytes; none if the bytes are damaged, because no transaction depends on them."""
    try:
        found = [] if stored is None else unpack(stored)
    except SerializationError:
        return []
    return [each for each in found if type(each) is str] if type(found) is list else []


class FolderCopy:
    """The copies of the decision record at the checkpoint location, which survive a loss of the store.

    Each generation has its own copy, because nothing fences off an older driver there.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def read(self) -> bytes | None:
        """Return the latest copy of the highest generation; None if there is no copy."""
        gone: set[int] = set()
        # A newer driver may remove a copy between the two calls. By then it has written its own, so list them again.
        while generations := [each for each in self._generations() if each not in gone]:
            data = self._folder.read(f"{_COPY}{generations[-1]}")
            if data is not None:
                return data
            gone.add(generations[-1])
        return None

    def write(self, generation: int, data: bytes) -> None:
        self._folder.replace(f"{_COPY}{generation}", data)

    def forget_older(self, generation: int) -> None:
        """Remove the copies of older drivers, also unfinished ones."""
        for name in list(self._folder.names(_PLACE)):
            if (found := _COPY_OR_PART.fullmatch(name)) and int(found["generation"]) < generation:
                self._folder.remove_tree(f"{_PLACE}/{name}")

    def _generations(self) -> list[int]:
        names = (name.partition("decision-") for name in self._folder.names(_PLACE))
        return sorted(int(suffix) for before, _, suffix in names if not before and suffix.isdigit())


def query_id_at(folder: Folder) -> str:
    """Return the id of the query that a checkpoint location belongs to; empty for a new location.

    Raises `StateUnavailable` if the location cannot be read, and `WaveFailed` if its metadata is not Spark's.
    """
    try:
        data = folder.read("metadata")
    except OSError as error:
        raise StateUnavailable(
            f"the checkpoint location {folder.location} cannot be read: {error}. Make it readable."
        ) from error
    if not data:
        return ""
    try:
        return str(json.loads(data)["id"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WaveFailed(
            f"{folder.location}/metadata is not what Spark wrote: {error}. Restore the checkpoint location.", txid=-1
        ) from error
