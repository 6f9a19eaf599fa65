"""Writes the files of a savepoint: Parquet files with the stored bytes, copies of other files, and the manifest."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.files import Folder
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.savepoints.manifest import MANIFEST, Manifest, SavedFile, SavedNamespace
from anchorbolt.state_backends.contract import NamespaceHead

if TYPE_CHECKING:
    import pyarrow as pa

FILE_BYTES = 64 << 20
"""Of keys and values in a file, which is written and read as a whole."""

_GROUP_BYTES = 8 << 20  # likewise; what is in memory as Python's objects

Page = list[tuple[bytes, bytes]]


class SavepointWriter:
    """Writes the files of a savepoint, and notes their checksums."""

    def __init__(self, place: Folder, name: str) -> None:
        self._place = place
        self._name = name
        self.files: dict[str, SavedFile] = {}

    def namespace(self, namespace: str, head: NamespaceHead, files: Iterable[tuple[int, bytes]]) -> SavedNamespace:
        """Write the Parquet files of a namespace, each given with the number of its entries."""
        entries, names = 0, list[str]()
        for rows, content in files:
            names.append(f"state/{namespace.replace(':', '@')}/{len(names):05d}.parquet")
            self.write(names[-1], content)
            entries += rows
        fence = head.fence.generation, head.fence.seq
        return SavedNamespace(head.committed, head.winner, head.codec, fence, entries, tuple(names))

    def source(self, checkpoint: Folder, name: str) -> str:
        """Copy a file of the checkpoint location; return its path in the savepoint."""
        data = checkpoint.read(name)
        if data is None:
            raise FileNotFoundError(f"{checkpoint.location}/{name} is gone: a run has removed it")
        self.write(f"sources/{name}", data)
        return f"sources/{name}"

    def end(
        self,
        topology: str,
        prefix: str,
        record: DecisionRecord,
        namespaces: Mapping[str, SavedNamespace],
        sources: Iterable[str],
    ) -> Manifest:
        """Write the manifest: now the savepoint is one."""
        manifest = Manifest(
            topology,
            prefix,
            int(time.time() * 1000),
            record.txid,
            record.query_id,
            record.batch_id,
            dict(record.parallelism),
            namespaces,
            tuple(sources),
            self.files,
        )
        self._place.replace(f"{self._name}/{MANIFEST}", manifest.encode())
        return manifest

    def write(self, path: str, data: bytes) -> None:
        self._place.replace(f"{self._name}/{path}", data)
        self.files[path] = SavedFile(len(data), sha256(data).hexdigest())


def parquet_files(pages: Iterable[Page], file_bytes: int = FILE_BYTES) -> Iterator[tuple[int, bytes]]:
    """Yield the entries as Parquet files with the columns `key` and `value`, each with the number of its entries."""
    file: ParquetContent | None = None
    for page in pages:
        file = file or ParquetContent()
        file.add(page)
        if file.size >= file_bytes:
            yield file.rows, file.content()
            file = None
    if file is not None:
        yield file.rows, file.content()


class ParquetContent:
    """The content of a Parquet file with the columns `key` and `value`, both bytes; a value may be None."""

    def __init__(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(self._sink, self._schema, use_dictionary=False)
        self._keys: list[bytes] = []
        self._values: list[bytes | None] = []
        self._waiting = 0
        self.size = 0  # bytes of keys and values
        self.rows = 0

    def add(self, page: Iterable[tuple[bytes, bytes | None]]) -> None:
        keys, values = zip(*page, strict=True)
        size = len(b"".join(keys)) + len(b"".join(filter(None, values)))
        self._keys += keys
        self._values += values
        self._waiting += size
        self.size += size
        self.rows += len(keys)
        if self._waiting >= _GROUP_BYTES:
            self._flush()

    def add_table(self, table: pa.Table) -> None:
        """Add the rows of a table with these columns."""
        self._writer.write_table(table)
        self.size += table.nbytes
        self.rows += table.num_rows

    def content(self) -> bytes:
        """End the file, and return it."""
        self._flush()
        self._writer.close()
        return self._sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def _flush(self) -> None:
        import pyarrow as pa

        if self._keys:
            self._writer.write_table(pa.table([self._keys, self._values], schema=self._schema))
        self._keys, self._values, self._waiting = [], [], 0


def counted(pages: Iterable[Page], progress: Progress) -> Iterator[Page]:
    """Yield the pages, and advance the progress by their entries."""
    for page in pages:
        yield page
        progress.advance(len(page))
