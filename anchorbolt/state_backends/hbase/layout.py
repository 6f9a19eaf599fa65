"""The rows of a namespace in an HBase table: their names, and the bytes in their cells. No I/O.

Checksums cover the metadata and the staged slices. Bytes with the right checksum are not checked any further.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import msgpack

from anchorbolt.errors import StateCorrupted
from anchorbolt.state_backends.contract import START_OVER, Fence, unpacked_updates
from anchorbolt.state_backends.rules import AttemptRecord, Metadata

DATA = b"s"
"""The column of data and of staged slices; Storm uses the same one."""

METADATA = b"books"
"""The column of the metadata. Do not rename it: cells of an older format would be missed instead of refused."""

NAMESPACES_ROW = b"$namespaces"
"""The row that has a column for each namespace of the table."""

LONGEST_ROW = 32767
VERSION_STEP = 64
"""Number of timestamps for one commit: each of up to 64 groups of slices has its own."""

_FORMAT = 3
_CHUNK_BYTES = 800_000


@dataclass(frozen=True)
class Staged:
    """An attempt in the metadata."""

    record: AttemptRecord  # without slices, the attempt is only registered, and readers do not see it
    label: str  # distinguishes its rows from those of a dropped attempt with the same id
    version: int  # `HBaseMetadata.version` when the attempt was registered


@dataclass(frozen=True)
class HBaseMetadata(Metadata):
    """The metadata of a namespace, in one cell. The defaults are those of a new namespace."""

    attempts: Mapping[str, Staged] = field(default_factory=dict)
    version: int = 0  # number of transactions that were committed here
    epoch: int = 0  # the first timestamp: the region server's clock when the namespace was created
    applied: int = 0  # number of applied groups of slices of the promoted attempt
    written: Mapping[bytes, bytes] = field(default_factory=dict)  # entries of `write`; they hide data rows

    def visible(self) -> dict[str, AttemptRecord]:
        """Return the attempts that readers see; during a half-applied commit only the winner."""
        return {
            attempt: staged.record
            for attempt, staged in self.attempts.items()
            if staged.record.slices and self.promoted in ("", attempt)
        }


class NamespaceRows:
    """The names of a namespace's rows."""

    def __init__(self, namespace: str) -> None:
        self.name = namespace.encode()
        self.metadata = self.name + b"$txid"
        self.data = self.name + b"$key:"
        self.data_end = self.name + b"$key;"
        self._staged = self.name + b"$prepare$"

    def all_staged(self, first_version: int) -> tuple[bytes, bytes]:
        """Return start and stop of all staged rows from a version on."""
        return self._staged + b"%016x" % first_version, self.name + b"$prepare%"

    def staged(self, attempt: str, staged: Staged, first_slice: int = 0) -> tuple[bytes, bytes]:
        """Return start and stop of the rows of an attempt, from a slice on."""
        prefix = self.attempt(attempt, staged)
        return prefix + b"$%08x" % first_slice, prefix + b"%"

    def slice_row(self, attempt: str, staged: Staged, slice_number: int, chunk: int) -> bytes:
        """Return the row of one chunk of a slice."""
        return self.attempt(attempt, staged) + b"$%08x.%04x" % (slice_number, chunk)

    def attempt(self, attempt: str, staged: Staged) -> bytes:
        """Return the prefix of an attempt's rows, up to the last `$`."""
        return self._staged + b"%016x$%s.%s" % (staged.version, attempt.encode(), staged.label.encode())


def packed_metadata(metadata: HBaseMetadata) -> bytes:
    """Return the metadata's cell. It contains random bytes, so that no two cells are equal for check-and-put."""
    attempts = [
        [attempt, staged.label, staged.version, *_flat(staged.record)] for attempt, staged in metadata.attempts.items()
    ]
    content = msgpack.packb(
        [
            *(os.urandom(12), metadata.fence, metadata.committed, metadata.winner, metadata.codec, metadata.promoted),
            *(attempts, metadata.version, metadata.epoch, metadata.applied, dict(metadata.written)),
        ]
    )
    packed: bytes = msgpack.packb([_FORMAT, crc32(content), content])
    return packed


def unpacked_metadata(namespace: str, cell: bytes) -> HBaseMetadata:
    """Return the metadata in a cell.

    Raises `StateCorrupted` if the cell is damaged, or another version of Anchorbolt wrote it.
    """
    try:
        form, *rest = msgpack.unpackb(cell, strict_map_key=False)
        if type(form) is int and form != _FORMAT:
            raise StateCorrupted(
                f"{namespace}: its metadata ($txid) in HBase has format {form}, and this version of Anchorbolt "
                f"knows {_FORMAT}. {START_OVER}",
                namespace=namespace,
            )
        checksum, content = rest
        if form == _FORMAT and crc32(content) == checksum:
            _, fence, committed, winner, codec, promoted, attempts, *others = msgpack.unpackb(content)
            staged = dict(_attempt(*each) for each in attempts)
            return HBaseMetadata(Fence(*fence), committed, winner, codec, promoted, staged, *others)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
        pass
    raise _corrupted(namespace, "the metadata ($txid)")


def slice_chunks(packed: bytes, checksum: int) -> list[bytes]:
    """Split a packed slice into the cells in which it is staged."""
    # The length excludes chunks that an earlier, unfinished and longer slice left behind.
    whole = len(packed).to_bytes(8, "big") + checksum.to_bytes(4, "big") + packed
    return [whole[start : start + _CHUNK_BYTES] for start in range(0, len(whole), _CHUNK_BYTES)]


def read_slices(
    namespace: str, pages: Iterator[list[tuple[bytes, bytes]]], first: int, count: int
) -> Iterator[dict[bytes, bytes | None]]:
    """Yield the slices from number `first` to before `count`. Raises `StateCorrupted` if one is missing or damaged."""
    chunks: list[bytes] = []
    expected = first
    for page in pages:
        for row, value in page:
            number, chunk = _numbers(row)
            if number >= count:
                continue  # a slice that its writer did not finish
            if chunk == 0 and chunks:
                yield _slice(namespace, expected, chunks)
                expected, chunks = expected + 1, []
            if number != expected or chunk != len(chunks):
                raise _corrupted(namespace, f"slice {expected} of a staged attempt")
            chunks.append(value)
    if chunks:
        yield _slice(namespace, expected, chunks)
        expected += 1
    if expected != count:
        raise _corrupted(namespace, f"slice {expected} of a staged attempt")


def stored(value: bytes | None) -> bytes:
    """Return the cell of a value; None means a deleted key."""
    return b"-" if value is None else b"+" + value


def value_of(namespace: str, cell: bytes) -> bytes | None:
    """Return the value in a data cell, or None for a deleted key. Raises `StateCorrupted` for any other cell."""
    if cell[:1] == b"+":
        return cell[1:]
    if cell == b"-":
        return None
    raise _corrupted(namespace, "a data cell")


def _flat(record: AttemptRecord) -> list[Any]:
    return [record.txid, record.base, *record.fence, *record[3:]]


def _attempt(attempt: str, label: str, version: int, *numbers: Any) -> tuple[str, Staged]:
    txid, base, generation, seq, *others = numbers
    return attempt, Staged(AttemptRecord(txid, base, Fence(generation, seq), *others), label, version)


def _numbers(row: bytes) -> tuple[int, int]:
    number, _, chunk = row[row.rfind(b"$") + 1 :].partition(b".")
    try:
        return int(number, 16), int(chunk, 16)
    except ValueError:
        return -1, -1


def _slice(namespace: str, number: int, chunks: list[bytes]) -> dict[bytes, bytes | None]:
    whole = b"".join(chunks)
    packed = whole[12 : 12 + int.from_bytes(whole[:8], "big")]
    try:
        return unpacked_updates(packed, int.from_bytes(whole[8:12], "big"))
    except ValueError as error:
        raise _corrupted(namespace, f"slice {number} of a staged attempt") from error


def _corrupted(namespace: str, what: str) -> StateCorrupted:
    return StateCorrupted(f"{namespace}: {what} in HBase is missing or damaged. {START_OVER}", namespace=namespace)
