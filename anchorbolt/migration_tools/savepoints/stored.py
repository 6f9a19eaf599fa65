"""Reads a savepoint as a store, so that it is copied into another one as any store is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NoReturn

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import STATE_KEY, is_record_namespace
from anchorbolt.errors import ConfigError, StateCorrupted, StateUnavailable
from anchorbolt.files import Folder
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.savepoints.manifest import MANIFEST, Manifest, SavedNamespace
from anchorbolt.serialization.codecs import MsgpackCodec
from anchorbolt.state_backends.contract import (
    Fence,
    NamespaceHead,
    ReadPosition,
    Seal,
    StagedSlice,
    StateProvider,
    StateStorage,
)
from anchorbolt.state_backends.encoding import EntryEncoding

_ADVICE = "Take another savepoint, or restore its files from a backup"


@dataclass(frozen=True)
class Savepoint(StateProvider):
    """A savepoint, read as the store of its topology, or of a fork of it.

    A fork has another name, other namespaces and another streaming query, whose id follows from the savepoint and the
    name.
    """

    folder: Folder
    name: str
    manifest: Manifest
    topology: str
    prefix: str

    shared_by_processes = False
    shared_by_machines = False

    @classmethod
    def read(cls, folder: Folder, name: str) -> Savepoint:
        """Read the manifest. Raises `ConfigError` if there is none, and `StateCorrupted` if it is damaged."""
        where = f"{folder.location}/{name}/{MANIFEST}"
        try:
            data = folder.read(f"{name}/{MANIFEST}")
            if data is None:
                found = ", ".join(savepoints_in(folder)) or "none"
                unfinished = " One was begun there and not finished." if _has_parts(folder, name) else ""
                raise ConfigError(
                    f"there is no savepoint {name!r} in {folder.location}.{unfinished} The savepoints there: {found}."
                )
        except OSError as error:
            raise StateUnavailable(f"{where} cannot be read: {error}.") from error
        manifest = Manifest.decode(data, where)
        return cls(folder, name, manifest, manifest.topology, manifest.prefix)

    def as_topology(self, topology: str, prefix: str) -> Savepoint:
        """Return the savepoint as the store of a topology: of its own, or of a fork."""
        return replace(self, topology=topology, prefix=prefix)

    @property
    def query_id(self) -> str:
        """The id of the query that continues where the savepoint's query was; empty without one."""
        saved = self.manifest
        if not saved.query_id or self.topology == saved.topology:
            return saved.query_id
        return str(uuid.uuid5(uuid.UUID(saved.query_id), f"{saved.created}/{saved.txid}/{self.topology}"))

    def open(self, namespace: str) -> SavedStorage:
        return SavedStorage(self, namespace, self.manifest.namespaces.get(self._saved_name(namespace)))

    def namespaces(self, prefix: str = "") -> Iterator[str]:
        for saved in self.manifest.namespaces:
            if (name := self._name_of(saved)).startswith(prefix):
                yield name

    def describe(self) -> str:
        return f"savepoint {self.folder.location}/{self.name}"

    def source_files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files of the checkpoint location, by their paths there."""
        for path in self.manifest.sources:
            name, data = path.removeprefix("sources/"), self.checked(path)
            if name == "metadata":
                data = json.dumps({"id": self.query_id}).encode()
            yield name, data

    def checked(self, path: str) -> bytes:
        """Return the content of a file. Raises `StateCorrupted` if it is not the file that was saved."""
        try:
            data = self.folder.read(f"{self.name}/{path}")
        except OSError as error:
            raise StateUnavailable(f"{self.describe()}: {path} cannot be read: {error}.") from error
        saved = self.manifest.files[path]
        if data is None or (len(data), sha256(data).hexdigest()) != (saved.size, saved.checksum):
            what = "is missing" if data is None else "is damaged: its size or its checksum is another one"
            raise StateCorrupted(f"{self.describe()}: {path} {what}. {_ADVICE}.")
        return data

    def forked(self, data: bytes) -> bytes:
        """Return the decision record of the fork. Its sinks begin anew."""
        record = DecisionRecord.decode(data, self.describe())
        return replace(
            record,
            topology=self.topology,
            query_id=self.query_id,
            namespaces={self._name_of(name): at for name, at in record.namespaces.items()},
            winners={self._name_of(name): winner for name, winner in record.winners.items()},
            outbox=(),
            schemas={},
            dead_letters=(),
            replayed={},
        ).encode()

    def _saved_name(self, namespace: str) -> str:
        return _under_prefix(namespace, self.prefix, self.manifest.prefix)

    def _name_of(self, saved: str) -> str:
        return _under_prefix(saved, self.manifest.prefix, self.prefix)


class SavedStorage(StateStorage):
    """One namespace of a savepoint. It cannot be written to."""

    def __init__(self, savepoint: Savepoint, namespace: str, saved: SavedNamespace | None) -> None:
        self.namespace = namespace
        self._savepoint = savepoint
        self._saved = saved

    def head(self) -> NamespaceHead:
        return NamespaceHead() if self._saved is None else self._saved.head

    def count(self) -> int:
        return 0 if self._saved is None else self._saved.entries

    def scan(
        self, attempt: str | None = None, page_size: int = 1000, at: ReadPosition | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Entries come as they were saved. Each file is checked before it is read."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for path in () if self._saved is None else self._saved.files:
            try:
                with pq.ParquetFile(pa.BufferReader(self._savepoint.checked(path))) as file:
                    for batch in file.iter_batches(page_size, columns=["key", "value"]):
                        keys, values = (column.to_pylist() for column in batch.columns)
                        yield self._rewritten(list(zip(keys, values, strict=True)))
            except pa.ArrowException as error:
                raise StateCorrupted(f"{self._savepoint.describe()}: {path} cannot be read: {error}. {_ADVICE}.") from (
                    error
                )

    def get_many(
        self, keys: Sequence[bytes], attempt: str | None = None, at: ReadPosition | None = None
    ) -> list[bytes | None]:
        """Reads the whole namespace: for the decision record."""
        wanted, found = set(keys), dict[bytes, bytes]()
        for page in self.scan():
            found.update(entry for entry in page if entry[0] in wanted)
        return [found.get(key) for key in keys]

    def _rewritten(self, page: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return the entries of a page, with the decision record of a fork."""
        savepoint = self._savepoint
        if not is_record_namespace(self.namespace) or savepoint.topology == savepoint.manifest.topology:
            return page
        codec = MsgpackCodec()
        [record_key] = EntryEncoding(self.namespace, codec, codec).key_bytes([STATE_KEY])
        return [(key, savepoint.forked(data) if key == record_key else data) for key, data in page]

    def close(self) -> None:
        pass

    def _refuse(self) -> NoReturn:
        raise ConfigError(f"{self._savepoint.describe()} cannot be written to. Restore it into a store.")

    def claim(self, seq: int = 0) -> Fence:
        self._refuse()

    def raise_fence(self, fence: Fence) -> NamespaceHead:
        self._refuse()

    def stage(self, staged: StagedSlice) -> Seal:
        self._refuse()

    def seal(self, fence: Fence, attempt: str, seal: Seal) -> None:
        self._refuse()

    def commit(self, fence: Fence, txid: int, attempt: str) -> None:
        self._refuse()

    def rollback(self, fence: Fence) -> int:
        self._refuse()

    def write(self, fence: Fence, items: Mapping[bytes, bytes], codec: str) -> None:
        self._refuse()


def _under_prefix(namespace: str, old: str, new: str) -> str:
    """Return the name of a namespace under another prefix; each prefix may be empty."""
    task = namespace.removeprefix(f"{old}:") if old else namespace
    return f"{new}:{task}" if new else task


def savepoints_in(folder: Folder) -> list[str]:
    """Return the names of the savepoints in a folder, without interrupted ones."""
    return [name for name in folder.names("") if folder.exists(f"{name}/{MANIFEST}")]


def _has_parts(folder: Folder, name: str) -> bool:
    """Return whether a directory has parts of a savepoint, and nothing else."""
    names = set(folder.names(name))
    return bool(names) and names <= {MANIFEST, "state", "sources"}


def discard(folder: Folder, name: str) -> None:
    """Delete a savepoint, its manifest first. Raises `ConfigError` if the folder is not a savepoint."""
    try:
        if not _has_parts(folder, name):
            raise ConfigError(f"{folder.location}/{name} is not the directory of a savepoint: nothing was deleted.")
        folder.remove_tree(f"{name}/{MANIFEST}")
        folder.remove_tree(name)
    except OSError as error:
        raise StateUnavailable(f"{folder.location}/{name} cannot be deleted: {error}.") from error


def verify(savepoint: Savepoint, progress: Progress | None = None) -> int:
    """Read all files of a savepoint; return the number of entries. Raises `StateCorrupted` if it is not whole."""
    progress, entries = progress or Progress(), 0
    for path in savepoint.manifest.sources:
        savepoint.checked(path)
    for name in savepoint.namespaces():
        storage = savepoint.open(name)
        progress.begin(f"reading {name}", storage.count())
        found = 0
        for page in storage.scan():
            found += len(page)
            progress.advance(len(page))
        if found != storage.count():
            raise StateCorrupted(
                f"{savepoint.describe()}: {name} has {found:,} entries instead of {storage.count():,}. {_ADVICE}."
            )
        entries += found
    return entries
