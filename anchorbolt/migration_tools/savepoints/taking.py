"""Takes a savepoint of a topology that is not running: copies its namespaces into Parquet files.

The files hold the stored bytes, so nothing is lost: due times, timers, custom codecs. The files with the positions of
the query's sources are copied beside them. The manifest comes last.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from hashlib import sha256

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import RELEASED_SEQ
from anchorbolt.errors import ConfigError, MigrationRefused, StateUnavailable
from anchorbolt.files import Folder
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.copy import check_source, source_namespaces
from anchorbolt.migration_tools.savepoints.manifest import MANIFEST, Manifest, SavedFile, SavedNamespace
from anchorbolt.migration_tools.topology_inspection import TopologySnapshot, read_topology
from anchorbolt.state_backends.contract import Fence, NamespaceHead, StateProvider

_PAGE = 10_000
_FILE_BYTES = 64 << 20  # of keys and values; a file is written and read as a whole
_GROUP_BYTES = 8 << 20  # likewise; what is in memory as Python's objects
QUERY = "metadata"
"""The file of the checkpoint location with the id of the query."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def take_savepoint(
    provider: StateProvider,
    topology: str,
    prefix: str,
    checkpoint: Folder,
    place: Folder,
    name: str,
    *,
    take_fence: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Take a savepoint of a topology that is not running. Only reads the store.

    Args:
        provider: The store.
        topology: Name of the topology.
        prefix: Prefix of its namespaces, without the colon; may be empty.
        checkpoint: The checkpoint location of its runs.
        place: The folder of savepoints. The savepoint is the folder `name` in it.
        name: Letters, digits, and `._-`.
        take_fence: Do not refuse if a killed run still holds the fence. Nothing is fenced.
        progress: Receives the progress.

    Raises:
        ConfigError: The name is not valid, or is taken.
        MigrationRefused: A run is alive, a transaction is open, the store disagrees with its decision record or with
            the checkpoint location, or it changed meanwhile. An unfinished savepoint is no savepoint.
        StateError: The store failed; see `StateStorage`.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} cannot be the name of a savepoint. Use letters, digits, '.', '_' and '-'.")
    progress = progress or Progress()
    try:
        if place.exists(f"{name}/{MANIFEST}"):
            raise ConfigError(f"{place.location} has a savepoint {name!r} already. Give another --name, or delete it.")
        snapshot = read_topology(provider, topology, prefix, checkpoint)
        check_source(snapshot, provider, with_custom_states=False, taken=take_fence)
        record = snapshot.stored
        assert record is not None, "check_source refuses a store without a record"
        _check_sources(snapshot, record, checkpoint)
        place.remove_tree(name)  # of an interrupted one
        writing = _Writing(place, name)
        heads = {
            **{each: snapshot.heads[each] for each in source_namespaces(snapshot)},
            snapshot.record_namespace: replace(snapshot.record_head, fence=Fence(snapshot.generation, RELEASED_SEQ)),
        }
        namespaces = {each: writing.namespace(provider, each, head, progress) for each, head in heads.items()}
        sources = tuple(writing.source(checkpoint, each) for each in _source_files(checkpoint, record))
        again = read_topology(provider, topology, prefix, checkpoint)
        if (again.stored, again.record_head, again.heads) != (record, snapshot.record_head, snapshot.heads):
            raise MigrationRefused(
                f"a run wrote to {topology!r} meanwhile: {place.location}/{name} is no savepoint. Stop the run first."
            )
        manifest = Manifest(
            topology,
            prefix,
            int(time.time() * 1000),
            record.txid,
            record.query_id,
            record.batch_id,
            dict(record.parallelism),
            namespaces,
            sources,
            writing.files,
        )
        place.replace(f"{name}/{MANIFEST}", manifest.encode())
        return manifest
    except OSError as error:
        raise StateUnavailable(f"{place.location}/{name} cannot be written: {error}.") from error


class _Writing:
    """Writes the files of a savepoint, and notes their checksums."""

    def __init__(self, place: Folder, name: str) -> None:
        self._place = place
        self._name = name
        self.files: dict[str, SavedFile] = {}

    def namespace(
        self, provider: StateProvider, namespace: str, head: NamespaceHead, progress: Progress
    ) -> SavedNamespace:
        entries, files = 0, list[str]()
        with closing(provider.open(namespace)) as storage:
            progress.begin(f"saving {namespace}", storage.count())
            pages = _counted(storage.scan(page_size=_PAGE), progress)
            page = next(pages, None)
            while page is not None:
                parquet = _Parquet()
                while page is not None and parquet.size < _FILE_BYTES:
                    parquet.add(page)
                    page = next(pages, None)
                files.append(f"state/{namespace.replace(':', '@')}/{len(files):05d}.parquet")
                self.write(files[-1], parquet.content())
                entries += parquet.rows
        fence = head.fence.generation, head.fence.seq
        return SavedNamespace(head.committed, head.winner, head.codec, fence, entries, tuple(files))

    def source(self, checkpoint: Folder, name: str) -> str:
        """Copy a file of the checkpoint location; return its path in the savepoint."""
        data = checkpoint.read(name)
        if data is None:
            raise FileNotFoundError(f"{checkpoint.location}/{name} is gone: a run has removed it")
        self.write(f"sources/{name}", data)
        return f"sources/{name}"

    def write(self, path: str, data: bytes) -> None:
        self._place.replace(f"{self._name}/{path}", data)
        self.files[path] = SavedFile(len(data), sha256(data).hexdigest())


class _Parquet:
    """The content of a Parquet file with the columns `key` and `value`."""

    def __init__(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(self._sink, self._schema, use_dictionary=False)
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._waiting = 0
        self.size = 0
        self.rows = 0

    def add(self, page: Iterable[tuple[bytes, bytes]]) -> None:
        keys, values = zip(*page, strict=True)
        size = len(b"".join(keys)) + len(b"".join(values))
        self._keys += keys
        self._values += values
        self._waiting += size
        self.size += size
        if self._waiting >= _GROUP_BYTES:
            self._flush()

    def content(self) -> bytes:
        """End the file, and return it."""
        self._flush()
        self._writer.close()
        return self._sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def _flush(self) -> None:
        import pyarrow as pa

        if self._keys:
            self._writer.write_table(pa.table([self._keys, self._values], schema=self._schema))
        self.rows += len(self._keys)
        self._keys, self._values, self._waiting = [], [], 0


def _counted(pages: Iterator[list[tuple[bytes, bytes]]], progress: Progress) -> Iterator[list[tuple[bytes, bytes]]]:
    for page in pages:
        yield page
        progress.advance(len(page))


def _check_sources(snapshot: TopologySnapshot, record: DecisionRecord, checkpoint: Folder) -> None:
    """Refuse a checkpoint location that does not have the positions of the record's query."""
    if record.query_id and snapshot.query_id != record.query_id:
        found = f"belongs to query {snapshot.query_id}" if snapshot.query_id else "has no streaming query"
        raise MigrationRefused(
            f"the state was computed from streaming query {record.query_id}, but the checkpoint location "
            f"{checkpoint.location} {found}. Give --conf with the file of the runs, and start the command where they "
            "are started."
        )


def _source_files(checkpoint: Folder, record: DecisionRecord) -> Iterator[str]:
    """Yield the files that hold the positions of the query, up to the last batch in the state."""
    if not record.query_id:
        return
    for folder in ("offsets", "commits"):
        for name in checkpoint.names(folder):
            if name.isdigit() and int(name) <= record.batch_id:  # Spark plans later batches again
                yield f"{folder}/{name}"
    for source in checkpoint.names("sources"):
        for name in checkpoint.names(f"sources/{source}"):
            if not name.startswith("."):  # as the checksums of Hadoop
                yield f"sources/{source}/{name}"
    yield QUERY
