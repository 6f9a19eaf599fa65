"""Entries of one namespace in layers on the local disk, oldest first: the newest entry of a key counts.

A layer is a Parquet file of some MiB. Memory holds one layer and the keys of another one, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anchorbolt.migration_tools.savepoints.writing import FILE_BYTES, Page, ParquetContent, parquet_files

# Of a layer, at most: of changes as a dict, otherwise as Parquet. With larger layers there are fewer pairs to compare,
# but 10 million entries take 850 MB of memory in layers of 64 MiB, and 460 MB in layers of this size.
_LAYER_BYTES = 16 << 20


class _Layer(NamedTuple):
    path: Path
    least: bytes  # key
    greatest: bytes

    def overlaps(self, other: _Layer) -> bool:
        return self.least <= other.greatest and other.least <= self.greatest


class Layers:
    """The layers of one namespace, in a directory of their own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = count()
        self._layers: list[_Layer] = []
        directory.mkdir()

    def add_pages(self, pages: Iterable[Page]) -> None:
        """Add entries; a key may come several times."""
        for _, content in parquet_files(pages, _LAYER_BYTES):
            self._add(content)

    def add_changes(self, slices: Iterable[dict[bytes, bytes | None]]) -> None:
        """Add changes in their order; None deletes."""
        changes, size = dict[bytes, bytes | None](), 0
        for each in slices:
            changes.update(each)
            size += sum(len(key) + len(value or b"") for key, value in each.items())
            if size >= _LAYER_BYTES:
                self._add_dict(changes)
                changes, size = {}, 0
        self._add_dict(changes)

    def merged(self) -> Iterator[tuple[int, bytes]]:
        """Yield the entries as Parquet files, each with the number of its entries."""
        file: ParquetContent | None = None
        for number, layer in enumerate(self._layers):
            table = pq.read_table(layer.path)
            for newer in self._layers[number + 1 :]:
                if newer.overlaps(layer):
                    [keys] = pq.read_table(newer.path, columns=["key"]).columns
                    table = table.filter(pc.invert(pc.is_in(table["key"], keys)))
            table = table.filter(pc.is_valid(table["value"]))
            if table.num_rows:
                file = file or ParquetContent()
                file.add_table(table)
            layer.path.unlink()
            if file is not None and file.size >= FILE_BYTES // 2:
                yield file.rows, file.content()
                file = None
        if file is not None:
            yield file.rows, file.content()

    def _add_dict(self, changes: dict[bytes, bytes | None]) -> None:
        if changes:
            file = ParquetContent()
            file.add(changes.items())
            self._add(file.content())

    def _add(self, content: bytes) -> None:
        table = pq.read_table(pa.BufferReader(content))
        if pc.count_distinct(table["key"]).as_py() < table.num_rows:  # a store may show an entry twice while it grows
            latest = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
            self._add_dict(latest)
            return
        path = self._directory / f"{next(self._numbers)}.parquet"
        path.write_bytes(content)
        ends = pc.min_max(table["key"]).as_py()
        self._layers.append(_Layer(path, ends["min"], ends["max"]))
