"""The blobs that wait in a worker for its tasks: in memory up to a limit, then in a file."""

from __future__ import annotations

import os
import struct
import tempfile
from collections import deque
from contextlib import suppress
from typing import BinaryIO

_HEAD = struct.Struct("!II")  # destination, size of the blob


class Space:
    """The memory for all waiting blobs of a worker, and the folder for the others."""

    def __init__(self, most: int, folder: str) -> None:
        """`most` is in bytes; `folder` is the one that Spark names for such files, which may not exist."""
        self.most = most
        self.held = 0  # bytes in memory
        self.spilled = 0  # bytes that were ever written to files
        self._folder = folder if os.path.isdir(folder) else None

    def file(self) -> BinaryIO:
        """Return a new file, which has no name and is gone with its process."""
        return tempfile.TemporaryFile(dir=self._folder, buffering=0, prefix="anchorbolt-")


class Inbox:
    """The blobs for the tasks of one level in a round, in the order of their arrival."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._held: deque[tuple[int, bytes]] = deque()  # these came before all in the file
        self._file: BinaryIO | None = None
        self._read = self._written = 0  # positions in the file

    def __bool__(self) -> bool:
        return bool(self._held) or self._read < self._written

    def put(self, destination: int, payload: bytes) -> None:
        space = self._space
        if self._read == self._written and space.held + len(payload) <= space.most:
            space.held += len(payload)
            self._held.append((destination, payload))
            return
        if self._file is None:
            self._file = space.file()
        data = _HEAD.pack(destination, len(payload)) + payload
        self._written += _write(self._file, data, self._written)
        space.spilled += len(data)

    def take(self) -> tuple[int, bytes]:
        """Return the first blob, with its destination. There must be one."""
        if self._held:
            destination, payload = self._held.popleft()
            self._space.held -= len(payload)
            return destination, payload
        assert self._file is not None
        destination, size = _HEAD.unpack(_read(self._file, _HEAD.size, self._read))
        payload = _read(self._file, size, self._read + _HEAD.size)
        self._read += _HEAD.size + size
        if self._read == self._written:
            self._read = self._written = 0
            self._file.truncate(0)
        return destination, payload

    def close(self) -> None:
        """Forget all blobs."""
        self._space.held -= sum(len(payload) for _, payload in self._held)
        self._held.clear()
        self._read = self._written = 0
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None


def _write(file: BinaryIO, data: bytes, at: int) -> int:
    view = memoryview(data)
    while view:
        written = os.pwrite(file.fileno(), view, at)
        view, at = view[written:], at + written
    return len(data)


def _read(file: BinaryIO, size: int, at: int) -> bytes:
    data = os.pread(file.fileno(), size, at)
    while len(data) < size:
        more = os.pread(file.fileno(), size - len(data), at + len(data))
        if not more:
            raise OSError("a file of waiting blobs is shorter than it was written")
        data += more
    return data
